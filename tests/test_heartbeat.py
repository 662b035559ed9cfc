"""Signs of life of the processes of a run."""

import contextlib
import json
import time

import pytest

from synth.heartbeat import Heartbeat


@pytest.fixture
def process_0(tmp_path):
    """The heartbeat of process 0, quick, and what it has said."""
    said: list[str] = []
    doing = {"step": 3, "part": "step", "seconds": 0.0}
    with beating(tmp_path / "beats", said, doing):
        yield tmp_path / "beats", said, doing


def beating(folder, said: list[str], doing: dict) -> contextlib.AbstractContextManager:
    return contextlib.closing(
        Heartbeat(
            folder,
            lambda: doing,
            say=said.append,
            process=0,
            processes=2,
            every=0.02,
            silent_after=0.3,
            stuck_after=5.0,
        )
    )


def sign(folder, beat: int, **doing) -> None:
    record = {"beat": beat, "host": "b", "pid": 7, "step": 3, "part": "data", "seconds": 0.0}
    (folder / "1.json").write_text(json.dumps(record | doing))


def wait_for(said: list[str], seconds: float = 10.0) -> str:
    end = time.monotonic() + seconds
    while not said and time.monotonic() < end:
        time.sleep(0.01)
    return said[0]


def test_a_silent_process_is_named_once(process_0):
    folder, said, _ = process_0
    for beat in range(40):  # 0.8 s: longer than silence may last
        sign(folder, beat)
        time.sleep(0.02)
    assert not said
    told = wait_for(said)
    assert told.startswith("process 1 has given no sign of life for")
    assert "b, pid 7, in 'data' after step 3" in told
    time.sleep(0.5)
    assert len(said) == 1
    sign(folder, 100)  # it lives, and is silent again
    time.sleep(0.8)
    assert len(said) == 2


def test_a_process_that_never_began_is_named(process_0):
    _, said, _ = process_0
    assert "process 1" in wait_for(said) and "it has not begun" in said[0]


def test_what_keeps_all_waiting_is_told_once_a_step(tmp_path):
    said: list[str] = []
    sign(tmp_path, 0, seconds=601.0)
    with beating(tmp_path, said, {"step": 3, "part": "step", "seconds": 600.0}):
        for beat in range(1, 20):
            time.sleep(0.02)
            sign(tmp_path, beat, seconds=601.0)
    (told,) = said
    assert "no step has ended for long" in told
    assert "process 0:" in told and "in 'step' after step 3 for 600 s" in told
    assert "process 1: b, pid 7, in 'data' after step 3 for 601 s" in told
