"""Hypotheses on their way to a metric. References are never changed: that makes another test set.

NFC: "ü" may be one character or two that look the same and match nothing; one German line that is
right but decomposed scores 12 BLEU.
"""

import re
import unicodedata
from collections.abc import Iterable

_END = re.compile(r"</s>|<eos>|<EOS>")
_FILLING = re.compile(r"[^\S\n]*(?:<pad>|<s>)[^\S\n]*")


def clean_hypothesis(text: str) -> str:
    """A line of another system's output: up to its first end mark, without padding, in NFC.

    Without an end mark the whole line counts. Output of our own models needs none of this, its
    ids are cut before they become text; and there the same characters would be real text.
    """
    kept = _END.split(text, maxsplit=1)[0]
    return unicodedata.normalize("NFC", _FILLING.sub(" ", kept).strip())


def composed(text: str) -> str:
    """In NFC, lines kept."""
    return unicodedata.normalize("NFC", text)


def one_line(text: str) -> str:
    """In NFC, its lines joined by spaces."""
    return composed(" ".join(text.splitlines()))


def one_space(text: str) -> str:
    """Words with one space between them, whatever white space there was."""
    return " ".join(text.split())


def count_empty(lines: Iterable[str]) -> int:
    """Lines without a word."""
    return sum(not line.strip() for line in lines)
