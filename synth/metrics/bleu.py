"""Corpus BLEU in the four forms a translation table needs, all computed by sacrebleu.

- `bleu`: 13a, cased; today's standard and our headline.
- `bleu_intl`: intl, cased; equals tensor2tensor's `t2t-bleu` cased, so it stands beside the paper.
- `bleu_intl_uncased`: intl, lower case; equals `t2t-bleu` uncased.
- `compound_split_bleu`: Moses tokens, compounds split; stands beside Vaswani et al. (2017), whose
  English-German figures were computed so (tensor2tensor's `get_ende_bleu.sh`).

The forms differ: by about half a point on English-German, by two to three on English-French, where
intl splits at apostrophes. Never compare a figure of one form with a figure of another.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU

from synth.metrics.score import (
    Result,
    Score,
    Unavailable,
    check_pairs,
    check_strings,
    make_signature,
)
from synth.metrics.text import count_empty, one_line

FORMS: dict[str, dict[str, Any]] = {
    "bleu": {"tokenize": "13a"},
    "bleu_intl": {"tokenize": "intl"},
    "bleu_intl_uncased": {"tokenize": "intl", "lowercase": True},
}
# Those that Moses' script leaves: it knows no German quotes.
_GERMAN_QUOTES = str.maketrans({"„": '"', "\u201a": "'", "\u2018": "'"})
_MARKS = ("@@", "▁", "</s>", "<pad>", "&quot;")


def corpus_bleu(
    hypotheses: Sequence[str], references: Sequence[str], *more_references: Sequence[str]
) -> dict[str, Score]:
    """Scores detokenised hypotheses, one per line of the test set, against raw references.

    A line may have several references: `more_references` are as long as `references`.
    Hypotheses are put in NFC and on one line; references are scored as they are, because a changed
    reference is another test set. Raises TypeError for anything but sequences of strings, and
    ValueError for an empty set or unequal lengths (which sacrebleu would cut short silently).
    """
    streams = (references, *more_references)
    _check(hypotheses, *streams)
    lines = [one_line(line) for line in hypotheses]
    warnings = (
        *_oddities("hypotheses", lines),
        *(oddity for stream in streams for oddity in _oddities("references", stream)),
    )
    scores = {}
    for name in FORMS:
        metric = make_metric(name)
        value = metric.corpus_score(lines, streams).score
        signature = str(metric.get_signature())
        scores[name] = Score(value, signature, len(lines), count_empty(lines), warnings)
    return scores


def make_metric(form: str, references: Sequence[str] | None = None) -> BLEU:
    """sacrebleu's metric of a form, with its references if they are given."""
    if form not in FORMS:
        raise ValueError(f"there is no form {form!r} of BLEU; there are {', '.join(FORMS)}")
    # force: no advice on stderr; _oddities gives it
    return BLEU(**FORMS[form], force=True, references=None if references is None else [references])


def compound_split_bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str = "de"
) -> Result:
    """BLEU of Moses tokens, cased, `a-b` split into `a ##AT##-##AT## b` on both sides.

    As tensor2tensor's script: Unicode punctuation becomes ASCII, then Moses' tokenizer, the split,
    and multi-bleu.perl, which smooths nothing. There only the hypotheses' punctuation is changed,
    and the reference had been given ASCII quotes by hand; here both sides go the same way, quotes
    of all kinds included, or newstest2014's „“ could match no output at all. Needs sacremoses,
    which equals Moses' Perl on 99.6% of lines (0.01 BLEU).
    """
    _check(hypotheses, references)
    try:
        tokenized = [_moses_split([one_line(line) for line in hypotheses], language)]
    except ModuleNotFoundError:
        return Unavailable("sacremoses is not installed: pip install -r requirements.txt")
    tokenized.append(_moses_split(references, language))
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    value = metric.corpus_score(tokenized[0], [tokenized[1]]).score
    signature = f"{metric.get_signature()}|" + make_signature(
        "sacremoses", moses=language, punctuation="ascii on both sides", compounds="##AT##"
    )
    warnings = (*_oddities("hypotheses", hypotheses), *_oddities("references", references))
    return Score(value, signature, len(hypotheses), count_empty(hypotheses), warnings)


def _moses_split(lines: Sequence[str], language: str) -> list[str]:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    plain = MosesPunctNormalizer(language).replace_unicode_punct
    tokenize = MosesTokenizer(language).tokenize
    tokenized = (tokenize(plain(line.translate(_GERMAN_QUOTES)), return_str=True) for line in lines)
    return [re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", str(line)) for line in tokenized]


def _check(hypotheses: Sequence[str], *streams: Sequence[str]) -> None:
    # sacrebleu's own layout [stream][line] would score one line, and score it wrongly.
    check_strings("hypotheses", hypotheses)
    for stream in streams:
        check_strings("references", stream)
    check_pairs(hypotheses, *streams)


def _oddities(side: str, lines: Sequence[str]) -> list[str]:
    """What suggests that the text is tokenised, not cut at its end, or not normalised."""
    counts = {f"contain {mark!r}": sum(mark in line for line in lines) for mark in _MARKS}
    counts["end in ' .' (tokenised?)"] = sum(line.rstrip().endswith(" .") for line in lines)
    counts["are not NFC"] = sum(not unicodedata.is_normalized("NFC", line) for line in lines)
    return [f"{n} of {len(lines)} {side} {what}" for what, n in counts.items() if n]
