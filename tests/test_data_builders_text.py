"""LM1B and C4 from small files with the published layout; the chats of the installed package."""

import dataclasses
import gzip
import hashlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets.public_api as tfds
from small_builds import prepared, tgz

from data.builders import c4, chitchat, lm1b, local
from data.errors import DataError

# --- LM1B -----------------------------------------------------------------------------------------

SHARDS = {
    name: f"{name[-14:]} first\n{name[-14:]} \u201clast\u201d \u2028 .\n".encode()
    for names in lm1b.FILES.values()
    for name in names
}
SHARD = lm1b.TRAIN_FOLDER + "news.en-00042-of-00100"


@pytest.fixture
def words(tmp_path, monkeypatch):
    """Prepares LM1B from an archive with these members."""

    def prepare(members, *, sha256=None):
        path = tgz(tmp_path / "archives" / lm1b.ARCHIVE.filename, members)
        sha256 = sha256 or hashlib.sha256(path.read_bytes()).hexdigest()
        monkeypatch.setattr(lm1b, "ARCHIVE", dataclasses.replace(lm1b.ARCHIVE, sha256=sha256))
        rows = prepared(lm1b.Lm1bShards(data_dir=tmp_path / "data"), path.parent)
        return {split: [row["text"] for row in part] for split, part in rows.items()}

    return prepare


def test_lm1b_keeps_the_shards_apart(words):
    others = {SHARD.replace("training", "heldout"): b"no\n", lm1b.TRAIN_FOLDER + "README": b""}
    with pytest.raises(DataError, match=r"unknown file for training: .*README"):
        words(others | SHARDS)
    del others[lm1b.TRAIN_FOLDER + "README"]
    texts = words(others | dict(reversed(SHARDS.items())))
    assert texts["test"] == ["00000-of-00050 first", "00000-of-00050 \u201clast\u201d \u2028 ."]
    assert texts["validation"][0] == "00001-of-00050 first"
    # In the order of the archive.
    assert texts["train"][::2] == [f"{number:05d}-of-00100 first" for number in range(99, 0, -1)]


LM1B_FAULTS = {
    "missing": ({SHARD: None}, r"tar\.gz lacks 1-billion.*/news\.en-00042-of-00100"),
    "missing heldout": ({lm1b.FILES["test"][0]: None}, r"lacks .*heldout-00000-of-00050"),
    "one too many": (
        {lm1b.TRAIN_FOLDER + "news.en-00000-of-00100": b"no\n"},
        r"unknown file for training: .*news\.en-00000-of-00100",
    ),
    "empty": ({SHARD: b""}, r"news\.en-00042-of-00100 is empty"),
    "Latin-1": ({SHARD: b"one\ncaf\xe9\n"}, r"news\.en-00042-of-00100:2: not UTF-8 at byte 3"),
}


@pytest.mark.parametrize(("changes", "message"), LM1B_FAULTS.values(), ids=LM1B_FAULTS)
def test_faults_of_the_lm1b_archive_are_named(words, changes, message):
    # An unknown file comes first, since what follows the last shard is not read.
    members = {**{name: None for name in changes if name not in SHARDS}, **SHARDS, **changes}
    with pytest.raises(DataError, match=message):
        words({name: text for name, text in members.items() if text is not None})


def test_lm1b_wants_the_published_archive(words, tmp_path):
    builder = lm1b.Lm1bShards(data_dir=tmp_path / "data")
    with pytest.raises(DataError, match=r"r13output\.tar\.gz is missing.*1,792,209,805 bytes"):
        prepared(builder, tmp_path / "nothing here")
    with pytest.raises(DataError, match=r"is not the archive published.*expected 0f\."):
        words(SHARDS, sha256="0f")


def test_a_damaged_lm1b_archive(words, tmp_path, monkeypatch):
    noise = np.random.default_rng(0).integers(0, 2**62, 2_000)
    words(SHARDS | {SHARD: "".join(f"{number}\n" for number in noise).encode()})
    path = tmp_path / "archives" / lm1b.ARCHIVE.filename
    path.write_bytes(path.read_bytes()[:9_000])
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(lm1b, "ARCHIVE", dataclasses.replace(lm1b.ARCHIVE, sha256=sha256))
    with pytest.raises(DataError, match=r"is damaged at .*news\.en-00042-of-00100"):
        prepared(lm1b.Lm1bShards(data_dir=tmp_path / "again"), path.parent)


# --- C4 -------------------------------------------------------------------------------------------

TRAIN, VALIDATION = "c4-train.00007-of-01024.json.gz", "c4-validation.00000-of-00008.json.gz"


@pytest.fixture
def pages(tmp_path):
    """Prepares C4 from files with these contents."""

    def prepare(contents):
        folder = tmp_path / "files"
        folder.mkdir(exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        rows = prepared(c4.C4Json(data_dir=tmp_path / "data"), folder)
        return {split: [row["text"] for row in part] for split, part in rows.items()}

    return prepare


def packed(*texts):
    """A file with one page for each text."""
    lines = [json.dumps({"text": text, "timestamp": "2019", "url": "u"}) for text in texts]
    return gzip.compress("".join(f"{line}\n" for line in lines).encode())


GOOD = {TRAIN: packed("a\nb", "\u00e9"), VALIDATION: packed("v")}


def test_any_files_of_c4_will_do(pages, capfd):
    first = {"c4-train.00003-of-01024.json.gz": packed("first"), "c4-train.json.gz": b"another"}
    assert pages(GOOD | first) == {"train": ["first", "a\nb", "\u00e9"], "validation": ["v"]}
    assert "reading 2 of 1024 training files and 1 of 8 validation files" in capfd.readouterr().err


C4_FAULTS = {
    "cut off": (packed("a", "b" * 99)[:-9], r":\d: damaged"),
    "no gzip": (b"{}", ":1: damaged"),
    "no JSON": (gzip.compress(b'{"text": "a"}\n{"text": '), ":2: not JSON"),
    "no text": (gzip.compress(b'{"url": "a"}\n'), ":1: not an object with a text"),
    "no object": (gzip.compress(b"[]\n"), ":1: not an object with a text"),
    "Latin-1": (gzip.compress(b'{"text": "\xe9"}\n'), ":1: not UTF-8 at byte 10"),
    "empty": (gzip.compress(b""), " is empty"),
    "no bytes": (b"", " is empty"),
}


@pytest.mark.parametrize(("content", "message"), C4_FAULTS.values(), ids=C4_FAULTS)
def test_faults_of_c4_files_are_named(pages, content, message):
    with pytest.raises(DataError, match=rf"{TRAIN}{message}"):
        pages(GOOD | {TRAIN: content})


@pytest.mark.parametrize(
    ("name", "pattern"),
    [(VALIDATION, r"c4-train\.\*-of-01024\.json\.gz"), (TRAIN, r"c4-validation\.\*-of-00008")],
)
def test_c4_wants_files_of_both_kinds(pages, name, pattern):
    with pytest.raises(DataError, match=rf"no file {pattern}.* lies in .*files"):
        pages({name: GOOD[name]})


# --- Chats ----------------------------------------------------------------------------------------


def test_chats_are_filtered_and_split_as_published(tmp_path, monkeypatch):
    kept = []
    choose = chitchat._kept
    monkeypatch.setattr(chitchat, "_kept", lambda all_: kept.append(choose(all_)) or kept[0])
    path = chitchat.prepare(data_dir=tmp_path)
    sources: Any = tfds.builder_from_directory(path).as_data_source()
    rows = {split: len(part) for split, part in sources.items()}
    assert rows == {"train": 95_834, "validation": 5_591, "test": 4_328}
    conversations = {split: len(part) for split, part in kept[0].items()}
    assert conversations == {"train": 2_346, "validation": 123, "test": 126}
    words = {
        split: sum(len(turn.split()) for talk in part for turn in talk.turns)
        for split, part in kept[0].items()
    }
    assert words == {"train": 1_675_470, "validation": 110_712, "test": 73_170}
    row = sources["test"][0]
    assert set(row) == {"source", "target", "prompt"} and row["source"]


def test_the_package_with_the_chats_must_be_that_one(tmp_path, monkeypatch):
    def change(**fields):
        monkeypatch.setattr(chitchat, "SOURCE", dataclasses.replace(chitchat.SOURCE, **fields))

    change(sha256="0f")
    with pytest.raises(DataError, match=r"dataset\.json is not .*expected 0f; pip install"):
        chitchat.prepare(data_dir=tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install chitchat-dataset==0\.9\.0"):
        chitchat.prepare(data_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def talk(texts, people=("a", "b")):
    """A conversation of people who take turns."""
    return {
        "messages": [
            [{"text": text, "sender": people[number % len(people)], "timestamp": ""}]
            for number, text in enumerate(texts)
        ]
    }


SIX = [f"turn {number}" for number in range(6)]
CHATS = {
    "short": talk(SIX[:5]),
    "three people": talk(SIX, people=("a", "b", "c")),
    "minor": talk(["I'm only fifteen", "oh"], people=("m", "a")),
    "the minor elsewhere": talk(SIX, people=("m", "a")),
    "blank": talk([*SIX, " "]),
    "address": talk([*SIX, "see example.org"]),
    "telephone": talk([*SIX, "(800) 555-0199"]),
    "strong": talk([*SIX, "What a bITch"]),
    "good": {**talk([*SIX, "I'm 17 minutes late"]), "prompt": None},
}


def test_who_and_what_is_left_out(tmp_path, monkeypatch):
    content = json.dumps(CHATS).encode()
    (tmp_path / "chats.json").write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(chitchat, "SOURCE", chitchat.Source(sha256=sha256))
    kept = chitchat._kept(chitchat._read(tmp_path / "chats.json"))
    (good,) = (conversation for part in kept.values() for conversation in part)
    assert (good.name, good.prompt) == ("good", "")


# --- Scratch folders ------------------------------------------------------------------------------


def test_what_a_killed_preparation_left_is_removed_by_the_next(tmp_path, monkeypatch):
    host = socket.gethostname()
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    names = {
        "dead": f"preparing.{host}.{done.pid}.abc",
        "alive": f"preparing.{host}.{os.getpid()}.abc",
        "elsewhere": f"preparing.{host}x.{done.pid}.abc",
    }
    for name in names.values():
        (tmp_path / name / "half").mkdir(parents=True)

    def written(make_builder, folder):
        assert Path(folder).name.startswith(f"preparing.{host}.{os.getpid()}.")
        (Path(folder) / make_builder(folder)).mkdir()

    monkeypatch.setattr(local, "_write", written)
    path = local.prepare(lambda folder: "set", Path("set"), data_dir=tmp_path, what="nothing")
    assert path == tmp_path / "set" and path.is_dir()
    left = {path.name for path in tmp_path.glob("preparing.*")}
    assert left == {names["alive"], names["elsewhere"]}
