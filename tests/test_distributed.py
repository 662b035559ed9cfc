"""Several processes are one program: equal to one, stopped, killed and restarted together."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from conftest import ONE_DEVICE, ROOT
from test_resume import metrics, parameters
from test_training import SMOOTH_ADAM

from synth import distributed
from synth.errors import UserError
from synth.rundir import RunDir

STEPS = SMOOTH_ADAM | {
    "train.num_steps": 6,
    "train.log_every": 1,
    "train.eval_every": 6,
    "train.checkpoint_every": 3,
    "data.window": 256,
}


@pytest.fixture
def launch(start, tiny):
    """Starts the processes of a run; returns a function for how they end."""

    def launch(run: RunDir, processes: int, row="lm1b:random+vanilla", changes=None, **flags):
        info = tiny(row, STEPS | (changes or {}))
        config = [f"--config.{key}={value}" for key, value in info.overrides.items()]
        common = [f"--config={info.name}", *config, f"--workdir={run.path}"]
        return launch_command(start, "train.py", common, processes, **flags)

    return launch


def launch_command(start, script, common, processes, *, join_timeout=100, absent=(), own=None):
    port = free_port()
    running = []
    for index in range(processes):
        if index in absent:
            continue
        argv = [*common, *(own or {}).get(index, [])]
        if processes > 1:
            argv += [
                f"--coordinator_address=127.0.0.1:{port}",
                f"--num_processes={processes}",
                f"--process_id={index}",
                f"--join_timeout={join_timeout}",
            ]
        running.append(start(script, *argv))
    return running


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def finish(running) -> list[int | None]:
    return [process.wait(240).status for process in running]


def losses(run: RunDir) -> np.ndarray:
    return np.array([line["train/loss"] for line in metrics(run) if "train/loss" in line])


@pytest.fixture(scope="module")
def alone(start, tiny, tmp_path_factory):
    """The run in one process."""
    run = RunDir(tmp_path_factory.mktemp("alone") / "run")
    info = tiny("lm1b:random+vanilla", STEPS)
    config = [f"--config.{key}={value}" for key, value in info.overrides.items()]
    common = [f"--config={info.name}", *config, f"--workdir={run.path}"]
    assert finish(launch_command(start, "train.py", common, 1)) == [0]
    return run


def assert_like(run: RunDir, other: RunDir) -> None:
    """The same run but for the order in which floats were added."""
    np.testing.assert_allclose(losses(run), losses(other), rtol=1e-5)
    for found, expected in zip(parameters(run), parameters(other), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("processes", "changes"),
    [
        pytest.param(4, {}, marks=pytest.mark.long),
        # Both processes hold a half of the heads, and feed the same rows.
        (2, {"sharding.mesh.tensor": 2}),
    ],
)
def test_processes_train_as_one_does(launch, alone, tmp_path, processes, changes):
    run = RunDir(tmp_path / "run")
    running = launch(run, processes, changes=changes)
    assert finish(running) == [0] * processes, [process.err for process in running]
    assert_like(run, alone)
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["3", "6"]
    first, *others = (process.err for process in running)
    assert f"devices: {processes} (cpu); processes: {processes}; mesh: data=" in first
    for index, err in enumerate(others, start=1):
        assert f"process {index} of {processes} on {socket.gethostname()}" in err
        assert "loss" not in err


def test_a_run_changes_the_number_of_its_processes(launch, alone, tmp_path):
    """Two processes, then one, then two: the batches go on."""
    run = RunDir(tmp_path / "run")
    for processes, steps in ((2, 2), (1, 4), (2, 6)):
        running = launch(run, processes, changes={"train.num_steps": steps})
        assert finish(running) == [0] * processes, [process.err for process in running]
    assert_like(run, alone)


LONG = {"train.num_steps": 4000, "train.eval_every": 4000, "train.checkpoint_every": 1000}


def wait_for(condition, running, seconds=90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert all(process.status is None for process in running), [p.err for p in running]
        assert time.monotonic() < end, [p.err for p in running]
        time.sleep(0.02)


def test_a_signal_to_one_process_stops_all_at_one_step(launch, tmp_path):
    """Between two steps, and before the first one of a run that goes on."""
    run = RunDir(tmp_path / "run")
    running = launch(run, 2, changes=LONG)
    wait_for(lambda: run.metrics.exists() and len(metrics(run)) > 3, running)
    begun = stop(run, running, signal.SIGINT)
    assert metrics(run)[-1]["step"] == begun
    running = launch(run, 2, changes=LONG)
    wait_for(lambda: "going on from the checkpoint" in running[0].err, running)
    saved = stop(run, running, signal.SIGTERM)
    assert begun <= saved < begun + 100

    # Goes on for two steps, as a run does that never stopped.
    changes = LONG | {"train.num_steps": saved + 2}
    assert finish(launch(run, 2, changes=changes)) == [0, 0]
    straight = RunDir(tmp_path / "straight")
    assert finish(launch(straight, 2, changes=changes)) == [0, 0]
    np.testing.assert_array_equal(losses(run), losses(straight))
    for found, expected in zip(parameters(run), parameters(straight), strict=True):
        np.testing.assert_array_equal(found, expected)


def stop(run: RunDir, running, number: int) -> int:
    """Sends process 1 a signal; returns the step that all have saved."""
    os.kill(running[1].process.pid or 0, number)
    assert finish(running) == [128 + signal.SIGTERM, 128 + number], running[0].err
    saved = max(int(path.name) for path in run.checkpoints.iterdir())
    assert f"saved step {saved}; to go on: python train.py" in running[0].err
    return saved


def test_a_process_that_is_killed_ends_the_others_in_plain_words(launch, alone, tmp_path):
    run = RunDir(tmp_path / "run")
    running = launch(run, 2, changes=STEPS | {"train.num_steps": 4000})
    wait_for(lambda: (run.checkpoints / "3").is_dir(), running)
    os.kill(running[1].process.pid or 0, signal.SIGKILL)
    assert finish(running)[0] == 2, running[0].err
    assert "process 0 has lost another process of the run" in running[0].err
    assert "Traceback" not in running[0].err


@pytest.mark.long
def test_processes_killed_at_random_moments_end_as_if_never_killed(launch, tmp_path):
    """SIGKILL to either of two or to both: while they start, take steps and save."""
    often = {"train.num_steps": 60, "train.log_every": 7, "train.eval_every": 60}
    changes = often | {"train.checkpoint_every": 3}
    straight, run = RunDir(tmp_path / "straight"), RunDir(tmp_path / "run")
    assert finish(launch(straight, 2, changes=changes)) == [0, 0]
    rng, reached = random.Random(0), []
    for kill in range(10):
        running = launch(run, 2, changes=changes)
        if kill % 2:  # once it has saved something, at the latest when it ends
            before = newest(run)
            while newest(run) == before and running[0].status is None:
                time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 0.05))
        else:
            time.sleep(rng.uniform(0.0, 12.0))
        victims = rng.choice([running[:1], running[1:], running])
        for process in victims:
            os.kill(process.process.pid or 0, signal.SIGKILL)
        for process, status in zip(running, finish(running), strict=True):
            # 134: JAX itself ends a process that has lost the first one.
            assert status in ((-9, 0) if process in victims else (2, 134, 0)), process.err
        reached.append(newest(run))
    assert reached == sorted(reached) and len(set(reached)) > 3, reached
    assert finish(launch(run, 2, changes=changes)) == [0, 0]
    assert metrics(run) == metrics(straight)
    for found, expected in zip(parameters(run), parameters(straight), strict=True):
        np.testing.assert_array_equal(found, expected)


def newest(run: RunDir) -> int:
    """The step of the newest whole checkpoint; 0 if there is none."""
    names = [path.name for path in run.checkpoints.glob("*")]
    return max([int(name) for name in names if name.isdecimal()], default=0)


def test_a_host_that_does_not_come_is_said(launch, tmp_path):
    for absent in (0, 1):
        (running,) = launch(RunDir(tmp_path / "run"), 2, join_timeout=2, absent=[absent])
        assert finish([running]) == [2]
        assert f"process {1 - absent} of 2 has waited 2 s for the others" in running.err
        assert "Traceback" not in running.err
    assert not (tmp_path / "run").exists()


def test_a_process_that_waits_says_so_and_can_be_interrupted(start, tmp_path):
    flags = (f"--coordinator_address=localhost:{free_port()}", "--num_processes=2")
    row = ("--config=configs/lm1b.py:random,scale=tiny", f"--workdir={tmp_path}/run")
    running = start("train.py", *row, *flags, "--process_id=0")
    end = time.monotonic() + 60
    while "process 0 of 2 on " not in running.err and time.monotonic() < end:
        time.sleep(0.05)
    assert "waits for the others (localhost:" in running.err
    time.sleep(0.5)  # it says so just before it waits
    os.kill(running.process.pid, signal.SIGINT)
    assert running.wait(20).status == -signal.SIGINT


def test_what_differs_between_processes_is_said(launch, tmp_path):
    changed = {1: ["--config.optimizer.warmup_steps=77"]}
    running = launch(RunDir(tmp_path / "run"), 2, own=changed)
    assert finish(running) == [2, 2]
    for process in running:
        assert "optimizer.warmup_steps is 10 in process 0 and 77 in process 1" in process.err
    assert not (tmp_path / "run").exists()


def test_a_directory_that_is_not_shared_is_said(launch, tmp_path):
    running = launch(RunDir(tmp_path / "run"), 2, own={1: [f"--workdir={tmp_path}/other"]})
    assert finish(running) == [2, 2]
    for process in running:
        assert "this process does not see what process 0 has written there" in process.err


def test_processes_score_as_one_does(start, alone, tmp_path):
    found = {}
    for processes in (1, 2):
        results = tmp_path / f"results{processes}"
        results.mkdir()
        shutil.copy(ROOT / "results" / "paper.json", results)
        common = [f"--workdir={alone.path}", f"--results={results}"]
        running = launch_command(start, "eval.py", common, processes)
        assert finish(running) == [0] * processes, [process.err for process in running]
        (nll,) = alone.eval.glob("*-nll.jsonl")
        found[processes] = nll.read_text()
        nll.unlink()
        assert len((results / "runs.jsonl").read_text().splitlines()) == 4
        assert ["Written:" in process.out for process in running] == [True, False][:processes]
    assert found[1] == found[2]


@pytest.mark.parametrize("memory", [80 << 30, 40 << 20])
def test_processes_decode_as_many_rows_as_the_smallest_memory_holds(memory, tmp_path):
    """Each looks at a device of its own; a device of 80 GiB overflows no number."""
    script = f"""
import sys
import jax
jax.distributed.initialize("localhost:{{port}}", 2, int(sys.argv[1]))
from synth import configuration, decoding_memory
from synth.decoding import Search
from synth.experiment import make_textless_experiment

own = {memory} // (1 + jax.process_index())
decoding_memory.device_bytes = lambda device: device.memory_stats() or own
config = configuration.load("configs/wmt_ende.py:vanilla,scale=tiny")
config.decode.batch_tokens = 1 << 20
experiment = make_textless_experiment(config)
print(decoding_memory.batch_tokens(experiment, Search(beam=4, alpha=0.6)))
""".replace("{port}", str(free_port()))
    environment = os.environ | {"XLA_FLAGS": ONE_DEVICE}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(index)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    found = [int(process.communicate(timeout=120)[0].split()[-1]) for process in running]
    assert found[0] == found[1]
    assert found[0] == 1 << 20 if memory > 1 << 32 else 512 < found[0] < 1 << 20


# --- Flags ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("h:1", 2, None), "--process_id"),
        ((None, 2, None), "--coordinator_address and --process_id"),
        (("h:1", 2, 2), "--process_id=2 must be from 0 to 1"),
        (("h", 2, 0), "--coordinator_address=h must be HOST:PORT"),
    ],
)
def test_flags_that_do_not_fit_together(flags, words):
    with pytest.raises(UserError, match=words):
        distributed.start(*flags, timeout=1, heartbeat_timeout=10)


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, ""),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "1", "SLURM_STEP_NODELIST": "a,b"}, "Slurm"),
        ({"SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_STEP_NODELIST": "a"}, ""),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, ""),  # in a batch script, outside of srun
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "Open MPI"),
    ],
)
def test_a_cluster_is_found_by_its_environment(environment, found):
    assert distributed.cluster(environment) == found


def test_alone_nobody_is_waited_for():
    assert jax.process_count() == 1
    assert distributed.in_turns(lambda: 3) == 3
    distributed.check_equal({"a": 1})
    assert distributed.loss_of_peer(RuntimeError("Gloo")) is None
