"""Sweeps on the hosts of a pod: together from run to run, and never for ever."""

import re
import signal
import time

import pytest
from sweep_fakes import RUNS, processes, states, until

from synth.errors import UserError
from synth.sweeps import hosts
from synth.sweeps.children import Outcome
from synth.sweeps.meeting import Report
from synth.sweeps.pod import together

pytestmark = pytest.mark.usefixtures("in_root")

RANDOM, DENSE, VANILLA = RUNS
_STEP = {"SLURM_STEP_NODELIST": "a,b"}  # inside of srun

_DRIVER = """
import dataclasses, pathlib, sys
sys.path.insert(0, "tests")
from sweep_fakes import fake_sweep
from synth.errors import UserError
from synth.sweeps import pod
from synth.sweeps.hosts import Hosts
directory, host, count, timeout, runs = sys.argv[1:]
sweep = fake_sweep(pathlib.Path(directory), host=int(host))
sweep = dataclasses.replace(sweep, runs=sweep.runs[: int(runs)])
try:
    sys.exit(pod.launch(sweep, Hosts(int(host), int(count), "job"), float(timeout), poll=0.02))
except UserError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""


@pytest.fixture
def start(tmp_path, sweep):
    """Starts sweep.py's walk on a host of three."""
    with processes(_DRIVER) as start:
        yield lambda host, timeout=20.0, runs=3: start(tmp_path, host, 3, timeout, runs)
        for run in RUNS:  # lets orphans end
            for host in range(3):
                (sweep.commands.control / f"train-{run.name}-{host}").unlink(missing_ok=True)
            sweep.commands.tell(run, "train", "")


def ends(process, seconds=30):
    """(exit status, standard error)"""
    _, told = process.communicate(timeout=seconds)
    return process.returncode, told


def test_three_hosts_start_each_command_together(sweep, start):
    sweep.commands.tell(RANDOM, "train", "linger", host=2)
    walks = [start(host) for host in range(3)]
    until(lambda: len(sweep.commands.calls()) == 3)
    time.sleep(0.3)
    assert len(sweep.commands.calls()) == 3  # the others wait for the slow one
    assert states(sweep) == ["running", "waiting", "waiting"]
    sweep.commands.tell(RANDOM, "train", "", host=2)
    assert [ends(walk)[0] for walk in walks] == [0, 0, 0]
    calls = sweep.commands.calls()
    together = [calls[n : n + 3] for n in range(0, len(calls), 3)]
    assert len(together) == 6
    for group in together:
        assert {call[:2] for call in group} == {group[0][:2]}
        assert {call[2] for call in group} == {"0", "1", "2"}
    assert states(sweep) == ["done"] * 3
    assert (sweep.folder.path / "logs" / f"{RANDOM.name}.host2.log").exists()


def test_a_failure_on_one_host_ends_the_command_on_all_and_the_next_run_begins(sweep, start):
    sweep.commands.tell(RANDOM, "train", "linger")  # as if they waited for their peer for ever
    sweep.commands.tell(RANDOM, "train", "fail", host=1)
    walks = [start(host, timeout=3.0) for host in range(3)]
    assert [ends(walk)[0] for walk in walks] == [1, 1, 1]
    assert states(sweep) == ["failed", "done", "done"]
    assert sweep.folder.state(RANDOM).reason == "host 1: train.py: no disk"


def test_a_host_that_does_not_come_is_named_to_all(sweep, start):
    walks = [start(1), start(0, timeout=3.0)]
    for status, told in map(ends, walks):
        assert status == 2
        assert "no sign of life from host 2 for 3 s (this is host 0 of 3): start the same" in told
        assert "--host_timeout=SECONDS" in told
    assert sweep.commands.calls() == []


def test_without_host_0_the_others_give_up(start):
    status, told = ends(start(1, timeout=0.5))
    assert status == 2
    assert "no sign of life from host 0 for 0.5 s (this is host 1 of 3)" in told


def test_a_host_that_dies_on_the_way_is_named(sweep, start):
    sweep.commands.tell(RANDOM, "train", "linger")
    walks = [start(1), start(0, timeout=3.0), start(2)]
    until(lambda: len(sweep.commands.calls()) == 3)
    walks[2].kill()
    sweep.commands.tell(RANDOM, "train", "")
    for status, told in map(ends, walks[:2]):
        assert status == 2
        assert "no sign of life from host 2 for 3 s" in told
    assert states(sweep) == ["waiting"] * 3  # of host 0's lock nothing is left


def test_a_host_that_is_told_to_stop_stops_all_and_a_later_start_goes_on(sweep, start):
    sweep.commands.tell(RANDOM, "train", "linger")
    walks = [start(host) for host in range(3)]
    until(lambda: len(sweep.commands.calls()) == 3)
    walks[1].send_signal(signal.SIGTERM)
    assert [ends(walk)[0] for walk in walks] == [143, 143, 143]
    assert states(sweep) == ["waiting"] * 3
    assert sweep.folder.state(RANDOM).reason == "stopped; the same command goes on"
    assert sweep.folder.log(RANDOM).read_text().endswith("saved\n")
    sweep.commands.tell(RANDOM, "train", "")
    # What the first attempt left in the folder is neither obeyed nor counted.
    walks = [start(host) for host in (1, 2)]
    time.sleep(1.0)
    assert len(sweep.commands.calls()) == 3
    walks.append(start(0))
    assert [ends(walk)[0] for walk in walks] == [0, 0, 0]
    assert states(sweep) == ["done"] * 3
    assert len(sweep.commands.calls()) == 3 + 18


def test_a_host_with_other_flags_says_so(start):
    walks = [start(0, timeout=3.0), start(1), start(2, runs=1)]
    status, told = ends(walks[2])
    assert status == 2
    assert f"host 0 runs {DENSE.name}: give it the same flags as this one" in told


def test_the_folder_is_held_by_host_0(sweep, start):
    with sweep.folder.hold():
        status, told = ends(start(0))
    assert status == 2
    assert "is in use by process" in told


def test_a_stop_counts_before_the_failures_that_it_causes():
    stopped, failed, fine = Outcome(143, "saved"), Outcome(1, "peer is gone"), Outcome(0)
    assert together({0: Report(failed), 1: Report(stopped)}) == stopped
    # Ended by us, since another had failed.
    assert together({0: Report(stopped, True), 1: Report(failed)}).reason == "host 1: peer is gone"
    assert together({0: Report(fine), 1: Report(fine)}) == fine
    assert together({0: Report(failed)}) == failed


@pytest.mark.parametrize(
    ("environment", "process_id", "num_processes"),
    [
        (_STEP | {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "17"}, 3, 4),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, 0, 1),  # in a batch script
        ({"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2"}, 1, 2),
        ({"TPU_WORKER_ID": "2", "TPU_WORKER_HOSTNAMES": "a,b,c,d"}, 2, 4),
        (
            {
                "TPU_WORKER_ID": "1",
                "TPU_WORKER_HOSTNAMES": "a,b",
                "MEGASCALE_SLICE_ID": "2",
                "MEGASCALE_NUM_SLICES": "3",
                "MEGASCALE_COORDINATOR_ADDRESS": "a:8080",
            },
            5,
            6,
        ),
    ],
)
def test_the_cluster_tells_which_host_this_is(environment, process_id, num_processes):
    found = hosts.find(None, None, "", environment)
    assert (found.process_id, found.num_processes) == (process_id, num_processes)
    assert hosts.find(7, 8, "", environment).process_id == 7  # flags come first


def test_hosts_of_two_jobs_meet_apart():
    environment = _STEP | {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}
    one, other = (
        hosts.find(None, None, "", environment | {"SLURM_JOB_ID": job}) for job in ("17", "18")
    )
    assert one.job != other.job


@pytest.mark.parametrize(
    ("flags", "environment", "told"),
    [
        ((None, None), {}, "cannot tell which host this is (no JAX_PROCESS_ID, SLURM_PROCID or"),
        ((1, None), {}, "--process_id and --num_processes go together"),
        ((2, 2), {}, "host 2 of 2 (flags): the first is 0, the last 1"),
        ((None, None), {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, "a Slurm job of 4 tasks"),
        ((None, None), {"TPU_WORKER_ID": "x", "TPU_WORKER_HOSTNAMES": "a"}, "names no host"),
    ],
)
def test_hosts_that_cannot_be_are_refused(flags, environment, told):
    process_id, num_processes = flags
    with pytest.raises(UserError, match=re.escape(told)):
        hosts.find(process_id, num_processes, "", environment)
