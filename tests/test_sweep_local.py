"""Sweeps on one machine: past failures, through interruptions, one at a time in a folder."""

import dataclasses
import os
import signal
import threading

import pytest
from sweep_fakes import RUNS, fake_sweep, processes, states, until

from synth import locks
from synth.errors import UserError
from synth.locks import Held
from synth.sweeps import local

pytestmark = pytest.mark.usefixtures("in_root")

RANDOM, DENSE, VANILLA = RUNS

_DRIVER = """
import pathlib, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
sys.path.insert(0, "tests")
from sweep_fakes import fake_sweep
from synth.sweeps import local
sys.exit(local.launch(fake_sweep(pathlib.Path(sys.argv[1])), 2))
"""


@pytest.fixture
def process(tmp_path):
    """A sweep, two runs at a time, in a process of its own."""
    with processes(_DRIVER) as start:
        yield lambda: start(tmp_path)


def test_all_runs_are_trained_and_scored_once(sweep):
    assert local.launch(sweep, jobs=1) == 0
    names = [run.name for run in RUNS]
    assert sweep.commands.calls() == [
        (phase, name, "0") for name in names for phase in ("train", "eval")
    ]
    assert states(sweep) == ["done"] * 3
    assert local.launch(sweep, jobs=1) == 0
    assert len(sweep.commands.calls()) == 6
    log = sweep.folder.log(RANDOM)
    assert log.read_text().count("step 3/3") == 2 and "--- 20" in log.read_text()
    assert log.with_suffix(".out").read_text() == "figures\n" * 2


def test_without_scoring_a_run_stays_trained_and_can_be_scored_later(tmp_path):
    sweep = fake_sweep(tmp_path, evaluate=False)
    assert local.launch(sweep, jobs=3) == 0
    assert states(sweep) == ["trained"] * 3
    scoring = fake_sweep(tmp_path)
    assert local.launch(scoring, jobs=3) == 0
    assert [call[0] for call in sweep.commands.calls()] == ["train"] * 3 + ["eval"] * 3
    assert states(sweep) == ["done"] * 3


def test_a_failure_is_noted_passed_by_and_tried_again(sweep, capsys):
    sweep.commands.tell(RANDOM, "train", "fail")
    sweep.commands.tell(DENSE, "eval", "die")
    assert local.launch(sweep, jobs=1) == 1
    assert states(sweep) == ["failed", "failed", "done"]
    trained, scored = (sweep.folder.state(run) for run in (RANDOM, DENSE))
    assert (trained.status, trained.reason, trained.phase) == (2, "train.py: no disk", "train")
    assert (scored.status, scored.phase) == (137, "eval")
    assert scored.reason == "killed by SIGKILL (out of memory?); step 3/3"
    assert trained.started <= trained.ended and trained.log == str(sweep.folder.log(RANDOM))
    assert f"{RANDOM.name}: failed: train.py: no disk" in capsys.readouterr().err

    sweep.commands.tell(RANDOM, "train", "")
    sweep.commands.tell(DENSE, "eval", "")
    before = len(sweep.commands.calls())
    assert local.launch(sweep, jobs=1) == 0
    # What had been trained is only scored.
    assert [call[:2] for call in sweep.commands.calls()[before:]] == [
        ("train", RANDOM.name),
        ("eval", RANDOM.name),
        ("eval", DENSE.name),
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_the_runs_save_and_a_later_call_goes_on(sweep, process, number):
    for run in (RANDOM, DENSE):
        sweep.commands.tell(run, "train", "linger")
    running = process()
    until(lambda: len(sweep.commands.calls()) == 2)
    until(lambda: states(sweep) == ["running", "running", "waiting"])
    running.send_signal(number)
    _, told = running.communicate(timeout=20)
    assert running.returncode == 128 + number
    assert "the same command goes on" in told
    assert states(sweep) == ["waiting"] * 3
    assert sweep.folder.state(RANDOM).reason == "stopped; the same command goes on"
    assert sweep.folder.log(DENSE).read_text().endswith("saved\n")  # told once, it saves
    for run in (RANDOM, DENSE):
        sweep.commands.tell(run, "train", "")
    assert local.launch(sweep, jobs=2) == 0
    assert states(sweep) == ["done"] * 3


def test_two_sweeps_do_not_work_in_one_folder(sweep, process):
    sweep.commands.tell(RANDOM, "train", "linger")
    running = process()
    until(lambda: states(sweep)[0] == "running")
    with pytest.raises(Held, match=rf"in use by process {running.pid} on \S+ since 20"):
        local.launch(sweep, jobs=1)
    sweep.commands.tell(RANDOM, "train", "")
    assert running.wait(20) == 0


def test_a_killed_sweep_blocks_only_while_its_command_lives(sweep, process):
    sweep.commands.tell(RANDOM, "train", "linger")
    running = process()
    until(lambda: states(sweep)[0] == "running" and states(sweep)[1] == "done")
    running.kill()
    running.wait()
    # The orphan would train in the same directory as the next one.
    assert states(sweep)[0] == "running"
    with pytest.raises(Held, match="it is gone, but a command that it started still runs"):
        local.launch(sweep, jobs=1)
    os.kill(sweep.folder.state(RANDOM).pid, signal.SIGKILL)
    until(lambda: states(sweep)[0] == "waiting")
    assert sweep.folder.state(RANDOM).reason == "cut off; the same command goes on"
    sweep.commands.tell(RANDOM, "train", "")
    assert local.launch(sweep, jobs=1) == 0
    assert states(sweep) == ["done"] * 3


def test_a_run_that_another_process_has_is_passed_over(sweep, capsys):
    with sweep.folder.hold_run(DENSE):
        assert local.launch(sweep, jobs=1) == 1
    assert states(sweep) == ["done", "waiting", "done"]
    assert (
        f"passed over: {DENSE.name} is in use by process {os.getpid()}" in capsys.readouterr().err
    )


def test_a_full_disk_stops_the_commands_and_loses_nothing(sweep, monkeypatch):
    sweep.commands.tell(RANDOM, "train", "linger")
    write, full = type(sweep.folder).set_state, threading.Event()

    def set_state(folder, run, state):
        if run == DENSE and state.state == "trained":
            full.set()
        if full.is_set():
            raise OSError(28, "No space left on device", "state")
        write(folder, run, state)

    with monkeypatch.context() as patch:
        patch.setattr(type(sweep.folder), "set_state", set_state)
        with pytest.raises(OSError, match="No space"):
            local.launch(sweep, jobs=2)
    assert sweep.folder.log(RANDOM).read_text().endswith("saved\n")
    assert states(sweep) == ["waiting"] * 3
    sweep.commands.tell(RANDOM, "train", "")
    assert local.launch(sweep, jobs=2) == 0


def test_a_run_directory_that_was_removed_is_made_again(sweep):
    assert local.launch(sweep, jobs=3) == 0
    (sweep.folder.workdir(DENSE) / "run.json").unlink()
    assert states(sweep) == ["done", "waiting", "done"]


def test_a_folder_keeps_its_results_directory_until_another_is_given(sweep, capsys):
    for results, told in [("one", False), ("one/", False), ("two", True)]:
        assert local.launch(dataclasses.replace(sweep, results=results), jobs=3) == 0
        assert sweep.folder.results() == results
        said = "figures go to --results=two, and no longer to one/" in capsys.readouterr().err
        assert said is told


def test_a_spoilt_state_is_named(sweep):
    assert local.launch(sweep, jobs=3) == 0
    path = sweep.folder.path / "state" / f"{DENSE.name}.json"
    path.write_text("{")
    with pytest.raises(UserError, match=f"{DENSE.name}.json cannot be read"):
        local.launch(sweep, jobs=1)


def test_a_lock_of_another_machine_counts_while_it_shows_life(tmp_path, monkeypatch):
    """As on storage whose locks do not reach other machines."""
    monkeypatch.setattr(locks, "BEAT", 0.05)
    monkeypatch.setattr(locks, "_WATCH", 0.3)
    path = tmp_path / "lock"
    left = '{"host": "elsewhere", "pid": 1, "since": "then"'
    path.write_text(left + "}")
    assert locks.holder(path) == "process 1 on elsewhere since then"
    os.utime(path, (0, 0))
    assert locks.holder(path) is None
    with locks.hold(path, "it"):  # it was left behind
        assert f"process {os.getpid()} on" in (locks.holder(path) or "")
        with pytest.raises(Held, match=f"by process {os.getpid()} on"), locks.hold(path, "it"):
            pass
    assert path.read_text() == "" and locks.holder(path) is None

    over, beats = threading.Event(), 0

    def live():
        nonlocal beats
        with path.open("r+b", buffering=0) as file:
            while not over.wait(0.02):
                beats += 1
                os.pwrite(file.fileno(), f'{left}, "beats": {beats}}}'.encode(), 0)

    other = threading.Thread(target=live)
    other.start()
    try:
        until(lambda: beats > 0)
        with pytest.raises(Held, match="by process 1 on elsewhere"), locks.hold(path, "it"):
            pass
    finally:
        over.set()
        other.join()
