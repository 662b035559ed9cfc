"""Batches: a function of seed and data alone, every example once, position exact to the batch."""

import dataclasses
import itertools
import json
import random
from typing import Any

import grain
import numpy as np
import pytest
from etils import epath

from data import batching, pipelines
from data.batching import Layout
from data.errors import DataError
from data.report import fill_report
from data.sources import TextSplit, read_all
from data.tasks.task import Kind, line, pair
from data.tokenizer import EOS_ID, train_tokenizer

EXAMPLES = 203
SHAPES: dict[str, Any] = dict(
    max_length=32, batch_tokens=256, bucket_lengths=(8, 16, 32), batch_multiple=8
)
WORDS = ["file", "menu", "open", "close", "the", "a", "of", "window", "print", "page"]


def make_lines(language, count=EXAMPLES):
    rng = random.Random(language)
    return [f"{language}{n} " + " ".join(rng.choices(WORDS, k=(n % 5) ** 2)) for n in range(count)]


EN, DE = make_lines("en"), make_lines("de")


def split_of(kind, pairs):
    """Pairs of English and German lines; a language model sees the German ones."""
    rows = [{"en": en, "de": de} for en, de in pairs]
    to_examples = pair("en", "de") if kind == "seq2seq" else line("de")
    return TextSplit(rows, to_examples, identity="list")


SPLIT_OF = {
    kind: split_of(kind, list(zip(EN, DE, strict=True))) for kind in ("seq2seq", "language_model")
}
KINDS = list(SPLIT_OF)


def settings_of(kind, **changes):
    """(split, layout, the rest) from the small text and changes to any setting."""
    settings = {"split": SPLIT_OF[kind], "window": 70, "seed": 3, **SHAPES, **changes}
    names = {field.name for field in dataclasses.fields(Layout)} & settings.keys()
    layout = Layout(kind=kind, **{name: settings.pop(name) for name in names})
    return settings.pop("split"), layout, settings


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return train_tokenizer(EN + DE, tmp_path_factory.mktemp("v") / "v.model", vocab_size=400)


@pytest.fixture
def train(tokenizer):
    """`train_batches` on the small text, with settings of one's own."""

    def make(kind, **changes):
        split, layout, settings = settings_of(kind, **changes)
        order = {name: settings.pop(name) for name in ("window", "seed")}
        windows = pipelines.plan_windows(split, tokenizer, layout, **order)
        return pipelines.train_batches(windows, **settings)

    return make


@pytest.fixture
def epoch_batches(tokenizer):
    """How many batches the first epochs have."""

    def count(kind, epochs=1, **changes):
        split, layout, settings = settings_of(kind, **changes)
        windows = pipelines.plan_windows(split, tokenizer, layout, **settings)
        numbers = range(epochs * len(windows))
        return sum(len(window.batches) for n in numbers if (window := windows[n]))

    return count


def take(dataset, count):
    return list(itertools.islice(dataset, count))


def lines_of(batches, tokenizer, key="targets"):
    """The text of all rows, or of all lines of packed rows, in order."""
    ids = []
    for batch in batches:
        segments_BL = batch.get("segments", (batch[key] != 0).astype(np.int32))
        for row_L, segments_L in zip(batch[key], segments_BL, strict=True):
            ids += [row_L[segments_L == s] for s in range(1, segments_L.max() + 1)]
    assert all(line[-1] == EOS_ID and 0 not in line for line in ids)
    return tokenizer.decode(ids)


def assert_same(batches, others):
    for batch, other in zip(batches, others, strict=True):
        assert batch.keys() == other.keys()
        for key, array in batch.items():
            np.testing.assert_array_equal(array, other[key])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [1000, 70, 17])
def test_an_epoch_holds_every_example_once(train, epoch_batches, tokenizer, kind, window):
    first = epoch_batches(kind, window=window)
    both = epoch_batches(kind, window=window, epochs=2)
    batches = take(train(kind, window=window), both)
    one, two = (lines_of(part, tokenizer) for part in (batches[:first], batches[first:]))
    assert sorted(one) == sorted(two) == sorted(DE)
    assert one != two  # every epoch has its own order


def test_pairs_stay_pairs(train, epoch_batches, tokenizer):
    batches = take(train("seq2seq"), epoch_batches("seq2seq"))
    pairs = zip(lines_of(batches, tokenizer, "inputs"), lines_of(batches, tokenizer), strict=True)
    assert sorted(pairs) == sorted(zip(EN, DE, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_few_and_as_declared(train, epoch_batches, kind):
    batches = take(train(kind, window=1000), epoch_batches(kind, window=1000))
    shapes = {array.shape for batch in batches for array in batch.values()}
    assert shapes == ({(32, 8), (16, 16), (8, 32)} if kind == "seq2seq" else {(8, 32)})
    assert all(array.dtype == np.int32 for batch in batches for array in batch.values())


def test_rows_are_no_longer_than_their_bucket_needs(train, epoch_batches):
    """Only what moved up to fill a batch, and the last batch of a window, may be shorter."""
    batches = take(train("seq2seq", window=1000), epoch_batches("seq2seq", window=1000))
    for batch in batches:
        lengths_B = np.maximum(*((batch[key] != 0).sum(1) for key in ("inputs", "targets")))
        least = {8: 2, 16: 9, 32: 17}[batch["targets"].shape[1]]
        shorter = int((lengths_B[lengths_B > 0] < least).sum())
        assert shorter < {8: 1, 16: 32, 32: 16}[batch["targets"].shape[1]]
        assert (lengths_B[:shorter] < least).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_processes_share_each_global_batch(train, kind, count):
    whole = take(train(kind), 20)
    parts = [
        take(train(kind, process_index=index, process_count=count), 20) for index in range(count)
    ]
    joined = [
        {key: np.concatenate([part[key] for part in step]) for key in step[0]}
        for step in zip(*parts, strict=True)
    ]
    assert_same(whole, joined)


def test_three_processes_need_a_multiple_of_three(train):
    settings: dict[str, Any] = dict(batch_multiple=6, process_count=3)
    parts = [next(iter(train("seq2seq", process_index=i, **settings))) for i in range(3)]
    whole = next(iter(train("seq2seq", batch_multiple=6)))
    np.testing.assert_array_equal(
        whole["inputs"], np.concatenate([part["inputs"] for part in parts])
    )
    with pytest.raises(DataError, match=r"batch of .* rows cannot be divided among 3 processes"):
        next(iter(train("seq2seq", process_count=3)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_position_is_exact_and_holds_for_any_number_of_processes(train, epoch_batches, kind):
    steps = epoch_batches(kind, epochs=2) + 7
    whole = take(train(kind), steps + 5)
    iterator = iter(train(kind))
    states = [iterator.get_state()]
    for _ in range(steps):
        next(iterator)
        states.append(json.loads(json.dumps(iterator.get_state())))
    places = {0, 1, steps, *random.Random(0).sample(range(steps), 5)}
    for place in places:
        resumed = iter(train(kind))
        resumed.set_state(states[place])
        assert resumed.get_state() == states[place]
        assert_same(whole[place : place + 5], itertools.islice(resumed, 5))
        half = iter(train(kind, process_index=1, process_count=2))
        half.set_state(states[place])
        rows = len(whole[place]["targets"]) // 2
        np.testing.assert_array_equal(next(half)["targets"], whole[place]["targets"][rows:])


def test_a_position_survives_a_checkpoint_and_going_back(train, tmp_path):
    iterator = iter(train("seq2seq"))
    take(iterator, 9)
    folder = epath.Path(tmp_path)
    handler = grain.checkpoint.CheckpointHandler()
    handler.save(folder, item=iterator)
    after = take(iterator, 4)
    assert_same(after, take(handler.restore(folder, item=iterator), 4))
    other = handler.restore(folder, item=iter(train("seq2seq")))
    assert_same(after, take(other, 4))


def test_the_seed_decides_and_nothing_else(train, epoch_batches, tokenizer):
    assert_same(take(train("seq2seq"), 9), take(train("seq2seq"), 9))
    count = epoch_batches("seq2seq", epochs=2)
    order_of = {s: lines_of(take(train("seq2seq", seed=s), count), tokenizer) for s in (3, 4)}
    assert order_of[3] != order_of[4]
    # Grain shuffles epoch e with seed + e: without care, seed 4 begins where seed 3 goes on.
    assert order_of[3][EXAMPLES : EXAMPLES + 20] != order_of[4][:20]


def test_what_cannot_be_trained_on_is_left_out_and_counted(tokenizer):
    rows = [("ok", "ok"), ("", "x"), ("x", " "), ("the " * 40, "x"), ("x", "the " * 40)]
    split = split_of("seq2seq", rows)
    layout = Layout(kind="seq2seq", **SHAPES)
    windows = pipelines.plan_windows(split, tokenizer, layout, window=9, seed=0)
    report = fill_report(windows, None)
    assert (report.examples, report.too_long, report.empty, report.batches) == (5, 2, 2, 1)
    assert "left out 2 too long, 2 empty" in str(report)
    batch = next(iter(pipelines.train_batches(windows)))
    assert lines_of([batch], tokenizer) == ["ok"]
    assert not batch["targets"][1:].any()  # rows that only fill up are zeros


def test_the_window_of_the_report_is_not_planned_again(tokenizer, monkeypatch):
    split, layout, order = settings_of("seq2seq")
    windows = pipelines.plan_windows(split, tokenizer, layout, **order)
    encode, seen = batching.encode, []

    def counted(examples, tokenizer):
        seen.append(examples)
        return encode(examples, tokenizer)

    monkeypatch.setattr(batching, "encode", counted)
    fill_report(windows)
    next(iter(pipelines.train_batches(windows)))
    assert seen.count(seen[0]) == 1


def test_text_without_one_usable_example_is_an_error_not_a_hang(train):
    split = split_of("language_model", [("", "the " * 40)])
    with pytest.raises(DataError, match="of 1 examples none can be trained on: 1 are longer"):
        next(iter(train("language_model", split=split)))


def test_batches_are_well_filled(tokenizer):
    least_of: dict[Kind, float] = {"seq2seq": 0.55, "language_model": 0.9}
    for kind, least in least_of.items():
        layout = Layout(kind=kind, **SHAPES)
        windows = pipelines.plan_windows(SPLIT_OF[kind], tokenizer, layout, window=1000, seed=0)
        report = fill_report(windows)
        assert report.fill["targets"] > least, str(report)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 7, 8, 9, EXAMPLES])
def test_evaluation_covers_every_example_once(tokenizer, kind, count):
    split = split_of(kind, list(zip(EN, DE, strict=True))[:count])
    halves = [
        pipelines.eval_batches(
            list(read_all(split)),
            tokenizer,
            Layout(kind=kind, **SHAPES),
            process_index=index,
            process_count=2,
        )
        for index in range(2)
    ]
    assert [(half.examples, half.truncated) for half in halves] == [(count, 0)] * 2
    assert len(halves[0]) == len(halves[1])  # or one process would wait for the other
    assert [len(b["index"]) for b in halves[0]] == [len(b["index"]) for b in halves[1]]
    index_N = np.concatenate([batch["index"] for half in halves for batch in half])
    assert sorted(index_N[index_N >= 0]) == list(range(count))
    for batch in itertools.chain(*halves):
        assert not batch["targets"][batch["index"] < 0].any()
        kept = [DE[i] for i in batch["index"] if i >= 0]
        assert lines_of([batch], tokenizer) == kept
        if kind == "seq2seq":
            assert lines_of([batch], tokenizer, "inputs") == [
                EN[i] for i in batch["index"][: len(kept)]
            ]


def test_evaluation_cuts_long_examples_keeps_empty_ones_and_can_ignore_targets(tokenizer):
    split = split_of("seq2seq", [("a", "the " * 40), ("", "b"), ("page " * 40, "c")])
    layout = Layout(kind="seq2seq", **SHAPES)
    both = pipelines.eval_batches(list(read_all(split)), tokenizer, layout)
    assert (both.examples, both.truncated) == (3, 2)
    rows = {i: row for b in both for i, row in zip(b["index"], b["targets"], strict=True)}
    assert rows[0][-1] == EOS_ID and (rows[0] != 0).all() and len(rows[0]) == 32
    sources = pipelines.eval_batches(list(read_all(split)), tokenizer, layout, sources_only=True)
    assert sources.truncated == 1
    assert {key for batch in sources for key in batch} == {"inputs", "index"}
    shape_of = {i: b["inputs"].shape for b in sources for i in b["index"] if i >= 0}
    assert shape_of == {0: (32, 8), 1: (32, 8), 2: (8, 32)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(window=0), "window=0"),
        (dict(seed=-1), "seed=-1"),
        (dict(process_index=2, process_count=2), "process_index=2"),
        (dict(process_count=3), "3 processes: batch_multiple must be a multiple"),
    ],
)
def test_settings_that_do_not_fit_are_named(train, changes, message):
    with pytest.raises(DataError, match=message):
        next(iter(train("seq2seq", **changes)))


def test_a_language_model_has_no_sources(tokenizer):
    with pytest.raises(DataError, match="a language model has no inputs"):
        layout, split = Layout(kind="language_model", **SHAPES), SPLIT_OF["language_model"]
        pipelines.eval_batches(list(read_all(split)), tokenizer, layout, sources_only=True)
