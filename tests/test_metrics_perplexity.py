"""Perplexity against closed forms: weighted by tokens over the whole set, never a mean of means."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from synth.metrics.perplexity import Sums, perplexity, text_counts

FILE = Path(__file__).parent / "metric_vectors.json"
VECTORS = {v["id"]: v for v in json.loads(FILE.read_text("utf-8"))["vectors"]}
SUMS = Sums(nll=10.0, tokens=4, words=3, bytes=20, lines=1)


@pytest.mark.parametrize("name", ["perplexity/uniform_vocab_100", "perplexity/unequal_lengths"])
def test_vectors(name):
    vector = VECTORS[name]
    rows = [np.compress(m, nll) for nll, m in zip(vector["token_nll"], vector["mask"], strict=True)]
    parts = [Sums(nll=row.sum(), tokens=len(row), lines=1) for row in rows]
    text = Sums(words=vector["num_words_incl_eos"], bytes=vector["num_bytes"])
    sums = sum(parts, text)
    expected = {key: vector["expected"][key] for key in perplexity(sums)}
    assert perplexity(sums) == pytest.approx(expected, abs=1e-4)
    assert (sums.nll, sums.tokens) == pytest.approx(
        (vector["expected"]["total_nll"], vector["expected"]["num_tokens"])
    )


def test_from_logits():
    vector = VECTORS["perplexity/from_logits"]
    logits, labels = np.array(vector["logits"]), np.array(vector["labels"])
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nll = -np.take_along_axis(log_probs, labels[..., None], -1)[..., 0][labels != vector["pad_id"]]
    result = perplexity(Sums(nll.sum(), nll.size, words=nll.size, bytes=nll.size, lines=2))
    assert result["ppl_token"] == pytest.approx(vector["expected"]["ppl_token"], abs=1e-4)
    assert result["ppl_word"] == result["ppl_token"]


@pytest.mark.parametrize(
    ("log_ppl", "key", "expected"),
    [
        (math.log(38.21), "ppl_word", "ppl_token_38.21->word"),
        (math.log(38.21) * 159_658 / 176_923, "ppl_token", "ppl_word_38.21->token"),
    ],
)
def test_lm1b_words_and_tokens(log_ppl, key, expected):
    # The counts of LM1B's customary test shard, ends of line included (tensor2tensor lm1b.py).
    sums = Sums(log_ppl * 176_923, tokens=176_923, words=159_658, bytes=10**6, lines=6_075)
    expected = VECTORS["perplexity/lm1b_conversion"]["expected"][expected]
    assert perplexity(sums)[key] == pytest.approx(expected, abs=1e-4)


def test_sums_do_not_depend_on_the_batches():
    parts = [Sums(float(n), n, n, 2 * n, 1) for n in (1, 5, 9)]
    assert (parts[0] + parts[1]) + parts[2] == parts[0] + (parts[1] + parts[2])
    assert perplexity(sum(parts, Sums()))["ppl_token"] == pytest.approx(math.e)


def test_text_counts_one_end_per_line():
    assert text_counts(["a b", "", "Größe  «x»"]) == (3 + 1 + 3, 4 + 1 + 15)
    with pytest.raises(ValueError, match="line 2 contains a newline"):
        text_counts(["a", "b\n"])


@pytest.mark.parametrize("change", [
    {"nll": math.nan}, {"nll": math.inf}, {"nll": -1.0},
    {"tokens": 0}, {"words": 0}, {"bytes": 0}, {"lines": 0}, {"lines": 4},
])  # fmt: skip
def test_impossible_sums(change):
    with pytest.raises(ValueError, match="Sums"):
        perplexity(Sums(**{**SUMS.__dict__, **change}))


def test_overflow_is_inf():
    result = perplexity(Sums(nll=4e3, tokens=4, words=3, bytes=20, lines=1))
    assert result["ppl_token"] == result["ppl_word"] == math.inf
    assert result["log_ppl_token"] == 1e3
    assert math.isfinite(result["bits_per_byte"])


def test_one_empty_line_is_a_set():
    assert perplexity(Sums(nll=0.0, tokens=1, words=1, bytes=1, lines=1))["ppl_token"] == 1


def test_lm1b_baseline_of_tensor2tensor():
    # Packed lines have a ratio of tokens to words of their own.
    expected = VECTORS["perplexity/lm1b_conversion"]["expected"]
    assert expected["ratio_unpacked"] == pytest.approx(176_923 / 159_658, abs=1e-6)
    sums = Sums(3.40 * 176_884, tokens=176_884, words=159_658, bytes=10**6, lines=6_075)
    wanted = expected["lmx_base log-ppl/tok 3.40 -> word (packed ratio)"]
    assert perplexity(sums)["ppl_word"] == pytest.approx(wanted, abs=1e-3)
