"""What is seen of a long preparation, on a terminal and elsewhere."""

import sys
import time

import pytest
import tensorflow_datasets.public_api as tfds
from tensorflow_datasets.core.utils import tqdm_utils

from data.preparation import progress


@pytest.fixture(autouse=True)
def no_bars_afterwards():
    yield
    tfds.disable_progress_bar()


def bar() -> None:
    for _ in tqdm_utils.tqdm(range(3), desc="writing", file=sys.stderr):
        pass


def test_lines_where_there_is_no_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS", 0.01)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "half.txt").write_bytes(bytes(10_000_000))
    with progress.shown([tmp_path, tmp_path / "not there yet"]):
        bar()
        time.sleep(0.2)
    captured = capsys.readouterr()
    first = f"  0 min: 0.01 GB in {tmp_path}, 0.00 GB in {tmp_path / 'not there yet'}"
    assert captured.err.splitlines()[0] == first
    assert "writing" not in captured.err
    assert captured.out == ""


def test_bars_on_a_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.shown([tmp_path]):
        bar()
    captured = capsys.readouterr()
    assert "writing" in captured.err
    assert " min: " not in captured.err
    assert captured.out == ""
