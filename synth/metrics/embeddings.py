"""How near two texts are by their words' vectors, as nlg-eval computes it with GloVe 6B of 300.

No package carries these vectors: their file is given by the user. A word without a vector gets the
mean of all vectors of the file, upper case counts, and words are NLTK's. Three figures a pair, from
-1 to 1, each the best over the references:

- average: cosine of the two sums of vectors;
- extrema: cosine of the vectors that have, in each dimension, the value farthest from 0;
- greedy: mean, over the words of both texts, of the best cosine with a word of the other.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from synth.errors import UserError

NAMES = ("average", "extrema", "greedy")


@dataclass
class Vectors:
    """The vectors of some words, and the mean over the whole file for all others."""

    mean: np.ndarray
    of: dict[str, np.ndarray] = field(default_factory=dict)
    n_words: int = 0

    def matrix(self, words: Sequence[str]) -> np.ndarray:
        return np.stack([self.of.get(word, self.mean) for word in words])


def read_glove(path: str | os.PathLike[str], words: Iterable[str]) -> Vectors:
    """Reads a text file of `word number number ...` once, keeping only the vectors of `words`.

    A first line of two numbers, as word2vec writes it, is passed over. Raises UserError, naming
    the line, for one that does not have as many numbers as the first.
    """
    wanted, total, count = set(words), np.zeros(0), 0
    of: dict[str, np.ndarray] = {}
    with Path(path).open(encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            word, _, numbers = line.rstrip().partition(" ")
            if number == 1 and " " not in numbers:
                continue
            vector = _parse(numbers, f"{path}, line {number}")
            total = total if count else np.zeros(len(vector))
            if len(vector) != len(total):
                raise UserError(
                    f"{path}, line {number}: {len(vector)} numbers, but {len(total)} before"
                )
            total += vector
            count += 1
            if word in wanted:
                of[word] = vector
    if not count:
        raise UserError(f"there are no vectors in {path}")
    return Vectors(total / count, of, count)


def _parse(numbers: str, where: str) -> np.ndarray:
    try:
        vector = np.array(numbers.split(), dtype=np.float64)
    except ValueError as error:
        raise UserError(f"{where}: not a word and numbers: {numbers[:60]!r}") from error
    if not np.isfinite(vector).all():
        raise UserError(f"{where}: a number is not finite")
    return vector


def tokens(text: str) -> list[str]:
    """NLTK's words, without its division into sentences, which needs data to download."""
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer().tokenize(text)


def similarities(hypothesis: Sequence[str], reference: Sequence[str], vectors: Vectors):
    """`NAMES` of a pair of token lists; 0 where either is empty."""
    if not hypothesis or not reference:
        return (0.0, 0.0, 0.0)
    hypothesis_ND, reference_MD = vectors.matrix(hypothesis), vectors.matrix(reference)
    cosine_NM = _unit(hypothesis_ND) @ _unit(reference_MD).T
    return (
        _cosine(hypothesis_ND.sum(0), reference_MD.sum(0)),
        _cosine(_extrema(hypothesis_ND), _extrema(reference_MD)),
        float(cosine_NM.max(0).mean() + cosine_NM.max(1).mean()) / 2,
    )


def _extrema(vectors_ND: np.ndarray) -> np.ndarray:
    """Of each dimension the value farthest from 0, the lower of two as far.

    Where the lowest is exactly 0, nlg-eval takes the 0; so do we.
    """
    high_D, low_D = vectors_ND.max(0), vectors_ND.min(0)
    return np.where((low_D > 0) | ((low_D < 0) & (high_D > -low_D)), high_D, low_D)


def _unit(vectors_ND: np.ndarray) -> np.ndarray:
    norm_N1 = np.linalg.norm(vectors_ND, axis=-1, keepdims=True)
    return np.divide(vectors_ND, norm_N1, out=np.zeros_like(vectors_ND), where=norm_N1 > 0)


def _cosine(a_D: np.ndarray, b_D: np.ndarray) -> float:
    return float(_unit(a_D) @ _unit(b_D))
