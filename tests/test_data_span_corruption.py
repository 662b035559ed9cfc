"""Hidden spans: exactly invertible, T5's lengths and shares, the same for the same generator."""

import numpy as np
import pytest

from data import span_corruption
from data.errors import DataError
from data.tokenizer import EOS_ID

SENTINELS = list(range(3, 103))


def corrupted(length, seed=0):
    rng = np.random.default_rng(seed)
    block = np.random.default_rng(length).integers(103, 500, length).tolist()
    return block, *span_corruption.corrupt(block, rng, SENTINELS)


@pytest.mark.parametrize("length", [*range(1, 60), 111, 568, 569, 1000])
def test_a_block_comes_back_exactly(length):
    for seed in range(20):
        block, inputs, targets = corrupted(length, seed)
        assert span_corruption.restore(inputs, targets, SENTINELS) == block
        assert (len(inputs), len(targets)) == span_corruption.lengths(length)
        assert inputs[-1] == targets[-1] == EOS_ID
        used = [token for token in inputs if token in SENTINELS]
        assert used == [token for token in targets if token in SENTINELS]
        assert used == SENTINELS[: len(used)]  # in order, from the first


def test_lengths_are_those_of_t5():
    """T5's span corruption cuts 568 tokens for inputs of 512, and gives targets of 114."""
    assert span_corruption.block_length(512) == 568
    assert span_corruption.lengths(568) == (512, 114)
    for max_length in range(4, 600):
        length = span_corruption.block_length(max_length)
        assert span_corruption.lengths(length)[0] <= max_length
        assert span_corruption.lengths(length + 1)[0] > max_length


def test_shares_and_spans_are_as_asked():
    hidden, spans = span_corruption.noise_counts(568)
    assert (hidden, spans) == (85, 28)  # 15%, spans of 3
    _, inputs, targets = corrupted(568)
    assert inputs[0] not in SENTINELS  # what stays comes first
    starts = [i for i, token in enumerate(targets) if token in SENTINELS] + [len(targets) - 1]
    assert (np.diff(starts) >= 2).all()  # no span is empty
    places = [i for i, token in enumerate(inputs) if token in SENTINELS]
    assert (np.diff(places) >= 2).all()  # nor do two touch


def test_every_division_of_the_spans_happens():
    """Two spans of 6 hidden tokens (block of 40): lengths 1+5 to 5+1, about equally often."""
    assert span_corruption.noise_counts(40) == (6, 2)
    counts = np.zeros(7, int)
    for seed in range(1000):
        _, _, targets = corrupted(40, seed)
        counts[targets.index(SENTINELS[1]) - 1] += 1
    assert counts[0] == counts[6] == 0
    assert counts[1:6].min() > 150


def test_the_generator_decides():
    assert corrupted(100, 1)[1:] == corrupted(100, 1)[1:]
    assert corrupted(100, 1)[1:] != corrupted(100, 2)[1:]


def test_blocks_hold_every_token_once_in_order():
    lines = [[5, 6], [], [7], [8, 9, 10, 11, 12], [13]]
    blocks = span_corruption.blocks(lines, 4)
    assert blocks == [[5, 6, 7, 8], [9, 10, 11, 12], [13]]


def test_lengths_that_cannot_be_are_named():
    with pytest.raises(DataError, match="max_length=3: span corruption needs at least 4"):
        span_corruption.block_length(3)
    with pytest.raises(DataError, match=r"max_length=2048 needs 11\d sentinels"):
        span_corruption.block_length(2048)
    with pytest.raises(ValueError):  # a vocabulary without enough sentinels hides nothing silently
        span_corruption.corrupt(list(range(500, 600)), np.random.default_rng(0), SENTINELS[:2])
