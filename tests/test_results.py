"""The run store under rough handling, and the names of rows."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from result_records import BASE, ROOT, make

from synth.results import ResultsError, append, load, row_key
from synth.variants import VARIANTS


@pytest.fixture
def store(tmp_path) -> Path:
    return tmp_path / "runs.jsonl"


# Names of rows


@pytest.mark.parametrize(
    ("variant", "mix", "expected"),
    [
        ("vanilla", None, "vanilla"),
        ("dense", "softmax", "dense"),
        ("random+vanilla", "softmax", "random+vanilla"),
        ("random+vanilla", None, "random+vanilla"),
        ("vanilla+random", "sum", "random+vanilla;mix=sum"),
        ("dense+vanilla", "sigmoid", "dense+vanilla;mix=sigmoid"),
        ("vanilla+unheard_of", None, "unheard_of+vanilla"),
    ],
)
def test_row_key(variant, mix, expected):
    assert row_key(variant, mix) == expected


def test_row_key_orders_terms_as_the_model_does():
    assert row_key("+".join(reversed(VARIANTS)), None) == "+".join(VARIANTS)


def test_row_key_finds_every_row_of_the_paper():
    paper = json.loads((ROOT / "results" / "paper.json").read_text("utf-8"))
    for table in ("wmt_lm1b", "narang", "encoder_only"):
        for name in (row["variant"] for row in paper[table]["rows"]):
            variant, _, mix = name.partition(";mix=")
            assert row_key(variant, mix or None) == name


# The store


def test_round_trip(store):
    records = [make(seed=n, device="a\u2028b") for n in range(3)]
    assert append(store, records) == 3
    assert load(store) == records


def test_no_file_is_an_empty_store(store):
    assert load(store) == []


def test_repeating_a_run_adds_nothing(store):
    assert append(store, [BASE, BASE]) == 1
    again = make(date="2025-02-01T00:00:00Z", commit="def", settings={"alpha": 0.6, "beam": 4})
    assert append(store, [again]) == 0
    assert load(store) == [BASE]


@pytest.mark.parametrize(
    "change",
    [{"value": 10.5}, {"test_set_sha256": "other"}, {"signature": "other"}, {"step": 4000}],
)
def test_newest_replaces_and_never_counts_twice(store, change):
    newer = make(date="2025-02-01T00:00:00Z", device="gpu", **change)
    assert append(store, [newer]) == 1
    assert append(store, [BASE]) == 1
    assert load(store) == [newer]
    assert len(store.read_bytes().splitlines()) == 2


def test_going_back_to_an_old_value_is_news(store):
    dates = ["2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z", "2025-01-03T00:00:00Z"]
    for value, date in zip((1.0, 2.0, 1.0), dates, strict=True):
        append(store, [make(value=value, date=date)])
    assert [record.date for record in load(store)] == dates[2:]


def test_sums_are_no_part_of_the_identity(store):
    append(store, [make(sums={"nll": 1.0})])
    append(store, [make(sums={"nll": 1.1}, value=11.0)])
    assert [record.value for record in load(store)] == [11.0]


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from synth.results import append
from tests.result_records import BASE
for seed in range(20):
    record = replace(BASE, task=f"task{sys.argv[1]}", seed=seed, device="x" * 5000)
    append(Path(sys.argv[2]), [record, replace(BASE, seed=seed)])
"""


def test_concurrent_writers_lose_nothing(store):
    command = [sys.executable, "-c", WRITER]
    writers = [subprocess.Popen([*command, str(n), str(store)], cwd=ROOT) for n in range(4)]
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    records = load(store)
    assert len(records) == 4 * 20 + 20
    assert len(store.read_bytes().splitlines()) == len(records)  # the shared ones written once


def test_append_after_a_line_without_newline(store):
    store.write_text(BASE.to_json())
    append(store, [make(seed=1)])
    assert len(load(store)) == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"task": "wmt', "not JSON"),
        ("[1]", "not a JSON object"),
        (BASE.to_json().replace('"value": 10.0', '"value": NaN'), "NaN"),
        (
            BASE.to_json().replace('"value": 10.0', '"value": "10.0"'),
            "value must be float, got str",
        ),
        (BASE.to_json().replace('"value": 10.0', '"value": 1e999'), "value must be finite"),
        (BASE.to_json().replace('"seed": 0', '"seed": true'), "seed must be int, got bool"),
        (BASE.to_json().replace('"seed": 0, ', ""), r"missing fields \['seed'\]"),
        (BASE.to_json().replace('"seed"', '"sead"'), r"unknown \['sead'\]"),
        (BASE.to_json().replace('"scale": "small"', '"scale": "big"'), "scale must be one of"),
        (BASE.to_json().replace("+00:00", ""), "date must be in UTC"),
        (BASE.to_json().replace("+00:00", "+02:00"), "date must be in UTC"),
        ("<<<<<<< HEAD", "not JSON"),
    ],
)
def test_a_bad_line_is_named_and_the_store_left_alone(store, line, reason):
    text = f"{BASE.to_json()}\n{line}\n"
    store.write_text(text)
    with pytest.raises(ResultsError, match=rf"runs.jsonl:2: .*{reason}"):
        load(store)
    with pytest.raises(ResultsError, match=r"runs.jsonl:2: "):
        append(store, [make(seed=5)])
    assert store.read_text() == text


def test_all_bad_lines_are_told_at_once(store):
    store.write_bytes(b"{\n\n\xff\n")
    with pytest.raises(ResultsError, match=r"(?s):1: .*:3: "):
        load(store)


@pytest.mark.parametrize(
    "change",
    [{"value": math.nan}, {"value": math.inf}, {"seed": 1.0}, {"mix": "mean"}, {"date": "today"},
     {"settings": {"x": math.nan}}, {"settings": {"x": object()}}, {"overrides": None}],
)  # fmt: skip
def test_a_bad_record_cannot_be_made(change):
    with pytest.raises(ResultsError):
        make(**change)
