"""T5's objective: spans of running text are hidden behind sentinels, and are what is predicted.

Raffel et al. 2020, section 3.1.4: 15% of the tokens, in spans of 3 on average. A block

    Thank you for inviting me to your party last week

may become the inputs `Thank you <0> me to your party <1> week` and the targets
`<0> for inviting <1> last`, each ended by EOS. Spans alternate with text that stays, which
comes first, as in T5's code. `restore` gives the block back.
"""

import functools
from collections.abc import Sequence

import numpy as np

from data.errors import DataError
from data.tokenizer import EOS_ID, SENTINELS

NOISE_DENSITY = 0.15
MEAN_SPAN = 3.0

Ids = list[int]


@functools.cache
def noise_counts(length: int) -> tuple[int, int]:
    """(hidden tokens, spans) of a block of `length` tokens."""
    hidden = min(max(round(length * NOISE_DENSITY), 1), max(length - 1, 1))
    spans = max(round(hidden / MEAN_SPAN), 1)
    return hidden, spans


def lengths(length: int) -> tuple[int, int]:
    """(inputs, targets), EOS included, of a block of `length` tokens."""
    hidden, spans = noise_counts(length)
    return length - hidden + spans + 1, hidden + spans + 1


@functools.cache
def block_length(max_length: int) -> int:
    """The longest block whose inputs have at most `max_length` tokens: 568 for T5's 512.

    Raises:
      DataError: if no block fits, or one needs more sentinels than there are.
    """
    length = 1
    while lengths(length + 1)[0] <= max_length:
        length += 1
    if max_length < 4:
        raise DataError(f"max_length={max_length}: span corruption needs at least 4")
    if (spans := noise_counts(length)[1]) > len(SENTINELS):
        raise DataError(
            f"max_length={max_length} needs {spans} sentinels, one for each hidden span; there are "
            f"{len(SENTINELS)}"
        )
    return length


def corrupt(block: Sequence[int], rng: np.random.Generator, sentinels: Ids) -> tuple[Ids, Ids]:
    """(inputs, targets) of a block of tokens, each with EOS; lengths as `lengths` says."""
    spans = _spans(len(block), rng)
    inputs, targets, end = [], [], 0
    for sentinel, (start, stop) in zip(sentinels[: len(spans)], spans, strict=True):
        inputs += [*block[end:start], sentinel]
        targets += [sentinel, *block[start:stop]]
        end = stop
    return [*inputs, *block[end:], EOS_ID], [*targets, EOS_ID]


def restore(inputs: Sequence[int], targets: Sequence[int], sentinels: Ids) -> Ids:
    """The block that `corrupt` has made these of."""
    hidden: dict[int, Ids] = {}
    span: Ids = []
    for token in targets:
        if token in sentinels:
            span = hidden[token] = []
        elif token != EOS_ID:
            span.append(token)
    block: Ids = []
    for token in inputs:
        if token != EOS_ID:
            block += hidden.get(token, [token])
    return block


def blocks(lines: Sequence[Sequence[int]], length: int) -> list[Ids]:
    """The lines one after the other, without a mark between them (as in T5), cut into blocks.

    Every token is in exactly one block; only the last one may be shorter.
    """
    tokens = [token for line in lines for token in line]
    return [tokens[start : start + length] for start in range(0, len(tokens), length)]


def _spans(length: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Where the hidden spans begin and end; text that stays is before each of them."""
    hidden, spans = noise_counts(length)
    kept_S = _composition(length - hidden, spans, rng)
    hidden_S = _composition(hidden, spans, rng)
    stops_S = np.cumsum(kept_S + hidden_S)
    return list(zip((stops_S - hidden_S).tolist(), stops_S.tolist(), strict=True))


def _composition(total: int, parts: int, rng: np.random.Generator) -> np.ndarray:
    """`parts` whole numbers with that sum, at least 1 each where it is large enough; all such
    divisions are equally likely."""
    if total < parts:
        return np.pad(np.ones(total, np.int64), (parts - total, 0))
    # The places after which a part ends, a random choice out of all but the last.
    ends_S = np.full(parts, total)
    ends_S[:-1] = np.sort(rng.permutation(total - 1)[: parts - 1]) + 1
    ends_S[1:] -= ends_S[:-1]
    return ends_S
