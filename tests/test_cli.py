"""Command lines as a user types them: mistakes cost one plain line and exit status 2."""

import subprocess
import sys

import pytest
from conftest import ROOT

from synth import cli
from synth.errors import UserError
from synth.rundir import RunDir

ENDE = "--config=configs/wmt_ende.py:random,scale=tiny"


@pytest.fixture
def refused(start):
    """Runs an entry point that must refuse; returns the line that says why."""

    def refused(name: str, *argv: str) -> str:
        running = start(name, *argv).wait()
        assert "Traceback" not in running.err
        assert running.err.count("\n") == 1, running.err
        assert running.err.startswith(f"{name}: ")
        assert running.out == ""
        assert running.status == 2
        return running.err

    return refused


def told(line: str, *words: str) -> bool:
    assert all(word in line for word in words), line
    return True


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--stpes=3", ENDE], ["stpes"]),
        (["--workdir={tmp}/run"], ["--config=configs/", "scale=small"]),
        ([], ["--config=configs/", "scale=small"]),
        ([ENDE], ["--workdir="]),
        ([ENDE, "help"], ["help"]),
        (
            ["--config=configs/wmt.py:random", "--workdir={tmp}/run"],
            ["wmt.py", "configs/wmt_ende.py"],
        ),
        (
            ["--config=wmt_ende.py:random", "--workdir={tmp}/run"],
            ["'wmt_ende.py'", "configs/wmt_ende.py"],
        ),
        ([ENDE, "--config.model=3", "--workdir={tmp}/run"], ["section", "model.num_layers"]),
        (
            [ENDE, "--config.train.num_steps=2.5", "--workdir={tmp}/run"],
            ["train.num_steps=2.5", "whole number"],
        ),
        (
            [ENDE, "--config.optimizer.learning_rate=x", "--workdir={tmp}/run"],
            ["learning_rate=x", "must be a number"],
        ),
        (
            [ENDE, "--config.optimizer.learning_rate=-1", "--workdir={tmp}/run"],
            ["learning_rate=-1.0", "at least 0"],
        ),
        ([ENDE, "--config.optimizer.b2=1.0", "--workdir={tmp}/run"], ["b2=1.0", "below 1"]),
        (
            [ENDE, "--config.data.data_dir=gs://bucket/tfds", "--workdir={tmp}/run"],
            ["data.data_dir=gs://bucket/tfds", "mount the bucket"],
        ),
        ([ENDE, "--num_processes=2", "--workdir={tmp}/run"], ["--coordinator_address", "needs"]),
        (
            ["--config=configs/wmt_ende.py:rnd", "--workdir={tmp}/run"],
            ["'rnd'", "factorized_random"],
        ),
        (
            [ENDE, "--config.train.steps=3", "--workdir={tmp}/run"],
            ["train.steps", "train.num_steps"],
        ),
        ([ENDE, "--config.train.num_steps=x", "--workdir={tmp}/run"], ["train.num_steps", "x"]),
        ([ENDE, "--config.train.num_steps=0", "--workdir={tmp}/run"], ["train.num_steps=0"]),
        ([ENDE, "--config.model.dtype=float8", "--workdir={tmp}/run"], ["float8", "bfloat16"]),
        ([ENDE, "--config.optimizer.warmup_steps=0", "--workdir={tmp}/run"], ["warmup_steps=0"]),
        ([ENDE, "--config.data.task=wmt_ende2", "--workdir={tmp}/run"], ["wmt_ende2", "wmt_ende,"]),
        ([ENDE, "--config.data.bucket_lengths=wide", "--workdir={tmp}/run"], ["bucket_lengths"]),
        ([ENDE, "--compile_for=v9-3"], ["v9-3", "v3-8 to 2048", "v5e-1 to 256", "v5e:4x4"]),
        ([ENDE, "--json"], ["--describe", "--compile_for"]),
        (
            [ENDE, "--config.sharding.mesh.data=3", "--workdir={tmp}/run"],
            ["data=3", "there are 1;"],
        ),
        (
            [ENDE, "--config.sharding.rules.mlp=tnsr", "--workdir={tmp}/run"],
            ["mlp", "tnsr", "tensor"],
        ),
    ],
)
def test_train_refuses(refused, tmp_path, argv, words):
    argv = [arg.format(tmp=tmp_path) for arg in argv]
    told(refused("train.py", *argv), *words)
    assert not (tmp_path / "run").exists()


def test_the_paper_scale_without_its_data_names_the_small_one(refused, tmp_path):
    line = refused(
        "train.py",
        "--config=configs/wmt_ende.py:random",
        f"--config.data.data_dir={tmp_path}/data",
        f"--workdir={tmp_path}/run",
    )
    told(line, "wmt_t2t_translate/de-en", f"{tmp_path}/data", "scale=small")
    assert not (tmp_path / "run").exists()


def test_a_workdir_of_another_run_is_refused_with_the_differences(refused, data_dir, trained_ende):
    before = {path: path.read_bytes() for path in trained_ende.path.iterdir() if path.is_file()}
    task = trained_ende.info().config.data.task
    line = refused(
        "train.py",
        f"--config=configs/{task}.py:dense,scale=tiny,seed=5",
        f"--config.data.data_dir={data_dir}",
        "--config.data.window=512",
        f"--workdir={trained_ende.path}",
    )
    told(line, "seed was 0, is 5", "variant was 'random+vanilla', is 'dense'")
    assert "window" not in line
    assert before == {path: path.read_bytes() for path in before}


def test_a_directory_of_something_else_is_refused(refused, data_dir, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    data = f"--config.data.data_dir={data_dir}"
    told(refused("train.py", ENDE, data, f"--workdir={tmp_path}"), str(tmp_path), "not empty")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_workdir_that_is_a_file_is_refused(refused, data_dir, tmp_path):
    (tmp_path / "run").write_text("")
    data = f"--config.data.data_dir={data_dir}"
    told(refused("train.py", ENDE, data, f"--workdir={tmp_path}/run"), f"{tmp_path}/run")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], ["--workdir=", "--render"]),
        (["--workdir={tmp}"], ["{tmp}", "no run"]),
        (["--workdir={tmp}/nothing"], ["{tmp}/nothing", "no run"]),
        (["--workdir={run}", "--checkpoint=3"], ["'3'", "2, 4", "best", "last"]),
        (["--workdir={run}", "--checkpoint=newest"], ["'newest'", "best", "last"]),
        (["--workdir={run}", "--beam=0"], ["beam=0"]),
        (["--workdir={run}", "--alpha=-1"], ["alpha=-1"]),
        (["--workdir={run}", "--split=dev"], ["dev", "validation"]),
        (["--workdir={run}", "--beam=two"], ["beam", "two"]),
        (["--workdir={run}", "--render"], ["--render stands alone"]),
        (["--html={tmp}/a.html", "--render"], ["--render stands alone"]),
        (["--workdir={run}", "--system=x"], ["--system goes with --predictions"]),
        (["--workdir={run}", "--seed=0"], ["--seed goes with --row"]),
        (["--workdir={run}", "--runs={tmp}"], ["--runs goes with --html"]),
        (["--workdir={run}", ENDE], ["--config goes with --predictions"]),
        (["--predictions=x", ENDE, "--beam=2"], ["--beam goes with --workdir or --row"]),
        (["--predictions=x", ENDE], ["--predictions needs --system=NAME"]),
        (["--predictions=x", ENDE, "--system=x", "--row=y"], ["--row and --predictions are two"]),
        (["--predictions=x", ENDE, "--system=x", "--glove=y"], ["--glove has no use: wmt_ende"]),
        (["--html={tmp}/a.html", "--split=test"], ["--split goes with --workdir or --row"]),
        (["--compare", "--process_id=1"], ["--process_id goes with --workdir or --row"]),
        (["--workdir={run}", "--glove=x"], ["--glove has no use: wmt_ende"]),
        (["--row=personachat/random", "--scale=tiny", "--glove={tmp}/x"], ["--glove={tmp}/x"]),
        (["--row=lm1b/random", "--scale=tiny", "--beam=2"], ["--beam has no use: lm1b"]),
        (["--row=lm1b/random", "--scale=tiny", "--split=dev"], ["'dev'", "validation"]),
        (["--workdir={run}", "--beam=1", "--alpha=1"], ["--alpha=1.0 has no use with beam 1"]),
        (["--html={tmp}", "--workdir={run}"], ["--html={tmp} cannot be written: Is a directory"]),
        (["--html=/proc/a.html"], ["--html=/proc/a.html cannot be written: "]),
        (["--html={tmp}/a.html", "--runs={tmp}/no"], ["--runs={tmp}/no: there is no such directo"]),
        (["--row=lm1b/random", "--results={tmp}"], ["--results={tmp}", "results/paper.json"]),
    ],
)
def test_eval_refuses(refused, trained_ende, tmp_path, argv, words):
    def filled(text):
        return text.format(run=trained_ende.path, tmp=tmp_path)

    told(refused("eval.py", *map(filled, argv)), *map(filled, words))


def test_eval_of_a_run_without_a_checkpoint_says_so(refused, tiny, tmp_path):
    RunDir(tmp_path / "run").begin(tiny("lm1b:random"))
    told(refused("eval.py", f"--workdir={tmp_path}/run"), "no checkpoint")


def test_eval_of_a_spoilt_run_names_the_file(refused, tmp_path):
    (tmp_path / "run.json").write_text('{"name": ')
    told(refused("eval.py", f"--workdir={tmp_path}"), "run.json")


def test_render_names_the_bad_line_of_the_store(refused, tmp_path):
    (tmp_path / "paper.json").write_bytes((ROOT / "results/paper.json").read_bytes())
    (tmp_path / "runs.jsonl").write_text('{"run": 1}\n')
    told(refused("eval.py", "--render", f"--results={tmp_path}"), "runs.jsonl:1")


def test_describe_needs_no_data_and_no_directory(start):
    running = start("train.py", "--config=configs/wmt_ende.py:dense", "--describe").wait()
    assert running.status == 0, running.err
    assert "total, trained" in running.out


def test_a_cache_that_cannot_be_written_is_named_if_a_user_chose_it(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    assert cli._cache(f"{tmp_path}/jax") == f"{tmp_path}/jax"
    assert cli._cache(f"{tmp_path}/file/jax") is None
    monkeypatch.setattr(cli.flags.FLAGS["compilation_cache_dir"], "present", 1)
    with pytest.raises(UserError, match=f"--compilation_cache_dir={tmp_path}/file/jax cannot be"):
        cli._cache(f"{tmp_path}/file/jax")


def test_a_data_directory_that_cannot_be_made_is_named(start, tmp_path):
    (tmp_path / "file").touch()
    flags = (f"--config.data.data_dir={tmp_path}/file", f"--workdir={tmp_path}/run")
    running = start("train.py", ENDE, *flags).wait()
    assert running.status == 2
    assert f"train.py: cannot make data_dir={tmp_path}/file: File exists" in running.err


@pytest.mark.parametrize("name", ["train.py", "eval.py", "generate.py"])
def test_help_shows_the_usage(name):
    """In an interpreter of its own, as a check on the forked ones."""
    command = [sys.executable, name, "--help"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0
    assert f"python {name} --" in found.stdout
    assert "--workdir" in found.stdout
    assert "--compilation_cache_dir" in found.stdout
    assert found.stderr == ""


def test_a_mistake_costs_one_line_in_an_interpreter_of_its_own():
    command = [sys.executable, "train.py", "--config=configs/wmt_ende.py:rnd"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert found.returncode == 2
    assert found.stdout == ""
    assert found.stderr.startswith("train.py: unknown attention variant 'rnd'")
    assert found.stderr.count("\n") == 1
