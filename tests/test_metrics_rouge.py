"""ROUGE against rouge-score's and Perl ROUGE-1.5.5's own figures, and the rule of lines."""

import json
import unicodedata
from pathlib import Path

import pytest

from synth.metrics.rouge import rouge, sentence_lines

FILE = Path(__file__).parent / "metric_vectors.json"
VECTORS = [v for v in json.loads(FILE.read_text("utf-8"))["vectors"] if v["metric"] == "rouge"]
TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")


@pytest.mark.parametrize("stem", [True, False], ids=["stem", "nostem"])
@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["id"])
def test_vectors(vector, stem):
    scores = rouge([vector["hyp"]], [vector["ref"]], types=TYPES, stem=stem)
    expected = vector["expected"]["stem" if stem else "nostem"]
    for name in TYPES:
        assert scores[name].value / 100 == pytest.approx(expected[name]["f"], abs=1e-4)
    perl = vector["expected"][f"perl_rouge155_{'stem' if stem else 'nostem'}"]
    for name, theirs in (("rouge1", "rouge-1"), ("rouge2", "rouge-2"), ("rougeLsum", "rouge-l")):
        assert scores[name].value / 100 == pytest.approx(perl[theirs], abs=1e-4)


def test_value_is_the_mean_of_the_lines():
    scores = rouge(["police killed", "the cat", "x"], ["police killed", "a dog", "x y"])
    assert list(scores) == ["rouge1", "rouge2", "rougeLsum"]
    for score in scores.values():
        assert len(score.lines) == score.n_lines == 3
        assert score.value == pytest.approx(sum(score.lines) / 3)
    assert scores["rouge1"].lines == pytest.approx((100, 0, 100 * 2 / 3))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("One. Two? Three!  Four", "One.\nTwo?\nThree!\nFour"),
        ("One. Two\nThree. Four", "One. Two\nThree. Four"),
        ("One. Two.\n", "One.\nTwo."),  # an end of line is no division into lines
        ("One\r\nTwo", "One\nTwo"),
        ("3.5 per cent", "3.5 per cent"),
        ("", ""),
    ],
)
def test_sentence_lines(text, lines):
    assert sentence_lines(text) == lines


def test_references_keep_their_lines():
    one, two = "b c. a d.", "a d.\nb c."
    assert rouge([one], [two])["rougeLsum"].value == pytest.approx(100)
    # Were this reference split into its sentences, it would be 100.
    assert rouge(["b c a d"], ["a d. b c."])["rougeLsum"].value == pytest.approx(50)


def test_empty_hypotheses_score_0_and_are_counted():
    scores = rouge(["", " \n", "a"], ["a", "b", "a"])
    assert scores["rouge1"].n_empty == 2
    assert scores["rouge1"].lines == (0, 0, 100)


def test_decomposed_text_is_composed():
    reference = "un café noir"
    hypothesis = unicodedata.normalize("NFD", reference)
    assert rouge([hypothesis], [reference])["rouge1"].value == pytest.approx(100)


def test_text_in_another_alphabet_is_told():
    score = rouge(["приве́т", "a"], ["привет", "a"])["rouge1"]
    assert score.warnings == ("1 of 2 references have no letter a-z and no digit",)


def test_signature():
    with_stem, without = (rouge(["a"], ["a"], stem=s)["rouge1"].signature for s in (True, False))
    assert with_stem.startswith("stem:yes|sentences:lines|average:mean|f:1|rouge-score:")
    assert without.startswith("stem:no|")


def test_unequal_lengths_and_bare_text():
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        rouge(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="empty"):
        rouge([], [])
    with pytest.raises(TypeError, match="references"):
        rouge(["a"], "a")
