"""Sweeps as jobs of Slurm: through submitit's stand-in for a cluster, and on a real one."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from conftest import ROOT
from sweep_fakes import RUNS, fake_sweep, states, until

from synth.errors import UserError
from synth.sweeps import slurm

submitit = pytest.importorskip("submitit")
RANDOM, DENSE, VANILLA = RUNS


@pytest.fixture(autouse=True)
def paths(in_root, monkeypatch):
    # Jobs unpickle what the tests made.
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'tests'}")


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """A sweep whose jobs, if submitit runs them here, end with the test."""
    controllers = []

    def start_controller(**arguments):
        controllers.append(start(**arguments))
        return controllers[-1]

    start = submitit.local.local.start_controller
    monkeypatch.setattr(submitit.local.local, "start_controller", start_controller)
    yield fake_sweep(tmp_path)
    for controller in controllers:
        try:
            controller.wait(20)
        except subprocess.TimeoutExpired:
            controller.kill()
            controller.wait()


@pytest.mark.long
def test_jobs_train_and_score_and_note_the_states(sweep):
    sweep.commands.tell(DENSE, "train", "fail")
    assert slurm.launch(sweep, ["timeout_min=2"], 20.0, cluster="local") == 0
    until(lambda: states(sweep) == ["done", "failed", "done"], 60)
    assert sweep.folder.state(DENSE).reason == "train.py: no disk"
    jobs = sweep.folder.jobs()
    assert set(jobs) == {run.name for run in RUNS} and len(set(jobs.values())) == 3
    # What is finished is not submitted again.
    sweep.commands.tell(DENSE, "train", "")
    slurm.launch(sweep, ["timeout_min=2"], 20.0, cluster="local")
    until(lambda: states(sweep) == ["done"] * 3, 60)
    assert [name for name, job in sweep.folder.jobs().items() if job != jobs[name]] == [DENSE.name]


def test_a_job_that_is_about_to_end_saves_and_is_queued_again(sweep):
    sweep = dataclasses.replace(sweep, runs=[RANDOM])
    sweep.commands.tell(RANDOM, "train", "linger")
    slurm.launch(sweep, ["timeout_min=2"], 20.0, cluster="local")
    until(lambda: states(sweep) == ["running"], 60)
    until(lambda: len(sweep.commands.calls()) == 1)
    # The warning before the time limit, as Slurm sends it to all processes of a job.
    holder = json.loads((sweep.folder.path / "state" / f"{RANDOM.name}.lock").read_text())
    for pid in (holder["pid"], sweep.folder.state(RANDOM).pid):
        os.kill(pid, signal.SIGUSR2)
    until(lambda: "saved" in sweep.folder.log(RANDOM).read_text(), 60)
    sweep.commands.tell(RANDOM, "train", "")
    until(lambda: states(sweep) == ["done"], 60)
    assert [call[0] for call in sweep.commands.calls()] == ["train", "train", "eval"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["partition"], "--slurm partition must be KEY=VALUE"),
        (["partitoin=gpu"], "Unknown argument 'partitoin'"),
        (["nodes=two"], 'Parameter "nodes" expected type'),
    ],
)
def test_wrong_settings_are_refused(sweep, settings, told):
    with pytest.raises(UserError, match=re.escape(told)) as caught:
        slurm.launch(sweep, settings, 20.0, cluster="local")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(shutil.which("srun") is not None, reason="there is a Slurm here")
def test_without_slurm_that_is_said(sweep):
    with pytest.raises(UserError, match="there is no Slurm here"):
        slurm.launch(sweep, [], 20.0)


@pytest.mark.slurm
def test_a_real_cluster_warns_requeues_and_finishes(sweep):
    sweep.commands.tell(RANDOM, "train", "linger")
    sweep.commands.tell(DENSE, "train", "fail")
    assert slurm.launch(sweep, ["timeout_min=5", "signal_delay_s=30"], 60.0) == 0
    until(lambda: states(sweep) == ["running", "failed", "done"], 120)
    job = sweep.folder.jobs()[RANDOM.name]
    assert slurm.in_queue([job, "999999"]) == {job}
    # Submitted again, what is in the queue is left alone.
    slurm.launch(dataclasses.replace(sweep, runs=[RANDOM]), [], 60.0)
    assert sweep.folder.jobs()[RANDOM.name] == job
    # The warning before the time limit.
    subprocess.run(["scancel", "--signal=USR2", job], check=True)
    until(lambda: "saved" in sweep.folder.log(RANDOM).read_text(), 60)
    sweep.commands.tell(RANDOM, "train", "")
    until(lambda: states(sweep) == ["done", "failed", "done"], 300)
    trained = [call for call in sweep.commands.calls() if call[:2] == ("train", RANDOM.name)]
    assert len(trained) == 2
    until(lambda: not slurm.in_queue([job]), 60)


@pytest.mark.slurm
def test_the_tasks_of_a_job_walk_together(sweep):
    sweep = dataclasses.replace(sweep, runs=[RANDOM])
    settings = ["timeout_min=5", "tasks_per_node=2"]
    assert slurm.launch(sweep, settings, 60.0) == 0
    until(lambda: states(sweep) == ["done"], 120)
    assert [call[0] for call in sweep.commands.calls()] == ["train", "train", "eval", "eval"]
    assert list((sweep.folder.path / "logs").glob("*.host1.log"))
