"""The launcher of a Slurm cluster: one job for each run, through submitit.

A job that is preempted or comes to its time limit saves and is queued again, and goes on from its
checkpoint. A job of several nodes walks as a pod does (`--slurm nodes=4`). Jobs of one folder run
at a time; each holds the lock of its run, so that a run that was submitted twice is trained once.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from typing import Any

from synth.errors import UserError
from synth.progress import say
from synth.sweeps import hosts
from synth.sweeps.execution import Sweep
from synth.sweeps.pod import Walk

_REQUEUES = 1000  # of a job that comes to its time limit; submitit's 3 are few for days of training
_LAST_WORD = 300  # seconds for Slurm to requeue or end a job whose command it has stopped
_POLL = 1.0
# Names that submitit has for every executor; all others are Slurm's own.
_GENERIC = (
    "cpus_per_task",
    "gpus_per_node",
    "mem_gb",
    "name",
    "nodes",
    "stderr_to_stdout",
    "tasks_per_node",
    "timeout_min",
)


def launch(sweep: Sweep, settings: Sequence[str], timeout: float, cluster: str = "slurm") -> int:
    """Submits a job for each run with something left to do and none in the queue.

    Args:
      sweep: what to do.
      settings: KEY=VALUE, as `executor.update_parameters` takes them.
      timeout: of the hosts of a job, for one another.
      cluster: submitit's executor.

    Returns:
      0.

    Raises:
      UserError: without submitit or Slurm, or for settings that they do not take.
    """
    executor = _executor(sweep, settings, cluster)
    with sweep.folder.hold():
        sweep.note()
        known = sweep.folder.jobs()
        queued = in_queue({known[run.name] for run in sweep.runs if run.name in known})
        runs = []
        for run in sweep.unfinished():
            if (job := known.get(run.name)) in queued:
                say(f"{run.name}: job {job} is in the queue")
            else:
                runs.append(run)
        if not runs:
            say("nothing to submit")
            return 0
        with executor.batch():
            jobs = [
                executor.submit(Job(dataclasses.replace(sweep, runs=[run]), timeout))
                for run in runs
            ]
        sweep.folder.add_jobs({run.name: job.job_id for run, job in zip(runs, jobs, strict=True)})
        for run, job in zip(runs, jobs, strict=True):
            say(f"{run.name}: submitted as job {job.job_id}")
    return 0


def _executor(sweep: Sweep, settings: Sequence[str], cluster: str) -> Any:
    try:
        import submitit
    except ImportError:
        raise UserError(
            "--launcher=slurm needs submitit: pip install -r requirements-slurm.txt"
        ) from None
    if cluster == "slurm" and not shutil.which("srun"):
        raise UserError("there is no Slurm here (no srun); start this on a login node")
    folder = sweep.folder.path / "slurm" / "%j"
    executor = submitit.AutoExecutor(folder, cluster, slurm_max_num_timeout=_REQUEUES)
    parameters: dict[str, Any] = {"name": sweep.folder.path.name or "sweep"}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not key or not equals:
            raise UserError(f"--slurm {setting} must be KEY=VALUE, as partition=gpu")
        named = key if key in _GENERIC or key.startswith("slurm_") else f"slurm_{key}"
        parameters[named] = int(value) if value.isdecimal() else value
    try:
        executor.update_parameters(**parameters)
    except (NameError, AssertionError, ValueError, TypeError) as error:
        raise UserError(f"--slurm: {' '.join(str(error).split())}") from error
    return executor


def in_queue(jobs: Iterable[str]) -> set[str]:
    """Those of the jobs that Slurm still waits for or runs."""
    if not shutil.which("squeue"):
        return set()
    return {job for job in jobs if _squeue(job)}


def _squeue(job: str) -> str:
    """The job's line in the queue; '' if Slurm knows it no longer."""
    command = ["squeue", "--noheader", f"--jobs={job}", "--format=%i %T"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


class Job:
    """What a job does; submitit pickles it, and calls `checkpoint` before it queues it again."""

    def __init__(self, sweep: Sweep, timeout: float):
        """A job for the only run of `sweep`."""
        self._sweep, self._timeout = sweep, timeout
        self._walk: Walk | None = None

    def __call__(self) -> int:
        """Trains and scores; returns the exit status."""
        here = _hosts()
        # No signals of ours: submitit's own handlers are in place.
        self._walk = Walk(self._sweep, here, self._timeout, _POLL, [])
        status = self._walk.follow() if here.process_id else self._walk.lead()
        if self._walk.child and (last := self._walk.child.poll()) and last.stopped:
            # By Slurm, which ends a job that it preempts in its own time: one that had left before
            # would count as finished, and not be queued again.
            time.sleep(_LAST_WORD)
        return status

    def checkpoint(self) -> Any:
        """Called in a handler of the signal that comes before the end: saves."""
        import submitit

        if self._walk:
            self._walk.stop()
        return submitit.helpers.DelayedSubmission(Job(self._sweep, self._timeout))


def _hosts() -> hosts.Hosts:
    if "SLURM_PROCID" in os.environ:
        return hosts.find(None, None, "", os.environ)
    return hosts.Hosts(0, 1, str(os.getpid()))  # submitit's local executor
