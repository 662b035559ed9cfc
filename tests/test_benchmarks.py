"""The benchmarks run, and what they compare with does the same work; what training imports."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from conftest import ROOT

from benchmarks import data as benchmark
from benchmarks import peers, products, startup, train_step
from data import batching, show
from synth.attention import layer
from synth.attention.attend import attend
from synth.steps import make_train_step


def test_the_table_has_a_row_for_each_way(data_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(benchmark, "SECONDS", 0.02)
    monkeypatch.setattr(benchmark, "ROUNDS", 1)
    page = tmp_path / "data.md"
    tasks = "lm1b,imdb"
    assert benchmark.main([f"--data_dir={data_dir}", f"--tasks={tasks}", f"--write={page}"]) == 0
    assert capsys.readouterr().out.strip() in page.read_text("utf-8")
    rows = [
        line.split("|")[1:-1] for line in page.read_text("utf-8").splitlines() if "web_" in line
    ]
    assert [row[2].strip() for row in rows][:2] == ["ours", "plain loop"]
    assert all(int(row[4].replace(",", "")) > 0 for row in rows)


def test_the_plain_loop_does_the_same_work(data_dir, monkeypatch):
    monkeypatch.chdir(ROOT)
    view = show.open_view("wmt_ende", split="test", data_dir=data_dir)
    layout, tokenizer = view.layout, view.tokenizer
    batch = next(benchmark.plain_loop(view.split, tokenizer, layout))
    ids_of = batching.encode(view.split.__getitems__(range(layout.rows(96))), tokenizer)
    for side, ids in ids_of.items():
        for row_L, expected in zip(batch[side], ids, strict=True):
            np.testing.assert_array_equal(row_L[row_L > 0], batching.truncate(expected, 96))
    assert benchmark.count_examples(batch) == layout.rows(96)


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
    experiment = train_step.make_our_experiment(config)
    state = experiment.init_state()
    batch = train_step.make_batch(size, experiment.vocab_size)

    def logits() -> jax.Array:
        return experiment.model(state.params, state.fixed)(batch, jax.random.key(0))

    ours = logits()
    with peers.plain_attention():
        assert layer.attend is peers.plain_attend
        plain = logits()
    assert layer.attend is attend
    np.testing.assert_allclose(ours, plain, atol=1e-4)


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


_IMPORTS = """
import sys
import train
from synth import training
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_training_imports_nothing_that_it_does_not_use():
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert {"jax", "flax", "grain", "orbax"} <= imported
    assert not imported & {
        "tensorflow",
        "tensorflow_datasets",
        "torch",
        "matplotlib",
        "tensorboardX",
        "sacrebleu",
        "sacremoses",
        "rouge_score",
        "sklearn",
        "scipy",
        "pandas",
        "nltk",
        "tabulate",
        "tqdm",
        "benchmarks",
    }


def test_the_products_are_those_of_the_compiled_step(monkeypatch):
    monkeypatch.chdir(ROOT)
    size = train_step.SIZES["tiny"]
    config = train_step.config_of(size, "vanilla")
    config.data.update(vocab_size=4096)  # so that the products are most of the operations
    experiment = train_step.make_our_experiment(config)
    state, batch = experiment.abstract_state(), train_step.make_batch(size, 4096)
    counted = make_train_step(experiment).lower(state, batch).cost_analysis()["flops"]
    computed = products.operations(products.products(config, size.rows, size.length))
    assert 0.7 < computed / counted < 1.0
