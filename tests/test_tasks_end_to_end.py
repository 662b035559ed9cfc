"""Every task that has text here: trained for a few steps, saved, scored."""

import json
import math
import shutil

import jax
import numpy as np
import pytest
from conftest import cut_text, evaluate_one

from synth import training
from synth.errors import UserError
from synth.rundir import RunDir
from synth.trained import load_trained

FEW_STEPS = {
    "train.num_steps": 3,
    "train.log_every": 1,
    "train.eval_every": 3,
    "train.checkpoint_every": 3,
}
LIKELIHOOD = {"ppl_token", "ppl_word", "bits_per_byte", "log_ppl_token"}
METRICS = {
    "cnn_dailymail": {"rouge1", "rouge2", "rougeLsum", *LIKELIHOOD},
    # Without Java and word vectors; mixtures: test_row.py.
    "personachat": {*(f"dialogue_bleu{n}" for n in (1, 2, 3, 4)), "dialogue_rougeL", "cider"}
    | LIKELIHOOD,
    "c4": {"ppl_token", "log_ppl_token"},
    "imdb": {"accuracy"},
}


@pytest.mark.parametrize("task", METRICS)
def test_a_task_is_trained_and_scored(task, tiny, short_text, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    run = RunDir(tmp_path / "run")
    outcome = training.train(tiny(f"{task}:random+vanilla", FEW_STEPS), run)
    assert outcome.step == 3
    losses = [record["train/loss"] for record in run.read_metrics() if "train/loss" in record]
    assert len(losses) == 3 and all(math.isfinite(loss) and loss > 0 for loss in losses)
    scored = evaluate_one(run)
    assert {figure.metric for figure in scored.figures} == METRICS[task]
    assert scored.split == "test" and scored.n_items == 23
    if task == "personachat":
        told = capfd.readouterr().err
        assert "meteor: n/a, METEOR needs Java" in told and "embedding_average: n/a" in told
    *written, path = scored.files
    assert [file.suffix for file in written] == [".txt"] * (len(METRICS[task]) > 4)
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    if task == "imdb":
        right = sum(row["label"] == row["predicted"] for row in rows)
        assert scored.figures[0].value == pytest.approx(100 * right / 23)
        assert scored.figures[0].sums == {"right": right, "examples": 23}
        assert {row["predicted"] for row in rows} <= {0, 1}
    else:
        nll, tokens = (math.fsum(row[key] for row in rows) for key in ("nll", "tokens"))
        log_ppl = next(f.value for f in scored.figures if f.metric == "log_ppl_token")
        assert log_ppl == pytest.approx(nll / tokens)


@pytest.fixture(scope="module")
def pretrained(tiny, tmp_path_factory):
    """A run on C4's stand-in."""
    run = RunDir(tmp_path_factory.mktemp("c4") / "run")
    with cut_text():
        training.train(tiny("c4:random+vanilla", FEW_STEPS), run)
    return run


def test_fine_tuning_starts_from_the_parameters_and_vocabulary_of_a_run(
    pretrained, tiny, short_text, tmp_path
):
    run = RunDir(tmp_path / "run")
    changes = {
        **FEW_STEPS,
        "train.num_steps": 1,
        "train.init_from": str(pretrained.path),
        "optimizer.learning_rate": 0.0,
    }
    training.train(tiny("glue:random+vanilla", changes), run)
    assert run.vocabulary.read_bytes() == pretrained.vocabulary.read_bytes()
    before, after = (load_trained(r, "last")[2:] for r in (pretrained, run))
    jax.tree.map(np.testing.assert_array_equal, after, before)
    evaluate_one(run)


def test_a_fine_tuned_run_goes_on_without_the_one_it_started_from(
    pretrained, tiny, short_text, tmp_path
):
    source = RunDir(shutil.copytree(pretrained.path, tmp_path / "source"))
    changes = {**FEW_STEPS, "train.init_from": str(source.path)}
    run = RunDir(tmp_path / "run")
    training.train(tiny("glue:random+vanilla", changes), run)
    shutil.rmtree(source.path)
    longer = {**changes, "train.num_steps": 4}
    assert training.train(tiny("glue:random+vanilla", longer), run).step == 4


def test_a_source_whose_vocabulary_was_exchanged_is_refused_and_leaves_nothing(
    pretrained, trained_lm, tiny, short_text, tmp_path
):
    source = RunDir(shutil.copytree(pretrained.path, tmp_path / "source"))
    changes = {**FEW_STEPS, "train.init_from": str(source.path)}
    shutil.copy(trained_lm.vocabulary, source.vocabulary)  # of the same size
    run = RunDir(tmp_path / "run")
    with pytest.raises(UserError, match="was trained with the vocabulary"):
        training.train(tiny("glue:random+vanilla", changes), run)
    assert not run.path.exists()


def test_a_vocabulary_without_sentinels_hides_no_spans(trained_lm, tiny, short_text, tmp_path):
    changes = {**FEW_STEPS, "train.init_from": str(trained_lm.path)}
    with pytest.raises(UserError, match="the task c4 hides spans behind sentinels"):
        training.train(tiny("c4:random+vanilla", changes), RunDir(tmp_path / "run"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"model.ff_dim": 48},
            r"decoder\.blocks\.0\.feed_forward\.in_DF is \(16, 32\) there and \(16, 48\) here",
        ),
        ({"model.num_layers": 2}, r"decoder\.blocks\.1\..* is absent there and"),
    ],
)
def test_another_model_cannot_start_from_it(changes, told, pretrained, tiny, short_text, tmp_path):
    changes = {**FEW_STEPS, **changes, "train.init_from": str(pretrained.path)}
    with pytest.raises(UserError, match=told):
        training.train(tiny("glue:random+vanilla", changes), RunDir(tmp_path / "run"))
    assert not (tmp_path / "run").exists()  # the corrected command may use it


def test_a_run_that_is_not_there_is_named(tiny, short_text, tmp_path):
    changes = {**FEW_STEPS, "train.init_from": str(tmp_path / "none")}
    with pytest.raises(UserError, match=r"train\.init_from=.*none"):
        training.train(tiny("glue:vanilla", changes), RunDir(tmp_path / "run"))


def test_another_number_of_processes_is_refused_with_both_unless_it_is_exact():
    """Eight rows do not divide by three; by two they do (test_data_kinds.py: exactly)."""
    training.check_processes(1, 2, 8)
    with pytest.raises(UserError, match=r"trained by 4 process\(es\) and cannot .* with 3"):
        training.check_processes(4, 3, 8)
