"""The arithmetic of batches, on numbers alone: shapes, buckets, packs, padding."""

from typing import Any

import numpy as np
import pytest

from data import batching
from data.batching import Layout
from data.errors import DataError

GOOD: dict[str, Any] = dict(
    kind="seq2seq",
    max_length=32,
    batch_tokens=256,
    bucket_lengths=(8, 16, 32),
    batch_multiple=8,
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(kind="translate"), "kind='translate' is none of seq2seq, language_model"),
        (dict(max_length=1, bucket_lengths=(1,)), "max_length=1"),
        (dict(batch_tokens=255), "batch_tokens=255 is less than max_length=32 x batch_multiple=8"),
        (dict(bucket_lengths=(16, 8, 32)), r"bucket_lengths=\(16, 8, 32\) must ascend"),
        (dict(bucket_lengths=(8, 8, 32)), r"bucket_lengths=\(8, 8, 32\) must ascend"),
        (dict(bucket_lengths=(8, 16)), r"bucket_lengths=\(8, 16\) .* max_length=32"),
        (dict(bucket_lengths=()), r"bucket_lengths=\(\)"),
        (dict(batch_multiple=0), "batch_multiple=0"),
    ],
)
def test_settings_that_do_not_fit_are_named(changes, message):
    with pytest.raises(DataError, match=message):
        Layout(**{**GOOD, **changes})


def test_rows_are_a_multiple_below_the_token_budget():
    layout = Layout(**{**GOOD, "batch_tokens": 300})
    assert [layout.rows(length) for length in (8, 16, 24, 32)] == [32, 16, 8, 8]


@pytest.mark.parametrize("count", [1, 31, 32, 500])
def test_buckets_hold_every_example_once_and_only_the_last_batch_is_not_full(count):
    layout = Layout(**GOOD)
    lengths_N = np.random.default_rng(count).integers(2, 33, count)
    batches = batching.plan_buckets(lengths_N, layout)
    assert sorted(np.concatenate([members for members, _ in batches])) == list(range(count))
    assert all((lengths_N[members] <= length).all() for members, length in batches)
    assert all(len(members) == layout.rows(length) for members, length in batches[:-1])
    assert len(batches[-1][0]) <= layout.rows(batches[-1][1])


def test_packs_are_nearly_full():
    lengths_N = np.random.default_rng(0).integers(2, 40, 3000)
    packs = batching.plan_packs(lengths_N, 64)
    assert sorted(number for pack in packs for number in pack) == list(range(3000))
    sums = [lengths_N[pack].sum() for pack in packs]
    assert max(sums) <= 64 and np.mean(sums) > 0.99 * 64


def test_lines_that_fit_exactly_leave_no_room():
    packs = batching.plan_packs(np.array([8, 3, 5, 4, 4, 8]), 8)
    assert sorted(map(sorted, packs)) == [[0], [1, 2], [3, 4], [5]]


def test_padding_goes_to_the_ends_and_to_extra_rows():
    padded_BL = batching.pad([[5, 6, 7], [], [8]], batch=4, length=3)
    np.testing.assert_array_equal(padded_BL, [[5, 6, 7], [0, 0, 0], [8, 0, 0], [0, 0, 0]])
    assert padded_BL.dtype == np.int32


def test_a_packed_row_says_where_each_token_belongs():
    batch = batching.packed_batch([[[7, 8, 1], [9, 1]]], batch=2, length=6)
    np.testing.assert_array_equal(batch["targets"], [[7, 8, 1, 9, 1, 0], [0] * 6])
    np.testing.assert_array_equal(batch["segments"], [[1, 1, 1, 2, 2, 0], [0] * 6])
    np.testing.assert_array_equal(batch["positions"], [[0, 1, 2, 0, 1, 0], [0] * 6])
