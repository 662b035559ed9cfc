"""Scores of replies, as nlg-eval computes them, in percent: the paper's PersonaChat columns.

All of them take words between white space, as they are: the text must be in the data set's own
tokenised, lower-case form. (The Coco captions' figures come from the same code after another
tokenizer, and differ.) `bleu1` to `bleu4` come from sacrebleu's counts, CIDEr and ROUGE-L (which
weighs recall 1.2 times) from pycocoevalcap, METEOR 1.5 from Java, and the three figures of word
vectors from a file that the user gives. What is missing is `Unavailable`, with the reason.

An empty hypothesis scores 0 and is counted. CIDEr's weights come from the references of the very
set, and it grows with the set: compare it on the same full set only, and never average parts.
"""

import math
import os
from collections.abc import Callable, Sequence

from synth.metrics.embeddings import NAMES, Vectors, read_glove, similarities, tokens
from synth.metrics.meteor import NO_PACKAGE, MeteorError, meteor
from synth.metrics.score import Result, Score, Unavailable, check_pairs, make_signature
from synth.metrics.text import composed, count_empty, one_space

_EMBEDDINGS = ("embedding", "embedding_extrema", "embedding_greedy")
_NO_PACKAGE = Unavailable(NO_PACKAGE)
_NO_GLOVE = Unavailable("no file of GloVe vectors was given")


def dialogue(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    glove: str | os.PathLike[str] | None = None,
) -> dict[str, Result]:
    """Scores replies, one per line of the set, against one or several references each.

    Args:
      hypotheses: replies, put in NFC; any white space in them becomes one space.
      references: a text, or a list of texts, for each line.
      glove: file of `word number number ...` (GloVe 6B 300d for the paper's `embedding`).

    Returns:
      `bleu1` to `bleu4`, `rougeL`, `cider`, `meteor`, `embedding` (average), `embedding_extrema`,
      `embedding_greedy`.

    Raises:
      TypeError, ValueError: unless there is one hypothesis for each line, with a reference.
    """
    check_pairs(hypotheses, references)
    given = [one_space(composed(line)) for line in hypotheses]
    wanted = [_references(line, number) for number, line in enumerate(references, start=1)]
    results: dict[str, Result] = dict(_bleu(given, wanted))
    results["rougeL"] = _rouge_l(given, wanted)
    results["cider"] = _cider(given, wanted)
    results["meteor"] = _meteor(given, wanted)
    return results | _embeddings(given, wanted, glove)


def _references(line: str | Sequence[str], number: int) -> list[str]:
    texts = [line] if isinstance(line, str) else list(line)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"the references of line {number} must be a string or some: {line!r:.80}")
    return [one_space(text) for text in texts]


def _bleu(given: list[str], wanted: list[list[str]]) -> dict[str, Score]:
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    longest = max(map(len, wanted))
    streams = [[refs[i] if i < len(refs) else None for refs in wanted] for i in range(longest)]
    counted = metric.corpus_score(given, streams)  # type: ignore[arg-type]
    values = _nlg_eval_bleu(counted.counts, counted.totals, counted.sys_len, counted.ref_len)
    empty, scores = count_empty(given), {}
    for order, value in enumerate(values, start=1):
        signature = f"{metric.get_signature()}|order:{order}|constants:nlg-eval"
        scores[f"bleu{order}"] = Score(value, signature, len(given), empty)
    return scores


def _nlg_eval_bleu(
    counts: Sequence[int], totals: Sequence[int], length: int, closest: int
) -> list[float]:
    """BLEU of each order, its precisions held above 0 by nlg-eval's tiny constants.

    The constants show only where an order has no match at all, or no n-gram.
    """
    tiny, small = 1e-15, 1e-9
    ratio = (length + tiny) / (closest + small)
    penalty = math.exp(min(0.0, 1 - 1 / ratio)) if length else 0.0
    product, values = 1.0, []
    for order, (right, total) in enumerate(zip(counts, totals, strict=True), start=1):
        product *= (right + tiny) / (total + small)
        values.append(100.0 * penalty * product ** (1 / order))
    return values


def _rouge_l(given: list[str], wanted: list[list[str]]) -> Result:
    try:
        from pycocoevalcap.rouge.rouge import Rouge
    except ModuleNotFoundError:
        return _NO_PACKAGE
    score: Callable[[list[str], list[str]], float] = Rouge().calc_score
    pairs = zip(given, wanted, strict=True)
    # An empty text counts as one empty word there, which matches another.
    lines = tuple(100.0 * score([text], refs) if text else 0.0 for text, refs in pairs)
    signature = make_signature("pycocoevalcap", beta=1.2, tok="none", average="mean")
    return Score(sum(lines) / len(lines), signature, len(lines), count_empty(given), (), lines)


def _cider(given: list[str], wanted: list[list[str]]) -> Result:
    try:
        from pycocoevalcap.cider.cider import Cider
    except ModuleNotFoundError:
        return _NO_PACKAGE
    texts = {i: [text] for i, text in enumerate(given)}
    _, scored = Cider(n=4, sigma=6.0).compute_score(dict(enumerate(wanted)), texts)
    lines = tuple(100.0 * float(line) for line in scored)
    signature = make_signature("pycocoevalcap", cider="D", n=4, sigma=6, idf="references")
    alike = len({tuple(refs) for refs in wanted}) == 1
    warnings = ("CIDEr is 0 by definition: all lines have the same references",) if alike else ()
    value = sum(lines) / len(lines)
    return Score(value, signature, len(lines), count_empty(given), warnings, lines)


def _meteor(given: list[str], wanted: list[list[str]]) -> Result:
    try:
        value, _ = meteor(given, wanted)
    except MeteorError as error:
        return Unavailable(str(error))
    signature = make_signature("pycocoevalcap", meteor=1.5, language="en", norm="yes")
    return Score(100.0 * value, signature, len(given), count_empty(given))


def _embeddings(
    given: list[str], wanted: list[list[str]], glove: str | os.PathLike[str] | None
) -> dict[str, Result]:
    if glove is None:
        return dict.fromkeys(_EMBEDDINGS, _NO_GLOVE)
    given_tokens = [tokens(text) for text in given]
    wanted_tokens = [[tokens(text) for text in refs] for refs in wanted]
    words = {word for line in given_tokens for word in line}
    words |= {word for refs in wanted_tokens for line in refs for word in line}
    vectors = read_glove(glove, words)
    scored = [
        _best(text, refs, vectors) for text, refs in zip(given_tokens, wanted_tokens, strict=True)
    ]
    name = os.path.basename(glove)
    dimension = len(vectors.mean)
    results: dict[str, Result] = {}
    for place, key in enumerate(_EMBEDDINGS):
        lines = tuple(100.0 * line[place] for line in scored)
        signature = make_signature(
            "nltk", vectors=name, words=vectors.n_words, dim=dimension, how=NAMES[place]
        )
        value = sum(lines) / len(lines)
        results[key] = Score(value, signature, len(lines), count_empty(given), (), lines)
    return results


def _best(text: list[str], references: list[list[str]], vectors: Vectors) -> list[float]:
    """Of each figure the best over the references."""
    scores = [similarities(text, reference, vectors) for reference in references]
    return [max(values) for values in zip(*scores, strict=True)]
