"""Batches of every kind of task: each example once whatever the hosts, exact positions, no loss."""

import dataclasses
import itertools
import json
import random
from typing import Any

import numpy as np
import pytest

from data import pipelines, span_corruption
from data.batching import Layout
from data.errors import DataError
from data.report import fill_report
from data.sources import TextSplit, read_all
from data.tasks.task import ToExamples, labelled, line, pair
from data.tokenizer import EOS_ID, SENTINELS, train_tokenizer

EXAMPLES = 157
WORDS = ["river", "stone", "light", "the", "and", "over", "walks", "old", "seven", "door"]
HOSTS = [1, 2, 3, 8]


def make_rows():
    rng = random.Random(7)
    return [
        {
            "text": f"t{n} " + " ".join(rng.choices(WORDS, k=1 + n % 23)),
            "short": f"s{n} " + " ".join(rng.choices(WORDS, k=n % 4)),
            "label": n % 3,
        }
        for n in range(EXAMPLES)
    ]


ROWS = make_rows()
SHAPES: dict[str, Any] = dict(
    max_length=48, bucket_lengths=(16, 32, 48), batch_tokens=48 * 48, batch_multiple=24
)


@dataclasses.dataclass
class Case:
    """A kind of task on the rows above."""

    layout: Layout
    to_examples: ToExamples

    @property
    def split(self) -> TextSplit:
        return TextSplit(ROWS, self.to_examples, identity="rows")

    @property
    def examples(self) -> list[Any]:
        return list(read_all(self.split))


CASES = {
    "translation": Case(Layout(kind="seq2seq", **SHAPES), pair("text", "short")),
    "summaries": Case(
        Layout(kind="seq2seq", target_length=20, truncate_inputs=True, **SHAPES),
        pair("text", "short"),
    ),
    "language_model": Case(Layout(kind="language_model", **SHAPES), line("text")),
    "span_corruption": Case(Layout(kind="span_corruption", **SHAPES), line("text")),
    "classification": Case(
        Layout(kind="classification", truncate_inputs=True, **SHAPES), labelled("text", "label")
    ),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return train_tokenizer(
        [row["text"] for row in ROWS],
        tmp_path_factory.mktemp("v") / "v.model",
        vocab_size=420,
        sentinels=SENTINELS,
    )


def train(case, tokenizer, **process):
    windows = pipelines.plan_windows(case.split, tokenizer, case.layout, window=50, seed=5)
    return pipelines.train_batches(windows, **process)


def epoch(case, tokenizer):
    """Number of batches of one epoch."""
    windows = pipelines.plan_windows(case.split, tokenizer, case.layout, window=50, seed=5)
    return sum(len(window.batches) for n in range(len(windows)) if (window := windows[n]))


def accounts(case, batches, tokenizer) -> list[Any]:
    """What of the text is in some batches, so that equal lists mean: all once, nothing else."""
    found: list[Any] = []
    for batch in batches:
        for number, targets_L in enumerate(batch["targets"]):
            if not targets_L.any():
                continue
            if case.layout.kind == "language_model":
                segments_L = batch["segments"][number]
                found += [tuple(targets_L[segments_L == s]) for s in range(1, segments_L.max() + 1)]
                continue
            inputs, targets = (
                [int(t) for t in row if t] for row in (batch["inputs"][number], targets_L)
            )
            if case.layout.kind == "span_corruption":
                # Blocks depend on the order of the lines; their tokens do not.
                found += span_corruption.restore(inputs, targets, tokenizer.sentinels)
            else:
                found.append((tuple(inputs), tuple(targets)))
    return sorted(found)


def expected_accounts(case, tokenizer) -> list[Any]:
    """The same, computed from the rows without the pipeline."""
    text = [tuple(ids) for ids in tokenizer.encode([row["text"] for row in ROWS])]
    short = [(*ids, EOS_ID) for ids in tokenizer.encode([row["short"] for row in ROWS])]
    if case.layout.kind == "span_corruption":
        return sorted(token for ids in text for token in ids)
    if case.layout.kind == "language_model":
        return sorted((*ids, EOS_ID) for ids in text)
    labels = [(row["label"] + 1,) for row in ROWS]
    targets = labels if case.layout.kind == "classification" else short
    return sorted(((*ids, EOS_ID), target) for ids, target in zip(text, targets, strict=True))


@every_case
@pytest.mark.parametrize("hosts", HOSTS)
def test_over_all_hosts_every_example_is_seen_once_per_epoch(case, tokenizer, hosts):
    count = epoch(case, tokenizer)
    parts = [
        list(
            itertools.islice(
                train(case, tokenizer, process_index=index, process_count=hosts), count
            )
        )
        for index in range(hosts)
    ]
    batches = [batch for part in parts for batch in part]
    assert accounts(case, batches, tokenizer) == expected_accounts(case, tokenizer)
    # Each host has the same number of rows of each global batch, or one would wait for ever.
    for step in zip(*parts, strict=True):
        assert len({batch["targets"].shape for batch in step}) == 1


@every_case
@pytest.mark.parametrize("hosts", HOSTS)
def test_over_all_hosts_evaluation_covers_every_example_once(case, tokenizer, hosts):
    parts = [
        pipelines.eval_batches(
            case.examples, tokenizer, case.layout, process_index=index, process_count=hosts
        )
        for index in range(hosts)
    ]
    batches = [batch for part in parts for batch in part]
    assert len({len(part) for part in parts}) == 1
    index_N = np.concatenate([batch["index"] for batch in batches])
    assert sorted(index_N[index_N >= 0]) == list(range(parts[0].examples))
    assert parts[0].truncated == 0
    for batch in batches:
        for key in batch.keys() - {"index"}:
            assert not batch[key][batch["index"] < 0].any()
    if case.layout.kind == "language_model":
        found = [tuple(row[row > 0]) for batch in batches for row in batch["targets"] if row.any()]
        assert sorted(found) == expected_accounts(case, tokenizer)
    else:
        assert accounts(case, batches, tokenizer) == expected_accounts(case, tokenizer)


@every_case
def test_positions_are_exact_anywhere_also_for_other_hosts(case, tokenizer):
    steps = 2 * epoch(case, tokenizer) + 3
    iterator = iter(train(case, tokenizer))
    whole, states = [], [iterator.get_state()]
    for _ in range(steps):
        whole.append(next(iterator))
        states.append(json.loads(json.dumps(iterator.get_state())))
    for place in random.Random(1).sample(range(steps), 4):
        for hosts in (1, 3):
            resumed = iter(train(case, tokenizer, process_index=hosts - 1, process_count=hosts))
            resumed.set_state(states[place])
            found = next(resumed)
            rows = len(whole[place]["targets"]) // hosts
            for key, array in whole[place].items():
                np.testing.assert_array_equal(found[key], array[-rows:])


@every_case
def test_shapes_are_those_of_the_layout(case, tokenizer):
    for batch in itertools.islice(train(case, tokenizer), epoch(case, tokenizer)):
        length = batch.get("inputs", batch["targets"]).shape[1]
        assert length in case.layout.bucket_lengths
        for side in batch.keys() & {"inputs", "targets"}:
            expected = (case.layout.rows(length), case.layout.side_length(side, length))
            assert batch[side].shape == expected and batch[side].dtype == np.int32


def test_long_inputs_are_cut_and_counted_long_targets_left_out(tokenizer):
    rows = [
        {"text": "stone " * 100, "short": "door"},
        {"text": "river", "short": "light " * 60},
        {"text": "river", "short": "door"},
        {"text": " ", "short": "door"},
    ]
    case = CASES["summaries"]
    split = TextSplit(rows, case.to_examples, identity="long")
    windows = pipelines.plan_windows(split, tokenizer, case.layout, window=9, seed=0)
    report = fill_report(windows, None)
    assert (report.truncated, report.too_long, report.empty) == (1, 1, 1)
    assert "left out 1 too long, 1 empty; cut 1 inputs (25.0%)" in str(report)
    window = windows[0]
    assert window is not None
    (batch,) = window.batches
    cut = max(batch["inputs"].tolist(), key=lambda row: sum(map(bool, row)))
    assert 0 not in cut and cut[-1] == EOS_ID and len(cut) == 48
    evaluated = pipelines.eval_batches(list(read_all(split)), tokenizer, case.layout)
    assert (evaluated.examples, evaluated.truncated) == (4, 2)


def test_what_is_reported_is_of_the_windows_seen(tokenizer):
    case = CASES["translation"]
    windows = pipelines.plan_windows(case.split, tokenizer, case.layout, window=50, seed=5)
    first = fill_report(windows)
    assert first.examples < first.total and f"of {first.total:,}" in str(first)
    whole = fill_report(windows, None)
    assert whole.examples == whole.total == EXAMPLES
    assert set(whole.fill) == {"inputs", "targets"}


def test_evaluation_hides_the_same_spans_every_time(tokenizer):
    case = CASES["span_corruption"]
    one, two = (pipelines.eval_batches(case.examples, tokenizer, case.layout) for _ in range(2))
    for batch, other in zip(one, two, strict=True):
        for key, array in batch.items():
            np.testing.assert_array_equal(array, other[key])


def test_every_epoch_hides_other_spans(tokenizer):
    case, count = CASES["span_corruption"], epoch(CASES["span_corruption"], tokenizer)
    batches = list(itertools.islice(train(case, tokenizer), 2 * count))
    targets = [
        {tuple(row) for b in half for row in b["targets"]}
        for half in (batches[:count], batches[count:])
    ]
    assert len(targets[0] & targets[1]) < len(targets[0]) / 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(kind="seq2seq", target_length=49), "target_length=49 must be 0 .* max_length=48"),
        (dict(kind="seq2seq", target_length=1), "target_length=1 must be 0"),
        (dict(kind="classification", target_length=8), "target_length=8 has no use in a class"),
        (
            dict(kind="span_corruption", max_length=3, bucket_lengths=(3,)),
            "max_length=3: span corruption needs at least 4",
        ),
    ],
)
def test_layouts_that_cannot_be_are_named(changes, message):
    with pytest.raises(DataError, match=message):
        Layout(**{**SHAPES, **changes})
