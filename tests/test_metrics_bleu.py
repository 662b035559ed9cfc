"""BLEU against sacrebleu's and tensor2tensor's own figures, and the ways to get it wrong."""

import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from synth.metrics import bleu
from synth.metrics.bleu import corpus_bleu, make_metric
from synth.metrics.text import clean_hypothesis

compound_split_bleu: Any = bleu.compound_split_bleu  # of either kind of result

FILE = Path(__file__).parent / "metric_vectors.json"
ALL = json.loads(FILE.read_text("utf-8"))["vectors"]
VECTORS = [v for v in ALL if v["metric"] == "bleu"]
TOKENS = [v for v in ALL if v["metric"] == "t2t_tokenize"]
COMPOUNDS = [v for v in ALL if v["metric"] == "tokenized_bleu_atat"]
NFD = "bleu/nfc_vs_nfd"  # the hypothesis is NFD: scored as it is 11.99, but ours is put in NFC
AGREEING = [
    v
    for v in VECTORS
    if "t2t!=intl" not in v["tags"] and v["id"] != NFD and "t2t_cased" in v["expected"]
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["id"])
def test_equals_sacrebleu(vector):
    scores = corpus_bleu(vector["hyps"], *vector["refs"])
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


def test_every_vector_has_a_test():
    tested = {"bleu", "t2t_tokenize", "tokenized_bleu_atat", "rouge", "nlg_eval_overlap"}
    tested |= {"nlg_eval_embedding", "cb", "f1_with_invalid", "glue_average", "mcc_acc_f1"}
    tested |= {"multirc", "record", "stsb", "stsb_text", "seed_summary"}
    tested |= {"perplexity", "perplexity_conversion", "perplexity_logits"}
    assert {vector["metric"] for vector in ALL} == tested
    assert len(ALL) == json.loads(FILE.read_text("utf-8"))["count"]


@pytest.mark.parametrize("vector", TOKENS, ids=lambda v: v["id"])
@pytest.mark.parametrize(
    ("form", "key"), [("bleu", "sacrebleu_13a"), ("bleu_intl", "sacrebleu_intl")]
)
def test_tokens(vector, form, key):
    tokens = make_metric(form).tokenizer(vector["text"].rstrip()).split()
    assert tokens == vector["expected"][key]


def test_lengths_of_more_references_are_checked():
    with pytest.raises(ValueError, match="1 hypotheses but 2 references"):
        corpus_bleu(["a"], ["a"], ["a", "b"])


@pytest.mark.parametrize("vector", COMPOUNDS, ids=lambda v: v["id"])
def test_compound_split_equals_the_perl_scripts(vector):
    (references,), expected = vector["refs"], vector["expected"]
    assert bleu._moses_split(vector["hyps"], "de") == expected["hyp_tok_atat"]
    assert bleu._moses_split(references, "de") == expected["ref_tok_atat"]
    score = compound_split_bleu(vector["hyps"], references)
    assert score.value == pytest.approx(expected["bleu"], abs=1e-4)
    assert "tok:none|smooth:none" in score.signature and "moses:de" in score.signature


def test_compound_split_does_not_mind_the_kind_of_quotes():
    german = ["Er sagte: „Ja, das Preis-Leistungs-Verhältnis stimmt.“"]
    ascii_quotes = ['Er sagte: "Ja, das Preis-Leistungs-Verhältnis stimmt."']
    for hypotheses, references in ((german, german), (ascii_quotes, german)):
        assert compound_split_bleu(hypotheses, references).value == pytest.approx(100)


def test_compound_split_edges():
    score = compound_split_bleu(["", "a b c d\ne"], ["x", "a b c d e"])
    assert (score.n_lines, score.n_empty) == (2, 1)
    with pytest.raises(ValueError, match="1 hypotheses but 2 references"):
        compound_split_bleu(["a"], ["a", "b"])


def test_without_sacremoses_there_is_a_reason_and_no_figure(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    score = compound_split_bleu(["a"], ["a"])
    assert score.value is None and "sacremoses is not installed" in score.reason


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("<pad> the cat sat on the mat </s> </s>", "the cat sat on the mat"),
        ("no end mark <pad><pad>", "no end mark"),
        ("<s> a <pad> b<EOS>c", "a b"),
        ("first\nsecond </s> third", "first\nsecond"),
        ("</s> nothing", ""),
        ("", ""),
        (unicodedata.normalize("NFD", "Tür"), "Tür"),
    ],
)
def test_clean_hypothesis(line, expected):
    assert clean_hypothesis(line) == expected


def test_special_pieces_cost_nothing_once_cleaned():
    vector = next(v for v in VECTORS if v["id"] == "bleu/special_tokens_left")
    cleaned = [clean_hypothesis(line) for line in vector["hyps"]]
    assert corpus_bleu(cleaned, vector["refs"][0])["bleu"].value == pytest.approx(100)
