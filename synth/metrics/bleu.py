"""Corpus BLEU in the three forms a translation table needs, all computed by sacrebleu.

- `bleu`: 13a, cased; today's standard and our headline.
- `bleu_intl`: intl, cased; equals tensor2tensor's `t2t-bleu` cased, so it stands beside the paper.
- `bleu_intl_uncased`: intl, lower case; equals `t2t-bleu` uncased.

The forms differ: by about half a point on English-German, by two to three on English-French, where
intl splits at apostrophes. Never compare a figure of one form with a figure of another.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU

_FORMS = {
    "bleu": {"tokenize": "13a"},
    "bleu_intl": {"tokenize": "intl"},
    "bleu_intl_uncased": {"tokenize": "intl", "lowercase": True},
}
_MARKS = ("@@", "▁", "</s>", "<pad>", "&quot;")


@dataclass(frozen=True)
class Score:
    """One BLEU figure (0-100), how it was computed, and what is odd about the text it scores."""

    value: float
    signature: str
    n_lines: int
    n_empty: int
    warnings: tuple[str, ...]


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Score]:
    """Scores detokenised hypotheses, one per line of the test set, against one raw reference each.

    Hypotheses are put in NFC and on one line; references are scored as they are, because a changed
    reference is another test set. Raises TypeError for anything but two sequences of strings, and
    ValueError for an empty set or unequal lengths (which sacrebleu would cut short silently).
    """
    _check(hypotheses, references)
    lines = [unicodedata.normalize("NFC", " ".join(line.splitlines())) for line in hypotheses]
    empty = sum(not line.strip() for line in lines)
    warnings = (*_oddities("hypotheses", lines), *_oddities("references", references))
    scores = {}
    for name, options in _FORMS.items():
        metric = BLEU(**options, force=True)  # force: no advice on stderr; _oddities gives it
        value = metric.corpus_score(lines, [references]).score
        signature = str(metric.get_signature())
        scores[name] = Score(value, signature, len(lines), empty, warnings)
    return scores


def _check(hypotheses: Sequence[str], references: Sequence[str]):
    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        # sacrebleu's own layout [stream][line] would score one line, and score it wrongly.
        if isinstance(lines, str) or not all(isinstance(line, str) for line in lines):
            raise TypeError(f"{name} must be a sequence of strings, one for each line")
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses but {len(references)} references")
    if not hypotheses:
        raise ValueError("the set is empty: 0 hypotheses and 0 references")


def _oddities(side: str, lines: Sequence[str]) -> list[str]:
    """What suggests that the text is tokenised, not cut at its end, or not normalised."""
    counts = {f"contain {mark!r}": sum(mark in line for line in lines) for mark in _MARKS}
    counts["end in ' .' (tokenised?)"] = sum(line.rstrip().endswith(" .") for line in lines)
    counts["are not NFC"] = sum(not unicodedata.is_normalized("NFC", line) for line in lines)
    return [f"{n} of {len(lines)} {side} {what}" for what, n in counts.items() if n]
