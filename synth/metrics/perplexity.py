"""Perplexity and bits per byte from sums, so that no figure depends on batches or hosts.

What is summed, over every line of a set:

| field    | what                                                                             |
|----------|----------------------------------------------------------------------------------|
| `nll`    | negative log-likelihood in nats, without label smoothing, padding not counted    |
| `tokens` | subword tokens, and one end-of-sequence token per line                           |
| `words`  | words between white space, and one end of line per line                          |
| `bytes`  | bytes in UTF-8, and one newline per line                                         |
| `lines`  | lines                                                                            |

Only `ppl_word` and `bits_per_byte` compare between vocabularies. The paper does not say whether its
LM1B figures are per token or per word, so both are always computed.
"""

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Sums:
    """Totals over a set of lines; parts add up with `+` or `sum(parts, Sums())`."""

    nll: float = 0.0
    tokens: int = 0
    words: int = 0
    bytes: int = 0
    lines: int = 0

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def text_counts(lines: Iterable[str]) -> tuple[int, int]:
    """Words and bytes of raw lines, as `Sums` counts them (one end or newline per line included).

    A newline inside a line is a ValueError that names the line: it would be counted twice.
    """
    words = size = 0
    for number, line in enumerate(lines, start=1):
        if "\n" in line:
            raise ValueError(f"line {number} contains a newline: {line!r:.80}")
        words += len(line.split()) + 1
        size += len(line.encode("utf-8")) + 1
    return words, size


def perplexity(sums: Sums) -> dict[str, float]:
    """`ppl_token`, `ppl_word`, `bits_per_byte` and `log_ppl_token` (nats) of a whole set.

    Text without lines of its own (blocks of span corruption) has 0 words and bytes, and no figure
    per word or byte. A perplexity too large for a float is inf; `log_ppl_token` and `bits_per_byte`
    stay finite. Sums that are not finite, or counts that cannot be of the same set, are a
    ValueError.
    """
    _check(sums)
    figures = {"ppl_token": _exp(sums.nll / sums.tokens)}
    if sums.words:
        figures["ppl_word"] = _exp(sums.nll / sums.words)
        figures["bits_per_byte"] = sums.nll / (math.log(2) * sums.bytes)
    return figures | {"log_ppl_token": sums.nll / sums.tokens}


def _check(sums: Sums):
    if not math.isfinite(sums.nll) or sums.nll < 0:
        raise ValueError(f"the summed negative log-likelihood must be finite and >= 0: {sums}")
    if sums.lines < 1:
        raise ValueError(f"nothing was scored: {sums}")
    counted = ("tokens", "words", "bytes") if sums.words or sums.bytes else ("tokens",)
    for name in counted:
        # Every line brings its own end, so fewer than one per line means that ends were left out.
        if operator.index(getattr(sums, name)) < sums.lines:
            raise ValueError(f"{name} must count at least one end per line: {sums}")


def _exp(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf
