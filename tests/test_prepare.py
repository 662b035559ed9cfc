"""`python -m data.prepare` without TensorFlow: what it says, refuses, keeps and goes on with."""

import dataclasses
import shutil
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow_datasets.public_api as tfds
import toy_builder
from conftest import ROOT
from tensorflow_datasets.core.download import checksums, downloader, util

from data import builders, prepare
from data.command import Stopped
from data.errors import DataError
from data.preparation import archives, building
from data.sources import find_prepared, open_split, read_all
from data.tasks import TASKS


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """A task whose data set is made by tests/toy_builder.py."""
    monkeypatch.setitem(TASKS, "toys", toy_builder.TASK)
    monkeypatch.setitem(builders.MODULES, "toy_rows", "toy_builder")


@pytest.fixture(autouse=True)
def network(monkeypatch) -> list[str]:
    """No server answers; the URLs that were tried."""
    tried: list[str] = []
    monkeypatch.setattr(archives, "_answers", lambda url: bool(tried.append(url)))
    return tried


@pytest.fixture
def run(tmp_path, capsys) -> Callable[..., str]:
    """Runs the command on the toys with its archives in tmp_path/archives; returns its output."""

    def run(*argv: str, task: str = "toys") -> str:
        folder = tmp_path / "archives"
        folder.mkdir(exist_ok=True)
        flags = [f"--data_dir={tmp_path / 'data'}", f"--manual_dir={folder}", "--vocab_size=300"]
        assert prepare.main([task, *flags, *argv]) == 0
        return capsys.readouterr().out

    return run


def refused(run: Callable[..., str], *argv: str, **kwargs: str) -> str:
    with pytest.raises(DataError) as error:
        run(*argv, **kwargs)
    return str(error.value)


# --- The whole way --------------------------------------------------------------------------------


def test_from_archive_to_vocabulary(run, network, tmp_path):
    path = toy_builder.write(tmp_path / "archives")
    out = run()
    assert "toys: prices of toys" in out
    assert "licence: none" in out
    assert f"lies in {path.parent}: toys.txt" in out
    assert archives.sha256(path) in out
    assert "GB are free" in out
    assert out.count("as published") == 2
    assert "300 pieces, sha256 " in out
    (vocabulary,) = (tmp_path / "data" / "vocabularies").glob("toys-toys-300-*.model")
    assert f"kept in {vocabulary}" in out
    assert archives.sha256(vocabulary) in out
    assert out.endswith("done\n")
    assert network == []
    split = open_split(toy_builder.TOYS, "train", data_dir=tmp_path / "data")
    assert {example["targets"] for example in read_all(split)} == set(
        toy_builder.TEXT.splitlines()[:-10]
    )


def test_again_nothing_is_done_twice(run, tmp_path, monkeypatch):
    path = toy_builder.write(tmp_path / "archives")
    run()
    path.unlink()
    monkeypatch.setattr(building.Preparation, "run", None)
    out = run()
    assert "prepared already" in out
    assert out.count("as published") == 2
    assert "300 pieces" in out


def test_other_counts_than_the_published_ones_are_warnings(run, tmp_path):
    toy_builder.write(tmp_path / "archives", toy_builder.TEXT + "one more\n")
    out = run()
    assert "81  WARNING: 80 are published" in out
    assert out.endswith("done; WARNINGs above: 1\n")


def test_a_split_without_a_published_count_is_no_warning(run, tmp_path, monkeypatch):
    toy_builder.write(tmp_path / "archives")
    dataset = dataclasses.replace(toy_builder.TOYS, counts={"train": 80})
    monkeypatch.setitem(TASKS, "toys", dataclasses.replace(toy_builder.TASK, datasets=(dataset,)))
    assert "10  no count is published" in run()


def test_a_stand_in_by_name(run, data_dir):
    flags = ["--dataset=docs_ende", f"--data_dir={data_dir}", "--vocab_size=600"]
    out = run(*flags, task="wmt_ende")
    assert "docs_ende: a stand-in" in out
    assert "32,667" in out
    assert "600 pieces, sha256 " in out
    assert out.endswith("done\n")


def test_check_only_looks(run, tmp_path):
    toy_builder.write(tmp_path / "archives")
    out = run("--check")
    assert "not prepared yet" in out
    assert "nothing stands in the way" in out
    assert find_prepared(toy_builder.TOYS, tmp_path / "data") is None
    run()
    out = run("--check")
    assert "prepared already" in out
    assert out.count("as published") == 2


def test_a_folder_of_the_builder_comes_first(run, tmp_path):
    path = toy_builder.write(tmp_path / "archives" / "toy_rows")
    (tmp_path / "archives" / "toys.txt").write_text("another set's file of the same name")
    assert f"lies in {path.parent}" in run()


# --- What is missing or wrong ---------------------------------------------------------------------


def test_missing_archives_without_network_are_listed(run, network, tmp_path):
    path = toy_builder.write(tmp_path / "archives")
    size, digest = path.stat().st_size, archives.sha256(path)
    path.unlink()
    message = refused(run)
    assert "toys.example cannot be reached" in message
    assert f"toys.txt  {size:,} bytes  sha256 {digest}  {toy_builder.URL}" in message
    assert f"into {tmp_path / 'archives'} " in message
    assert network == [toy_builder.URL]
    assert not (tmp_path / "data").exists()


def test_missing_archives_of_one_name_go_into_folders(tmp_path):
    found = [
        archives.Archive(name="RTE.zip", size=1, sha256="0", url=url, owner=owner, path=None)
        for url, owner in (
            ("https://a.example/RTE.zip", "glue"),
            ("https://b.example/RTE.zip", "sg"),
        )
    ]
    message = str(archives.unreachable("no network", found, tmp_path))
    assert f"{tmp_path}/glue, {tmp_path}/sg" in message


def test_a_download_that_fails_on_the_way_is_told(run, tmp_path, monkeypatch):
    path = toy_builder.write(tmp_path / "archives")
    path.unlink()
    monkeypatch.setattr(archives, "_answers", lambda url: True)

    def fails(*args, **kwargs):
        raise util.DownloadError("Failed to get url. HTTP code: 404.")

    monkeypatch.setattr(downloader._Downloader, "_sync_download", fails)
    message = refused(run)
    assert "HTTP code: 404" in message
    assert "toys.txt" in message


def test_a_cut_archive_is_named_with_both_sizes_and_hashes(run, tmp_path):
    path = toy_builder.write(tmp_path / "archives")
    right = archives.sha256(path)
    path.write_text("cut")
    message = refused(run)
    for part in (str(path), "3 bytes", right, archives.sha256(path)):
        assert part in message


def test_a_changed_archive_is_named_with_both_hashes(run, tmp_path):
    path = toy_builder.write(tmp_path / "archives")
    right = archives.sha256(path)
    path.write_text(toy_builder.TEXT.replace("red", "ret"))
    message = refused(run)
    for part in (str(path), right, archives.sha256(path)):
        assert part in message


def test_too_little_disk_is_told_with_both_numbers(run, tmp_path, monkeypatch):
    toy_builder.write(tmp_path / "archives")
    usage = types.SimpleNamespace(free=0.5e9)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    dataset = dataclasses.replace(toy_builder.TOYS, disk_gb=7.25)
    task = dataclasses.replace(toy_builder.TASK, datasets=(dataset,))
    monkeypatch.setitem(TASKS, "toys", task)
    message = refused(run)
    assert "7.2 GB" in message
    assert "0.5 GB free" in message
    assert "300 pieces" in run("--disk_gb=0.4")


def test_without_tensorflow_its_requirements_are_named(run, monkeypatch):
    monkeypatch.setattr(building.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(archives, "_answers", lambda url: True)
    message = refused(run, "--disk_gb=0", task="imdb")
    assert message.startswith("imdb_reviews is prepared by a builder of TFDS that needs TensorFlow")
    assert "pip install -r requirements-prepare.txt" in message


def test_a_builder_that_stumbles_is_one_line_and_a_file(run, tmp_path, monkeypatch):
    toy_builder.write(tmp_path / "archives")

    def stumble(number: int) -> None:
        raise KeyError("no such column\nin the table")

    monkeypatch.setattr(toy_builder, "before_row", stumble)
    message = refused(run)
    assert "toys cannot be prepared" in message
    assert "\n" not in message
    log = tmp_path / "data" / "downloads" / "toy_rows.error.txt"
    assert str(log) in message
    assert "no such column" in log.read_text()


def test_a_set_stored_in_another_format_is_refused(run, tmp_path, monkeypatch):
    toy_builder.write(tmp_path / "archives")
    run()
    info = next((tmp_path / "data" / "toy_rows").rglob("dataset_info.json"))
    info.write_text(info.read_text().replace("array_record", "tfrecord"))
    assert tfds.builder_from_directory(str(info.parent)).info.file_format is not None
    assert "tfrecord" in refused(run)


# --- Interruptions --------------------------------------------------------------------------------


def leftovers(tmp_path: Path) -> list[Path]:
    data_dir = tmp_path / "data"
    return [
        data_dir / "toy_rows" / "incomplete.AB12CD_1.0.0",
        data_dir / "downloads" / "toy_rows" / f"toys.example_a.txt.tmp.{'0' * 32}",
        data_dir / "downloads" / "extracted" / "toy_rows" / f"incomplete.{'0' * 32}_ZIP.a.zip",
    ]


def test_leftovers_of_this_set_are_removed_and_no_others(run, tmp_path):
    toy_builder.write(tmp_path / "archives")
    mine = leftovers(tmp_path)
    others = [
        tmp_path / "data" / "other_rows" / "incomplete.AB12CD_1.0.0",
        tmp_path / "data" / "toy_rows" / "incomplete.AB12CD_2.0.0",
        tmp_path / "data" / "downloads" / "other_rows" / f"a.tmp.{'0' * 32}",
    ]
    for folder in mine + others:
        folder.mkdir(parents=True)
        (folder / "half.txt").write_text("half")
    out = run()
    for folder in mine:
        assert not folder.exists()
        assert f"interrupted preparation left: {folder}" in out
    assert all(folder.exists() for folder in others)


def test_a_stop_leaves_no_half_a_set_and_the_same_command_goes_on(run, tmp_path, monkeypatch):
    path = toy_builder.write(tmp_path / "archives")

    def stop(number: int) -> None:
        if number == 40:
            raise Stopped(signal.SIGTERM)

    monkeypatch.setattr(toy_builder, "before_row", stop)
    with pytest.raises(Stopped) as stopped:
        run()
    assert "kept" in stopped.value.note
    assert "same command" in stopped.value.note
    assert path.exists()
    assert find_prepared(toy_builder.TOYS, tmp_path / "data") is None
    monkeypatch.setattr(toy_builder, "before_row", lambda number: None)
    assert "as published" in run()


def test_what_was_downloaded_is_not_downloaded_again(run, tmp_path, monkeypatch):
    path = toy_builder.write(tmp_path / "archives")
    path.unlink()
    monkeypatch.setattr(archives, "_answers", lambda url: True)
    downloads = []

    def download(self, url: str, folder: Any, verify: bool = True) -> downloader.DownloadResult:
        downloads.append(url)
        file = folder / "toys.txt"
        file.write_text(toy_builder.TEXT)
        return downloader.DownloadResult(path=file, url_info=checksums.compute_url_info(file))

    def stop(number: int) -> None:
        raise Stopped(signal.SIGINT)

    monkeypatch.setattr(downloader._Downloader, "_sync_download", download)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(toy_builder, "before_row", stop)
        run()
    out = run()
    assert downloads == [toy_builder.URL]
    assert f"lies in {tmp_path / 'data' / 'downloads' / 'toy_rows'}: toys.txt" in out
    assert out.count("as published") == 2


def test_a_second_process_is_refused(run, tmp_path, monkeypatch):
    toy_builder.write(tmp_path / "archives")
    messages = []

    def another(number: int) -> None:
        if not messages:
            messages.append(refused(run))

    monkeypatch.setattr(toy_builder, "before_row", another)
    run()
    assert "another process" in messages[0]


_SLOW = """
import sys, time
sys.path[:0] = [{root!r}, {root!r} + "/tests"]
from pathlib import Path
import toy_builder
from data import builders, command, prepare
from data.preparation import archives
from data.tasks import TASKS
from tensorflow_datasets.core.download import downloader
TASKS["toys"] = toy_builder.TASK
builders.MODULES["toy_rows"] = "toy_builder"
archives._answers = lambda url: True
def wait(*args, **kwargs):
    Path({begun!r}).touch()
    time.sleep(100)
toy_builder.before_row = wait
downloader._Downloader._sync_download = wait
path = toy_builder.write(Path({folder!r}))
if {downloads}:
    path.unlink()
argv = ["toys", "--data_dir={data}", "--manual_dir={folder}", "--vocab_size=300"]
command.run("data.prepare", lambda: prepare.main(argv))
"""


@pytest.mark.parametrize(
    ("number", "downloads"),
    [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)],
)
def test_a_signal_ends_the_command_with_one_line(tmp_path, number, downloads):
    """While it writes, and while threads of TFDS download."""
    script = _SLOW.format(
        root=str(ROOT),
        begun=str(tmp_path / "begun"),
        folder=str(tmp_path / "archives"),
        data=str(tmp_path / "data"),
        downloads=downloads,
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _wait_for((tmp_path / "begun").exists)
        process.send_signal(number)
        assert process.wait(30) == 128 + number
        assert process.stderr is not None
        err = process.stderr.read()
    assert err.startswith("data.prepare: stopped; archives that were downloaded whole are kept")
    assert err.count("\n") == 1
    assert not any((tmp_path / "data").glob("toy_rows/incomplete.*"))


def _wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)
