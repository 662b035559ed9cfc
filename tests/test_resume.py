"""A run stopped in any way, and started again, ends as if it had never been stopped."""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import cut_text

from synth import records, training
from synth.checkpoints import Checkpoints
from synth.errors import UserError
from synth.rundir import RunDir
from synth.steps import make_train_step
from synth.trained import load_trained

# Logging, evaluating and saving fall on different steps, and none of them on the last one alone.
SCHEDULE = {
    "train.num_steps": 11,
    "train.log_every": 3,
    "train.eval_every": 4,
    "train.checkpoint_every": 2,
    "train.keep_checkpoints": 2,
}
# Of the row of the session's language model, so that its programs are compiled already.
ROW = "lm1b:random+vanilla"


def metrics(run: RunDir) -> list[dict[str, Any]]:
    """All lines of the log, without what differs from run to run."""
    lines = map(json.loads, run.metrics.read_text("utf-8").splitlines())
    return [{key: value for key, value in line.items() if key != "timing"} for line in lines]


def parameters(run: RunDir, which: str = "last") -> list[np.ndarray]:
    _, _, params, fixed = load_trained(run, which)
    return jax.tree.leaves(jax.device_get((params, fixed)))


def assert_same_end(run: RunDir, straight: RunDir) -> None:
    assert metrics(run) == metrics(straight)
    for found, expected in zip(parameters(run), parameters(straight), strict=True):
        np.testing.assert_array_equal(found, expected)
    names = [{path.name for path in r.checkpoints.iterdir()} for r in (run, straight)]
    assert names[0] == names[1]


@pytest.fixture(scope="module")
def straight(tiny, tmp_path_factory) -> RunDir:
    """A run that was never stopped."""
    run = RunDir(tmp_path_factory.mktemp("straight") / "run")
    with cut_text():
        assert training.train(tiny(ROW, SCHEDULE), run) == training.Outcome(11, None)
    return run


@pytest.fixture
def interrupted(tiny, tmp_path, short_text, monkeypatch):
    """Trains the same run, with something done after the step of a number."""
    run = RunDir(tmp_path / "run")

    def train(after: int | None = None, action=lambda: None) -> training.Outcome:
        def watched(experiment):
            step = make_train_step(experiment)

            def watched_step(state, batch):
                number = int(state.step) + 1
                state = step(state, batch)
                if number == after:
                    action()
                return state

            return watched_step

        monkeypatch.setattr(training, "make_train_step", watched)
        return training.train(tiny(ROW, SCHEDULE), run)

    return run, train


# --- In this process ------------------------------------------------------------------------------


class Crash(Exception):
    pass


def crash() -> None:
    raise Crash


def test_a_run_that_crashes_again_and_again_ends_the_same(interrupted, straight):
    """Before anything was saved, between two checkpoints, right after one, at the last step."""
    run, train = interrupted
    for after in (1, 5, 7, 11):
        with pytest.raises(Crash):
            train(after, crash)
    assert train() == training.Outcome(11, None)
    assert_same_end(run, straight)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_step_saves_and_resumes_exactly(interrupted, straight, number):
    run, train = interrupted
    handler = signal.getsignal(number)
    outcome = train(5, lambda: os.kill(os.getpid(), number))
    assert outcome == training.Outcome(5, number)
    assert signal.getsignal(number) is handler
    assert (run.checkpoints / "5").is_dir()
    assert train() == training.Outcome(11, None)
    assert metrics(run) == metrics(straight)
    for found, expected in zip(parameters(run), parameters(straight), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_signal_at_a_step_that_is_saved_anyway(interrupted, straight):
    run, train = interrupted
    assert train(4, lambda: os.kill(os.getpid(), signal.SIGTERM)).step == 4
    assert train().step == 11
    assert_same_end(run, straight)


def test_a_directory_is_trained_by_one_process_at_a_time(interrupted, straight, tiny):
    run, train = interrupted
    told = []

    def a_second_one():
        with pytest.raises(UserError) as error:
            training.train(tiny(ROW, SCHEDULE | {"train.num_steps": 99}), run)
        told.append(str(error.value))

    assert train(7, a_second_one).step == 11
    assert run.info().config.train.num_steps == 11
    (message,) = told
    assert f"--workdir={run.path} is in use by process {os.getpid()} on " in message
    assert_same_end(run, straight)


def test_a_second_signal_is_not_waited_for(interrupted):
    _, train = interrupted

    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(3, twice)


def test_a_finished_run_is_left_as_it_is(interrupted, straight, tmp_path):
    run, train = interrupted
    shutil.copytree(straight.path, run.path)
    assert train() == training.Outcome(11, None)
    assert_same_end(run, straight)


def test_a_longer_run_goes_on_from_a_finished_one(tiny, straight, tmp_path, short_text):
    """Eight steps, then three more: the same as eleven at once, but for the evaluation at 8."""
    run = RunDir(tmp_path / "run")
    training.train(tiny(ROW, SCHEDULE | {"train.num_steps": 8}), run)
    assert training.train(tiny(ROW, SCHEDULE), run).step == 11
    for found, expected in zip(parameters(run), parameters(straight), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_a_crash_left_half_written_is_ignored(interrupted, straight):
    run, train = interrupted
    with pytest.raises(Crash):
        train(7, crash)
    half = run.checkpoints / "8.orbax-checkpoint-tmp"
    shutil.copytree(run.checkpoints / "6", half)
    (half / "commit_success.txt").unlink(missing_ok=True)
    shutil.rmtree(half / "data")
    with run.metrics.open("a") as file:
        file.write('{"step": 7, "train/lo')
    checkpoints = Checkpoints(run.checkpoints, keep=2)
    assert checkpoints.latest() == 6
    checkpoints.close()
    assert train().step == 11
    assert_same_end(run, straight)


def test_training_time_adds_up_over_all_starts(interrupted):
    """Had the first part taken 1,000 seconds, the whole took longer."""
    run, train = interrupted
    train(5, lambda: os.kill(os.getpid(), signal.SIGTERM))
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    for line in lines:
        if "seconds" in line["timing"]:
            line["timing"]["seconds"] = 1000.0
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    train()
    seconds = records.train_seconds(run, 11)
    assert seconds is not None and seconds > 1000.0


# --- Processes that are killed --------------------------------------------------------------------


@pytest.mark.slow
def test_a_process_killed_at_any_moment_resumes_exactly(start, tiny, tmp_path):
    """SIGKILL while starting, while stepping and while saving, SIGTERM and SIGINT."""
    info = tiny(ROW, {"data.window": 256})
    changes = {
        "train.num_steps": 60,
        "train.log_every": 7,
        "train.eval_every": 60,
        "train.checkpoint_every": 3,
    }
    given = info.overrides | changes
    argv = [f"--config.{key}={value}" for key, value in given.items()]

    def train(run: RunDir):
        return start("train.py", f"--config={info.name}", *argv, f"--workdir={run.path}")

    def saved(run: RunDir) -> set[str]:
        return {path.name for path in run.checkpoints.glob("*")}

    straight, run = RunDir(tmp_path / "straight"), RunDir(tmp_path / "run")
    assert train(straight).wait().status == 0
    rng = random.Random(0)

    def new_step(before: set[str]) -> bool:
        return any(name.isdecimal() for name in saved(run) - before)

    def half_step(before: set[str]) -> bool:
        return any("tmp" in name for name in saved(run) - before)

    for number, moment, status in (
        (signal.SIGKILL, half_step, -9),
        (signal.SIGKILL, new_step, -9),
        (signal.SIGTERM, new_step, 143),
        (signal.SIGINT, new_step, 130),
    ):
        before, running = saved(run), train(run)
        while not moment(before) and running.status is None:
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.02))
        assert running.status is None, f"too quick to be killed: {running.err}"
        os.kill(running.process.pid or 0, number)
        running.wait()
        assert running.status == status, running.err
        assert "Traceback" not in running.err
        if number != signal.SIGKILL:
            assert "to go on: python" in running.err
    assert train(run).wait().status == 0
    assert metrics(run) == metrics(straight)
    for found, expected in zip(parameters(run), parameters(straight), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_written_ends_the_process_in_plain_words(start, tiny, tmp_path):
    """In a process of its own: threads that Orbax leaves behind may keep one from ending."""
    info = tiny(ROW, {"train.num_steps": 100_000, "train.checkpoint_every": 5})
    argv = [f"--config.{key}={value}" for key, value in info.overrides.items()]
    running = start("train.py", f"--config={info.name}", *argv, f"--workdir={tmp_path}/run")
    directory = tmp_path / "run" / "checkpoints"
    while not any(p.name.isdecimal() for p in directory.glob("*")) and running.status is None:
        time.sleep(0.01)
    directory.rename(tmp_path / "moved")
    directory.write_text("in the way")
    running.wait(60)
    assert running.status == 2, running.err
    assert "could not write a checkpoint" in running.err
    assert "Traceback" not in running.err


# --- Which checkpoints are kept -------------------------------------------------------------------


def save_all(directory: Path, losses: dict[int, float | None], keep: int) -> Checkpoints:
    checkpoints = Checkpoints(directory, keep=keep)
    for step, loss in losses.items():
        state = {"x": np.full(3, step, np.float32)}
        meta = {"step": step, "vocabulary": "v"}
        checkpoints.save(step, state, {"at": step}, meta, loss)
    checkpoints.wait()
    return checkpoints


def kept(directory: Path) -> list[int]:
    return sorted(int(path.name) for path in directory.iterdir())


@pytest.mark.parametrize(
    ("losses", "keep", "expected", "best"),
    [
        ({1: 3.0, 2: 1.0, 3: 2.0, 4: 4.0, 5: 5.0}, 2, [2, 4, 5], 2),
        ({1: 1.0, 2: 2.0, 3: 3.0}, 1, [1, 3], 1),
        ({1: 3.0, 2: 2.0, 3: 1.0}, 1, [3], 3),
        # Steps that were not evaluated are never the best.
        ({1: None, 2: 2.0, 3: None, 4: 3.0, 5: None, 6: None}, 2, [2, 5, 6], 2),
        ({1: None, 2: None, 3: None}, 2, [2, 3], 3),
    ],
)
def test_the_best_and_the_last_checkpoints_are_kept(tmp_path, losses, keep, expected, best):
    checkpoints = save_all(tmp_path / "c", losses, keep)
    assert kept(tmp_path / "c") == expected
    assert checkpoints.resolve("best") == best
    assert checkpoints.resolve("last") == checkpoints.latest() == expected[-1]
    assert checkpoints.resolve(str(expected[0])) == expected[0]
    checkpoints.close()


def test_what_is_kept_is_known_to_a_new_process(tmp_path):
    losses: dict[int, float | None] = {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}
    save_all(tmp_path / "c", losses, 2).close()
    checkpoints = save_all(tmp_path / "c", {5: 5.0, 6: None}, 2)
    assert kept(tmp_path / "c") == [1, 5, 6]
    assert checkpoints.resolve("best") == 1
    abstract = {"x": jax.ShapeDtypeStruct((3,), np.float32)}
    restored = checkpoints.restore(1, abstract, vocabulary="v")
    np.testing.assert_array_equal(restored.state["x"], [1, 1, 1])
    assert (restored.step, restored.data, restored.meta) == (
        1,
        {"at": 1},
        {"step": 1, "vocabulary": "v"},
    )
    checkpoints.close()


@pytest.mark.parametrize("which", ["4", "newest", "-1", "", "1.0"])
def test_a_missing_checkpoint_lists_the_others(tmp_path, which):
    checkpoints = save_all(tmp_path / "c", {2: 1.0, 3: 2.0}, 3)
    with pytest.raises(UserError) as caught:
        checkpoints.resolve(which)
    assert repr(which) in str(caught.value)
    assert "best, last, and steps 2, 3" in str(caught.value)
    checkpoints.close()


def test_no_checkpoint_at_all_is_said(tmp_path):
    checkpoints = Checkpoints(tmp_path / "c", keep=1)
    assert checkpoints.latest() is None
    for which in ("best", "last", "3"):
        with pytest.raises(UserError, match="no checkpoint in"):
            checkpoints.resolve(which)
    checkpoints.close()


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    checkpoints = save_all(tmp_path / "c", {2: 1.0}, 3)
    for abstract in ({"x": (4,)}, {"y": (3,)}, {"x": (3,), "y": (3,)}):
        shapes = {k: jax.ShapeDtypeStruct(shape, np.float32) for k, shape in abstract.items()}
        with pytest.raises(UserError, match=r"checkpoint.*2.*model"):
            checkpoints.restore(2, shapes, vocabulary="v")
    checkpoints.close()


def test_a_checkpoint_of_another_vocabulary_is_refused_with_both_hashes(tmp_path):
    checkpoints = save_all(tmp_path / "c", {2: 1.0}, 3)
    shapes = {"x": jax.ShapeDtypeStruct((3,), np.float32)}
    with pytest.raises(UserError, match="the vocabulary v, but the one of the run is other"):
        checkpoints.restore(2, shapes, vocabulary="other")
    checkpoints.close()


@pytest.mark.parametrize("method", ["save", "wait_until_finished"])
def test_a_full_disk_names_the_last_complete_step(tmp_path, monkeypatch, method):
    checkpoints = save_all(tmp_path / "c", {2: 1.0}, 3)

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints._manager, method, full)
        with pytest.raises(UserError) as caught:
            checkpoints.save(4, {"x": np.zeros(3, np.float32)}, {}, {}, None)
            checkpoints.wait()
    caught.match("No space left on device")
    caught.match("last complete one is step 2")
    checkpoints.close()
