"""Paired tests and intervals: differences that are there, are not there, or are nothing at all."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest

from synth.metrics import significance
from synth.metrics.significance import compare_lines, interval, perplexity_interval

compare_bleu: Any = significance.compare_bleu

FILE = Path(__file__).parent / "metric_vectors.json"
VECTORS = {v["id"]: v for v in json.loads(FILE.read_text("utf-8"))["vectors"]}
REFERENCES = [f"the {animal} sat on mat number {n}" for n in range(10) for animal in ("cat", "dog")]
WORSE = [line.replace("sat", "sits") if i % 2 else line for i, line in enumerate(REFERENCES)]
LINES = np.random.default_rng(0).normal(size=400)


def test_summary_of_seeds():
    vector = VECTORS["significance/mean_std"]
    expected = vector["expected"]
    assert fmean(vector["values"]) == pytest.approx(expected["mean"], abs=1e-4)
    assert stdev(vector["values"]) == pytest.approx(expected["std_sample"], abs=1e-4)
    # The half-width of Student's 95% interval (t = 4.3027 at two degrees of freedom).
    assert 4.302653 * stdev(vector["values"]) / 3**0.5 == pytest.approx(
        expected["ci95_t"], abs=1e-4
    )


@pytest.mark.parametrize("kind", ["bootstrap", "randomisation"])
def test_a_clear_difference_of_bleu(kind):
    result = compare_bleu(WORSE, REFERENCES, REFERENCES, test=kind, n_samples=200)
    assert result.system == pytest.approx(100) and result.baseline < 90
    assert result.difference == result.system - result.baseline
    assert result.p_value < 0.02
    assert result.signature.startswith(f"paired {kind}|") and "seed:12345" in result.signature


@pytest.mark.parametrize("kind", ["bootstrap", "randomisation"])
def test_equal_systems_do_not_differ(kind):
    # sacrebleu itself gives 1 / (n + 1) here, the most significant p there is.
    result = compare_bleu(WORSE, WORSE, REFERENCES, test=kind, n_samples=50)
    assert (result.difference, result.p_value) == (0, 1)


def test_forms_of_bleu():
    upper = [line.upper() for line in REFERENCES]
    options = {"n_samples": 50, "form": "bleu_intl_uncased"}
    assert compare_bleu(upper, REFERENCES, REFERENCES, **options).p_value == 1
    with pytest.raises(ValueError, match="no form 'chrf'"):
        compare_bleu(upper, upper, REFERENCES, form="chrf")


def test_a_figure_is_reproducible():
    a, b = LINES, LINES + np.random.default_rng(1).normal(0.05, 1, 400)
    assert compare_lines(a, b, n_samples=200) == compare_lines(a, b, n_samples=200)
    assert interval(a) == interval(a)


def test_lines_that_differ_and_do_not():
    noise = np.random.default_rng(2).normal(0, 0.5, 400)
    assert compare_lines(LINES, LINES + 0.2 + noise, n_samples=999).p_value == 0.001 * 2
    unlike = compare_lines(LINES, LINES + noise - noise.mean(), n_samples=999)
    assert unlike.p_value > 0.9 and unlike.difference == pytest.approx(0)
    assert compare_lines(LINES, LINES).p_value == 1


def test_p_of_three_lines_is_that_of_all_exchanges():
    # Of the 8 exchanges two give as large a difference.
    result = compare_lines([1, 2, 3], [2, 3, 4])
    assert (result.baseline, result.system) == (2, 3)
    assert result.p_value == pytest.approx(0.25, abs=0.02)


def test_interval_of_a_mean():
    found = interval(LINES)
    assert found.low < found.value < found.high
    half = 1.96 * LINES.std(ddof=1) / 20
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.1)


def test_interval_of_a_perplexity_draws_lines_not_tokens():
    tokens = np.arange(1, 401)
    nll = tokens * (2 + 0.1 * LINES)
    found = perplexity_interval(nll, tokens)
    assert found.value == pytest.approx(np.exp(nll.sum() / tokens.sum()))
    assert found.low < found.value < found.high < 2 * found.low
    exact = perplexity_interval(2.0 * tokens, tokens)
    assert (exact.low, exact.high) == pytest.approx((np.exp(2), np.exp(2)))


def test_unequal_lengths_and_bad_figures():
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        compare_bleu(["a", "b"], ["a"], ["a"])
    with pytest.raises(ValueError, match="2 baseline figures but 3 system figures"):
        compare_lines([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="at least 2 lines"):
        interval([1.0])
    with pytest.raises(ValueError, match="not finite"):
        interval([1.0, np.nan])
    with pytest.raises(ValueError, match="at least its end"):
        perplexity_interval([1.0, 2.0], [1, 0])
