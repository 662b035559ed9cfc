"""Is a difference more than chance? Tests on the lines of one test set, and intervals.

A 95% interval of one BLEU on 3,000 sentences is 0.7 to either side: most of the paper's differences
are inside it. Two systems on the same lines can be told apart much more finely by a paired test.
These intervals are about the choice of the test set; a deviation over seeds is another thing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from synth.metrics.bleu import make_metric
from synth.metrics.score import check_pairs, make_signature
from synth.metrics.text import one_line

Figures = Sequence[float] | np.ndarray
SEED = 12345  # sacrebleu's own
_KINDS: dict[str, Any] = {"bootstrap": "bs", "randomisation": "ar"}


@dataclass(frozen=True)
class Comparison:
    """A system against a baseline: figures, and how likely chance gives so large a difference."""

    baseline: float
    system: float
    p_value: float
    signature: str

    @property
    def difference(self) -> float:
        return self.system - self.baseline


@dataclass(frozen=True)
class Interval:
    """A figure, and where it lies in 95% of test sets drawn like this one."""

    value: float
    low: float
    high: float
    signature: str


def compare_bleu(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str],
    *,
    form: str = "bleu_intl",
    test: Literal["bootstrap", "randomisation"] = "bootstrap",
    n_samples: int = 0,
) -> Comparison:
    """sacrebleu's paired bootstrap (1,000 samples) or approximate randomisation (10,000).

    Systems of equal BLEU get p = 1, where sacrebleu gives the smallest p there is. The seed is
    12345 unless the environment's SACREBLEU_SEED says otherwise; the signature has it.
    """
    from sacrebleu.significance import PairedTest

    check_pairs(baseline, references)
    check_pairs(system, references)
    systems: list[tuple[str, Sequence[str]]] = [
        (name, [one_line(line) for line in lines])
        for name, lines in (("baseline", baseline), ("system", system))
    ]
    metric = make_metric(form, references)
    signatures, figures = PairedTest(systems, {"BLEU": metric}, None, _KINDS[test], n_samples)()
    results: Any = figures["BLEU"]
    before, after = results
    p_value = 1.0 if after.score == before.score else after.p_value
    signature = f"paired {test}|{signatures['BLEU']}"
    return Comparison(before.score, after.score, float(p_value), signature)


def compare_lines(
    baseline: Figures, system: Figures, *, n_samples: int = 9999, seed: int = SEED
) -> Comparison:
    """The paired permutation test, two-sided, of metrics that are means over lines.

    For ROUGE and accuracy, `Score.lines`; for perplexity the nats of each line, where both models
    score the same text. Each sample exchanges the two figures of a line or does not, at random.
    It runs on scipy's Monte Carlo test: scipy's own permutation test draws the same samples one by
    one, which takes a minute and a half for 11,490 lines, and this 4 seconds.
    """
    from scipy.stats import monte_carlo_test

    a_N, b_N = _pair("baseline", baseline, "system", system)
    signature = make_signature(
        "scipy", test="paired permutation", samples=n_samples, seed=seed, statistic="mean"
    )
    before, after = float(a_N.mean()), float(b_N.mean())
    if not (difference_N := b_N - a_N).any():
        return Comparison(before, after, 1.0, signature)
    rng = np.random.default_rng(seed)

    def exchanged(size):  # the systems' figures of about half of the lines
        return difference_N * (2.0 * rng.integers(2, size=size, dtype=np.int8) - 1.0)

    tested = monte_carlo_test(
        difference_N, exchanged, np.mean, vectorized=True, n_resamples=n_samples, batch=50
    )
    return Comparison(before, after, float(tested.pvalue), signature)


def interval(lines: Figures, *, n_samples: int = 1000, seed: int = SEED) -> Interval:
    """scipy's percentile bootstrap of a mean over at least two lines."""
    lines_N, _ = _pair("lines", lines, "lines", lines)
    low, high, signature = _bootstrap((lines_N,), np.mean, n_samples, seed)
    return Interval(float(lines_N.mean()), low, high, signature)


def perplexity_interval(
    nll: Figures, counts: Figures, *, n_samples: int = 1000, seed: int = SEED
) -> Interval:
    """The interval of exp(sum of nats / sum of tokens or words); lines are drawn, not tokens."""
    nll_N, counts_N = _pair("nll", nll, "counts", counts)
    if (counts_N <= 0).any():
        raise ValueError("each line must count at least its end")

    def perplexity(nll_SN, counts_SN, axis=-1):
        return np.exp(nll_SN.sum(axis) / counts_SN.sum(axis))

    low, high, signature = _bootstrap((nll_N, counts_N), perplexity, n_samples, seed)
    return Interval(float(perplexity(nll_N, counts_N)), low, high, signature)


def _bootstrap(data, statistic, n_samples: int, seed: int) -> tuple[float, float, str]:
    from scipy.stats import bootstrap

    found = bootstrap(
        data,
        statistic,
        paired=len(data) > 1,
        vectorized=True,
        n_resamples=n_samples,
        batch=50,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    signature = make_signature("scipy", test="percentile bootstrap", samples=n_samples, seed=seed)
    return float(found.low), float(found.high), signature


def _pair(a_name: str, a: Figures, b_name: str, b: Figures) -> tuple[np.ndarray, np.ndarray]:
    a_N, b_N = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if len(a_N) != len(b_N):
        raise ValueError(f"{len(a_N)} {a_name} figures but {len(b_N)} {b_name} figures")
    if len(a_N) < 2:
        raise ValueError(f"a test needs the figures of at least 2 lines, not of {len(a_N)}")
    if not (np.isfinite(a_N).all() and np.isfinite(b_N).all()):
        raise ValueError("a line's figure is not finite")
    return a_N, b_N
