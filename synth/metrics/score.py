"""What every metric returns: a figure with its circumstances, or the reason why there is none."""

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """One figure, how it was computed, and what is odd about the text it scores.

    Attributes:
      value: the figure, in percent unless its metric says otherwise.
      signature: libraries with their versions, and settings.
      n_lines: what was scored: lines, or questions, or data sets of an average.
      n_empty: hypotheses without a word among the lines given.
      warnings: what is odd about the text, in words.
      lines: the figures of the lines, in order, where the value is their mean; for `significance`.
    """

    value: float
    signature: str
    n_lines: int
    n_empty: int
    warnings: tuple[str, ...] = ()
    lines: tuple[float, ...] = ()


@dataclass(frozen=True)
class Unavailable:
    """No figure: "n/a" in a table, never 0 and never another metric's figure."""

    reason: str
    value: None = None


Result = Score | Unavailable


def check_pairs(hypotheses: Sequence[str], references: Sequence, *others: Sequence) -> None:
    """Raises unless there is one hypothesis, a string, for each element of the other sequences.

    TypeError for anything but a sequence of strings, ValueError for unequal lengths (named) or
    an empty set.
    """
    check_strings("hypotheses", hypotheses)
    for aligned in (references, *others):
        if len(hypotheses) != len(aligned):
            raise ValueError(f"{len(hypotheses)} hypotheses but {len(aligned)} references")
    if not hypotheses:
        raise ValueError("the set is empty: 0 hypotheses and 0 references")


def check_strings(name: str, lines: Sequence[str]) -> None:
    """TypeError for one bare string, and for anything else but a sequence of strings."""
    if isinstance(lines, str) or not all(isinstance(line, str) for line in lines):
        raise TypeError(f"{name} must be a sequence of strings, one for each line")


def make_signature(*packages: str, **settings: object) -> str:
    """`key:value|...`: the settings in their order, then the version of each package."""
    versions = {name: importlib.metadata.version(name) for name in packages}
    parts: Mapping[str, object] = settings | versions
    return "|".join(f"{key}:{value}" for key, value in parts.items())
