"""Records say what was run, scored and found; a run cut short never passes for the whole one."""

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jax
import pytest
from conftest import ROOT, cut_text, evaluate_one

from data import sources, tasks
from data.tokenizer import Tokenizer
from synth import evaluation, records, results
from synth.rundir import RunDir, RunInfo


@pytest.fixture(scope="module")
def scored_lm(trained_lm) -> evaluation.Scored:
    with cut_text():
        return evaluate_one(trained_lm, split="validation")


def some_info(tiny, overrides: dict[str, Any]) -> RunInfo:
    """A run with exactly these overrides (and the fixture's, which are no overrides of note)."""
    info = tiny("wmt_ende:random", overrides)
    return RunInfo(info.name, overrides, info.config, info.command)


# --- Fields ---------------------------------------------------------------------------------------


def test_every_figure_becomes_a_record_of_the_run(trained_lm, scored_lm):
    found = records.make_records(trained_lm, scored_lm, "python eval.py --workdir=x")
    metrics = ["ppl_token", "ppl_word", "bits_per_byte", "log_ppl_token"]
    assert [record.metric for record in found] == metrics
    assert [record.value for record in found] == [figure.value for figure in scored_lm.figures]
    for record in found:
        assert (record.task, record.dataset, record.split) == ("lm1b", "web_lm", "validation")
        assert (record.variant, record.mix, record.scale) == ("random+vanilla", "softmax", "tiny")
        assert (record.seed, record.step, record.n_items) == (0, 4, 23)
        assert record.command == "python train.py"
        assert record.eval_command == "python eval.py --workdir=x"
        assert record.empty_outputs is None
        assert record.device.startswith("8 x cpu")
        assert record.versions["jax"] == jax.__version__
        assert record.versions["vocabulary"] == Tokenizer.load(trained_lm.vocabulary).hash
        assert record.sums["lines"] == 23
        assert math.isclose(record.sums["nll"] / record.sums["tokens"], found[3].value)
        assert record.train_seconds is not None


def test_the_hash_of_the_test_set_is_of_its_raw_text(trained_lm, scored_lm, data_dir):
    split = sources.open_split(
        tasks.LM1B.dataset("web_lm"), "validation", data_dir=data_dir
    ).__getitems__(range(23))
    assert scored_lm.sha256 == evaluation.text_sha256(split)
    assert scored_lm.sha256 != evaluation.text_sha256(split[:-1])
    assert scored_lm.sha256 != evaluation.text_sha256(split[::-1])
    assert evaluation.text_sha256([{"targets": "a"}]) != evaluation.text_sha256([{"inputs": "a"}])


def test_runs_of_different_configs_have_different_hashes(tiny):
    hashes = [
        tiny("lm1b:random", changes).config_hash
        for changes in ({}, {"seed": 1}, {"optimizer.eps": 1e-8}, {})
    ]
    assert hashes[0] == hashes[3]
    assert len(set(hashes)) == 3


# --- Overrides ------------------------------------------------------------------------------------


def test_overrides_that_make_another_run_are_recorded(tiny):
    overrides = {
        "optimizer.learning_rate": 1.0,
        "data.bucket_lengths": (32, 64),
        "train.num_steps": 30,
    }
    assert records.recorded_overrides(some_info(tiny, overrides), 30) == {
        "optimizer.learning_rate": 1.0,
        "data.bucket_lengths": [32, 64],
        "train.num_steps": 30,
    }


def test_overrides_that_change_no_figure_are_not(tiny):
    overrides = {
        "data.data_dir": "/elsewhere",
        "train.log_every": 1,
        "train.eval_every": 2,
        "train.checkpoint_every": 1,
        "train.keep_checkpoints": 1,
        "decode.beam": 1,
        "sharding.mesh.fsdp": 2,
        "model.remat": True,
        "seed": 4,
        "model.attention.variant": "dense",
        "model.attention.mix": "sum",
    }
    assert records.recorded_overrides(some_info(tiny, overrides), 20) == {}


def test_an_unfinished_run_is_recorded_as_one_of_so_many_steps(tiny):
    info = some_info(tiny, {})
    assert records.recorded_overrides(info, 20) == {}
    assert records.recorded_overrides(info, 13) == {"train.num_steps": 13}
    longer = some_info(tiny, {"train.num_steps": 40})
    assert records.recorded_overrides(longer, 13) == {"train.num_steps": 13}
    # The first 20 steps of a longer run are those of the named one.
    assert records.recorded_overrides(longer, 40) == {"train.num_steps": 40}


def test_an_earlier_checkpoint_is_no_figure_of_the_whole_run(trained_lm, scored_lm):
    with cut_text():
        early = evaluate_one(trained_lm, split="validation", checkpoint="2")
    whole = records.make_records(trained_lm, scored_lm, "eval")[0]
    part = records.make_records(trained_lm, early, "eval")[0]
    assert (whole.step, part.step) == (4, 2)
    assert part.overrides["train.num_steps"] == 2
    assert part.identity != whole.identity


# --- Time and code --------------------------------------------------------------------------------


def test_training_time_counts_up_to_the_step(begun_log):
    assert records.train_seconds(begun_log, 4) == 3.0
    assert records.train_seconds(begun_log, 6) == 5.5
    assert records.train_seconds(begun_log, 1) is None


@pytest.fixture
def begun_log(tmp_path) -> RunDir:
    lines = [(2, {"seconds": 1.5}), (4, {"seconds": 3.0}), (4, {}), (6, {"seconds": 5.5})]
    text = "".join(json.dumps({"step": step, "timing": timing}) + "\n" for step, timing in lines)
    (tmp_path / "metrics.jsonl").write_text(text)
    return RunDir(tmp_path)


def test_the_state_of_the_code_is_told(tmp_path, monkeypatch):
    def git(*arguments: str) -> None:
        name = ["-c", "user.name=x", "-c", "user.email=x@y"]
        subprocess.run(["git", "-C", str(tmp_path), *name, *arguments], check=True)

    monkeypatch.setattr(records.configuration, "__file__", str(tmp_path / "synth" / "a.py"))
    assert records.git_state() == ("unknown", True)
    for place in ("synth/a.py", "results/runs.jsonl", "README.md"):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_text("1\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "x")
    commit, dirty = records.git_state()
    assert len(commit) == 40 and not dirty
    (tmp_path / "results/runs.jsonl").write_text("2\n")
    (tmp_path / "README.md").write_text("2\n")
    (tmp_path / "new.txt").write_text("2\n")
    assert records.git_state() == (commit, False)
    (tmp_path / "synth/a.py").write_text("2\n")
    assert records.git_state() == (commit, True)


# --- Into the store -------------------------------------------------------------------------------


def test_figures_found_again_are_not_stored_again(trained_lm, scored_lm, tmp_path):
    store = tmp_path / "runs.jsonl"
    assert results.append(store, records.make_records(trained_lm, scored_lm, "eval")) == 4
    before = store.read_bytes()
    with cut_text():
        again = evaluate_one(trained_lm, split="validation")
    assert results.append(store, records.make_records(trained_lm, again, "eval again")) == 0
    assert store.read_bytes() == before


def test_scoring_twice_from_the_command_line_changes_nothing(start, trained_ende, tmp_path):
    run, store = tmp_path / "run", tmp_path / "results"
    shutil.copytree(trained_ende.path, run)
    store.mkdir()
    shutil.copy(ROOT / "results/paper.json", store)
    argv = [f"--workdir={run}", "--split=validation", "--beam=1", f"--results={store}"]

    def files() -> dict[Path, bytes]:
        found = [*store.rglob("*"), *(run / "eval").iterdir()]
        return {path: path.read_bytes() for path in found if path.is_file()}

    first = start("eval.py", *argv).wait()
    assert first.status == 0, first.err
    assert "Samples:" in first.out and "bleu" in first.out
    before = files()
    stored = results.load(store / "runs.jsonl")
    assert {record.metric for record in stored} >= {"bleu", "bleu_intl", "ppl_word"}
    (hypotheses,) = (run / "eval").glob("validation-*-beam1-*.txt")
    lines = len(hypotheses.read_text("utf-8").split("\n")) - 1
    assert {record.n_items for record in stored} == {lines}
    again = start("eval.py", *argv).wait()
    assert again.status == 0, again.err
    assert files() == before
