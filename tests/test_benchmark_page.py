"""The page of benchmarks: sections are replaced by title, ratios are found in them."""

import argparse
import os
import re
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import attention, data, decode, measure, startup, train_step


def section(title: str, value: str) -> str:
    rows = [["random", "none", value, "0.50"], ["vanilla", "none", "2", "-"]]
    headers = ("variant", "mask", "ms", "it : plain")
    return measure.section(title, "python -m it", "Text.", headers, rows, left=2, packages=())


def test_a_section_replaces_the_one_with_its_title(tmp_path):
    page = tmp_path / "folder" / "page.md"
    for title, value in (("A", "1"), ("B", "1"), ("A", "7")):
        measure.write(section(title, value), page)
    text = page.read_text("utf-8")
    assert text.startswith("# Benchmarks\n")
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## A", "## B"]
    assert section("A", "7").strip() in text
    assert section("A", "1").strip() not in text
    assert "\n\n\n" not in text


def test_ratios_are_the_columns_with_a_colon():
    assert list(command.ratios(section("A", "1"))) == [("A", "random, none", "it : plain", "0.50")]


def test_a_benchmark_that_fails_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "QUICK", {"attention": ["--help"], "none": []})
    found = {"attention": section("A", "1")}
    monkeypatch.setattr(command, "run", lambda name, _: found.get(name))
    page = tmp_path / "page.md"
    assert command.main([f"--write={page}"]) == 1
    out, err = capsys.readouterr()
    assert "random, none" in out and "benchmarks.none failed" in err
    assert "## A" in page.read_text("utf-8")


def test_a_benchmark_that_cannot_be_run_has_no_section():
    assert command.run("no_such_benchmark", []) is None


def test_turns_alternate_and_ratios_are_within_rounds():
    order = []
    ways = {name: (lambda name=name: order.append(name)) for name in "ab"}
    taken = measure.timed(ways, rounds=2)
    assert order == ["a", "b", "a", "b", "a", "b"]
    assert {name: len(seconds) for name, seconds in taken.items()} == {"a": 2, "b": 2}
    assert measure.ratio({"a": [2.0, 9.0, 1.0], "b": [1.0, 3.0, 1.0]}, "a", "b") == 2.0


def test_the_command_has_what_is_no_default():
    flags = argparse.ArgumentParser(prog="benchmarks.it")
    flags.add_argument("--size", default="small")
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--peer", type=Path)
    flags.add_argument("--write")
    flags.add_argument("--gpu", action="store_true")
    given = ["--size", "base", "--peer", "some/where", "--write", "page.md", "--gpu"]
    found = measure.called(flags, flags.parse_args(given))
    assert found == "python -m benchmarks.it --size=base --peer=DIR --gpu"
    assert measure.called(flags, flags.parse_args([])) == "python -m benchmarks.it"


@pytest.mark.parametrize(
    ("benchmark", "flag", "told"),
    [
        (attention, "--lengths=abc", "'abc' must be a number"),
        (attention, "--masks=foo", "'foo' is none of none, padding, causal"),
        (attention, "--rounds=0", "'0' must be a number of at least 1"),
        (decode, "--variants=nonsense", "unknown attention variant 'nonsense'.*known: random"),
        (decode, "--lines=33", "--lines=33 must fill batches of 32"),
        (train_step, "--plain=nope", "unknown attention variant 'nope'"),
        (train_step, "--flax_examples=nowhere", "nowhere has no models.py"),
        (data, "--tasks=nope", "no task 'nope'; there are: wmt_ende"),
        (startup, "--config=nope", "nope"),
    ],
)
def test_mistakes_are_told_in_plain_words(benchmark, flag, told, capsys, monkeypatch):
    # Threads that other tests have left behind would make it end this process.
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as ended:
        measure.run("benchmarks.it", lambda: benchmark.main([flag]))
    assert ended.value.code == 2
    found = capsys.readouterr().err
    assert found.startswith("benchmarks.it: ") and found.count("\n") == 1
    assert re.search(told, found)


def test_flags_are_lists():
    assert measure.attentions("all") == list(measure.VARIANTS)
    assert measure.attentions("vanilla+random,dense") == ["random+vanilla", "dense"]
    assert measure.attentions("") == []
    assert measure.positives("64,256") == [64, 256]
