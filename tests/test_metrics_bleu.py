"""BLEU against sacrebleu's and tensor2tensor's own figures, and the ways to get it wrong."""

import json
import unicodedata
from pathlib import Path

import pytest

from synth.metrics.bleu import corpus_bleu

FILE = Path(__file__).parent / "data" / "metric_vectors.json"
VECTORS = [v for v in json.loads(FILE.read_text("utf-8"))["vectors"] if v["metric"] == "bleu"]
NFD = "bleu/nfc_vs_nfd"  # the hypothesis is NFD: scored as it is 11.99, but ours is put in NFC
AGREEING = [v for v in VECTORS if "t2t!=intl" not in v["tags"] and v["id"] != NFD]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["id"])
def test_equals_sacrebleu(vector):
    scores = corpus_bleu(vector["hyps"], vector["refs"][0])
    want = vector["expected"]
    expected = [want[f"sacrebleu_{form}"] for form in ("13a_cased", "intl_cased", "intl_lc")]
    if vector["id"] == NFD:
        expected = [100.0] * 3
    assert [score.value for score in scores.values()] == pytest.approx(expected, abs=1e-4)
    assert list(scores) == ["bleu", "bleu_intl", "bleu_intl_uncased"]


@pytest.mark.parametrize("vector", AGREEING, ids=lambda v: v["id"])
def test_intl_equals_t2t_where_the_tokenizers_agree(vector):
    scores = corpus_bleu(vector["hyps"], vector["refs"][0])
    assert scores["bleu_intl"].value == pytest.approx(vector["expected"]["t2t_cased"], abs=1e-3)
    uncased = vector["expected"]["t2t_uncased"]
    assert scores["bleu_intl_uncased"].value == pytest.approx(uncased, abs=1e-3)


def test_signatures_name_tokenizer_and_case():
    scores = corpus_bleu(["a b c d"], ["a b c d"])
    marks = [("case:mixed", "tok:13a"), ("case:mixed", "tok:intl"), ("case:lc", "tok:intl")]
    for score, expected in zip(scores.values(), marks, strict=True):
        assert all(mark in score.signature for mark in (*expected, "smooth:exp", "version:"))


def test_unequal_lengths_name_both():
    with pytest.raises(ValueError, match="3 hypotheses but 2 references"):
        corpus_bleu(["a", "b", "c"], ["a", "b"])


def test_empty_set():
    with pytest.raises(ValueError, match="empty"):
        corpus_bleu([], [])


def test_transposed_or_bare_text_is_refused():
    hypotheses = ["the cat sat", "on the mat"]
    with pytest.raises(TypeError, match="references"):
        corpus_bleu(hypotheses, [["the cat sat", "on the mat"]])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="hypotheses"):
        corpus_bleu("the cat", "the cat")


def test_newlines_become_spaces():
    assert corpus_bleu(["a b\nc d\r\n"], ["a b c d"])["bleu"].value == pytest.approx(100)


def test_counts_lines_and_empty_outputs():
    score = corpus_bleu(["a b c d", "", " \n"], ["a b c d", "x", "y"])["bleu"]
    assert (score.n_lines, score.n_empty) == (3, 2)


def test_a_shuffled_set_scores_lower():
    lines = ["the cat sat on the mat", "it rained all day long"]
    assert corpus_bleu(lines, lines)["bleu"].value == pytest.approx(100)
    assert corpus_bleu(lines[::-1], lines)["bleu"].value < 5


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("it rained .", "1 of 2 hypotheses end in ' .' (tokenised?)"),
        ("it rai@@ ned.", "1 of 2 hypotheses contain '@@'"),
        ("▁it ▁rained.", "1 of 2 hypotheses contain '▁'"),
        ("it rained.</s>", "1 of 2 hypotheses contain '</s>'"),
        ("it rained. <pad>", "1 of 2 hypotheses contain '<pad>'"),
        ("it &quot;rained&quot;.", "1 of 2 hypotheses contain '&quot;'"),
    ],
)
def test_warns_of_unfinished_text(line, warning):
    score = corpus_bleu([line, "It is 3.5 km."], ["It rained.", "It is 3.5 km."])["bleu"]
    assert score.warnings == (warning,)


def test_warns_of_the_references_too():
    score = corpus_bleu(["Tür"], [unicodedata.normalize("NFD", "Tür")])["bleu"]
    assert score.warnings == ("1 of 1 references are not NFC",)


def test_clean_text_gives_no_warning():
    assert corpus_bleu(["Er sagte: „Ja.“"], ["Er sagte: „Nein.“"])["bleu"].warnings == ()
