"""The benchmarks of the training step and of start-up run, and the plain way is the same model."""

import jax
import numpy as np
import pytest
from conftest import ROOT

from benchmarks import plain, products, startup, train_step
from synth.attention import layer
from synth.attention.attend import attend
from synth.experiment import make_textless_experiment
from synth.steps import make_train_step


def test_the_training_step_has_a_row_for_each_way(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    page = tmp_path / "page.md"
    flags = ["--size=tiny", "--variants=vanilla,random", "--plain=random", "--rounds=1"]
    assert train_step.main([*flags, f"--write={page}"]) == 0
    assert capsys.readouterr().out.strip() in page.read_text("utf-8")
    rows = [line.split("|")[1:-1] for line in page.read_text("utf-8").splitlines()]
    ways = {row[0].strip(): row for row in rows if row}
    expected = {"vanilla", "random", "random, plain", "products alone"}
    assert expected <= ways.keys()
    assert all(float(ways[name][1]) > 0 for name in expected)


@pytest.mark.parametrize("variant", ["vanilla", "random", "random+vanilla", "factorized_dense"])
def test_the_plain_formulation_is_the_same_model(variant, monkeypatch):
    monkeypatch.chdir(ROOT)
    size = train_step.SIZES["tiny"]
    config = train_step.config_of(size, variant)
    experiment = make_textless_experiment(config)
    state = experiment.init_state()
    batch = train_step.make_batch(size, experiment.vocab_size)

    def logits() -> jax.Array:
        return experiment.model(state.params, state.fixed)(batch, jax.random.key(0))

    ours = logits()
    with plain.plain_attention():
        assert layer.attend is plain.plain_attend
        usual = logits()
    assert layer.attend is attend
    np.testing.assert_allclose(ours, usual, atol=1e-4)


def test_start_up_is_measured_by_part(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    config = "configs/wmt_ende.py:random,scale=tiny"
    assert startup.main([f"--config={config}", "--warm_starts=1"]) == 0
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()]
    parts = [row for row in rows if row and row[0].strip() in (*startup.PARTS, "all")]
    seconds = {row[0].strip(): float(row[1]) for row in parts}
    assert list(seconds) == [*startup.PARTS, "all"]
    assert all(value > 0 for value in seconds.values())
    assert abs(seconds.pop("all") - sum(seconds.values())) < 0.1


def test_the_products_are_those_of_the_compiled_step(monkeypatch):
    monkeypatch.chdir(ROOT)
    size = train_step.SIZES["tiny"]
    config = train_step.config_of(size, "vanilla")
    config.data.update(vocab_size=4096)  # so that the products are most of the operations
    experiment = make_textless_experiment(config)
    state, batch = experiment.abstract_state(), train_step.make_batch(size, 4096)
    counted = make_train_step(experiment).lower(state, batch).cost_analysis()["flops"]
    computed = products.operations(products.products(config, size.rows, size.length))
    assert 0.7 < computed / counted < 1.0
