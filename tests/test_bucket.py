"""A run in a bucket is the run of a directory.

The libraries are those that a real one takes; `fake_bucket.py` is the other end.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_bucket
import numpy as np
import pytest
from conftest import ROOT, Running
from test_distributed import free_port

from synth import files
from synth.errors import UserError

RUN = (
    "--config=configs/lm1b.py:random+vanilla,scale=tiny",
    "--config.train.num_steps=12",
    "--config.train.log_every=2",
    "--config.train.eval_every=6",
    "--config.train.checkpoint_every=3",
)
DATA = "--config.data.data_dir="


class Bucket:
    """Reads and removes objects by the same requests as any library."""

    def __init__(self, url: str):
        # One variable for gcsfs and TensorBoard's events, one for Orbax' arrays.
        self.environment = {"STORAGE_EMULATOR_HOST": url, "TENSORSTORE_GCS_HTTP_URL": url}
        self._url = url

    def names(self) -> list[str]:
        return [item["name"] for item in json.loads(self._ask(""))["items"]]

    def metrics(self, run: str) -> list[dict[str, Any]]:
        return without_timing(self._ask(self._place(f"{run}/metrics.jsonl") + "?alt=media"))

    def remove(self, name: str) -> None:
        self._ask(self._place(name), method="DELETE")

    def _place(self, name: str) -> str:
        return "/" + urllib.parse.quote(name, safe="")

    def _ask(self, place: str, method: str = "GET") -> str:
        url = f"{self._url}/storage/v1/b/{fake_bucket.BUCKET}/o{place}"
        request = urllib.request.Request(url, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode()


def without_timing(text: str) -> list[dict[str, Any]]:
    lines = map(json.loads, text.splitlines())
    return [{key: value for key, value in line.items() if key != "timing"} for line in lines]


def wait_for(condition, status, seconds: float = 60) -> None:
    """Until something is so, or its process has a status; the server may not be there yet."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if condition():
                return
        except urllib.error.URLError:
            pass
        assert status() is None
        time.sleep(0.05)
    pytest.fail(f"not within {seconds} s")


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    port, quiet = free_port(), subprocess.DEVNULL
    command = [sys.executable, fake_bucket.__file__, str(port)]
    server = subprocess.Popen(command, stdout=quiet, stderr=quiet)
    try:
        found = Bucket(f"http://localhost:{port}")
        wait_for(lambda: found.names() == [], server.poll)
        yield found
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module")
def straight(start, tmp_path_factory, data_dir) -> Path:
    """The run on a file system, never stopped."""
    workdir = tmp_path_factory.mktemp("straight") / "run"
    flags = (*RUN, f"{DATA}{data_dir}", f"--workdir={workdir}")
    run = start("train.py", *flags).wait()
    assert run.status == 0, run.err
    return workdir


@pytest.mark.slow
def test_a_run_in_a_bucket_killed_is_the_run_of_a_directory(start, bucket, straight, data_dir):
    there, flags = "--workdir=gs://bucket/run", (*RUN, f"{DATA}{data_dir}")
    killed = start("train.py", *flags, there, environment=bucket.environment)
    done = "run/checkpoints/6/commit_success.txt"
    wait_for(lambda: done in bucket.names(), lambda: killed.status)
    os.kill(killed.process.pid or 0, signal.SIGKILL)
    killed.wait()
    bucket.remove(done)  # as if it had been killed a moment before: what is there does not count
    profile = "--profile_steps=10,11"
    again = start("train.py", *flags, there, profile, environment=bucket.environment).wait()
    assert again.status == 0, again.err
    assert "going on from the checkpoint of step 3" in again.err

    assert bucket.metrics("run") == without_timing((straight / "metrics.jsonl").read_text())
    names = bucket.names()
    assert any(name.startswith("run/profile/") and name.endswith(".xplane.pb") for name in names)
    assert any(name.startswith("run/events.out") for name in names)

    outputs = [
        start("generate.py", f"--workdir={straight}", "--text=The"),
        start("generate.py", there, "--text=The", environment=bucket.environment),
    ]
    assert [output.wait().status for output in outputs] == [0, 0], outputs[1].err
    assert outputs[0].out == outputs[1].out


@pytest.mark.long
def test_two_processes_share_a_bucket(start, bucket, straight, data_dir):
    flags = (*RUN, f"{DATA}{data_dir}", "--workdir=gs://bucket/two")
    flags += (f"--coordinator_address=localhost:{free_port()}", "--num_processes=2")
    running = [
        start("train.py", *flags, f"--process_id={index}", environment=bucket.environment)
        for index in range(2)
    ]
    assert [process.wait().status for process in running] == [0, 0], running[0].err
    found = bucket.metrics("two")
    expected = without_timing((straight / "metrics.jsonl").read_text())
    assert [line.keys() for line in found] == [line.keys() for line in expected]
    for line, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(list(line.values()), list(other.values()), rtol=1e-4)
    assert "two/checkpoints/12/commit_success.txt" in bucket.names()


@pytest.mark.long
def test_runs_in_a_bucket_are_compared_and_start_others(start, bucket, data_dir, tmp_path):
    (tmp_path / "results").mkdir()
    shutil.copy(ROOT / "results" / "paper.json", tmp_path / "results")
    results = f"--results={tmp_path / 'results'}"

    def run(name: str, *flags: str) -> Running:
        done = start(name, *flags, environment=bucket.environment).wait()
        assert done.status == 0, done.err
        return done

    for variant in ("vanilla", "random"):
        config = f"--config=configs/imdb.py:{variant},scale=tiny"
        place = f"--workdir=gs://bucket/{variant}"
        run("train.py", config, place, "--config.train.num_steps=2", f"{DATA}{data_dir}")
        run("eval.py", place, "--split=validation", results)
    run("eval.py", "--compare", results)
    records = map(json.loads, (tmp_path / "results" / "runs.jsonl").read_text().splitlines())
    assert "accuracy_p_vs_vanilla" in [record["metric"] for record in records]

    started = run(
        "train.py",
        "--config=configs/imdb.py:vanilla,scale=tiny",
        f"--workdir={tmp_path / 'run'}",
        "--config.train.init_from=gs://bucket/vanilla",
        "--config.train.num_steps=1",
        f"{DATA}{data_dir}",
    )
    assert "starting from step 2 of gs://bucket/vanilla" in started.err


def test_addresses_that_are_none():
    with pytest.raises(UserError, match="s3://bucket/run: name a directory, or a place in a buck"):
        files.locate("s3://bucket/run")


def test_a_bucket_without_a_name():
    with pytest.raises(UserError, match="gs:///run: name the bucket"):
        files.locate("gs:///run")


def test_a_bucket_that_is_not_there(start, bucket):
    flags = (*RUN, "--workdir=gs://other/run")
    run = start("train.py", *flags, environment=bucket.environment).wait()
    assert run.status == 2
    assert "the bucket gs://other cannot be reached: there is none of that name" in run.err
    assert "Traceback" not in run.err
