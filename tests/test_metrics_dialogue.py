"""Scores of replies against pycocoevalcap's and nlg-eval's own figures, with and without Java."""

import functools
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from synth.errors import UserError
from synth.metrics import dialogue as dialogue_module
from synth.metrics import meteor as meteor_module
from synth.metrics.embeddings import read_glove
from synth.metrics.meteor import MeteorError, meteor

dialogue: Any = dialogue_module.dialogue  # of either kind of result

FILE = Path(__file__).parent / "metric_vectors.json"
VECTORS = json.loads(FILE.read_text("utf-8"))["vectors"]
OVERLAP = [v for v in VECTORS if v["metric"] == "nlg_eval_overlap"]
EMBEDDING = [v for v in VECTORS if v["metric"] == "nlg_eval_embedding"]
NAMES = {f"bleu{n}": f"Bleu_{n}" for n in range(1, 5)} | {"rougeL": "ROUGE_L", "cider": "CIDEr"}
EMBEDDINGS = {
    "embedding": "EmbeddingAverageCosineSimilarity",
    "embedding_extrema": "VectorExtremaCosineSimilarity",
    "embedding_greedy": "GreedyMatchingScore",
}


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("vector", OVERLAP, ids=lambda v: v["id"])
def test_overlap(vector, no_java):
    results = dialogue(vector["hyps"], vector["refs"])
    for ours, theirs in NAMES.items():
        expected = vector["expected"][theirs]
        assert results[ours].value / 100 == pytest.approx(expected, abs=1e-4), ours
    for order in (1, 4):
        expected = vector["expected"][f"sacrebleu_none_order{order}"]
        assert results[f"bleu{order}"].value / 100 == pytest.approx(expected, abs=1e-4)
    assert [line / 100 for line in results["cider"].lines] == pytest.approx(
        vector["expected"]["CIDEr_segments"], abs=1e-4
    )


@pytest.mark.slow  # Java needs about 10 seconds to start, once
def test_meteor():
    if shutil.which("java") is None:
        with pytest.raises(MeteorError, match="needs Java"):
            meteor(["a"], [["a"]])
        return
    for vector in OVERLAP:
        value, lines = meteor(vector["hyps"], vector["refs"])
        assert value == pytest.approx(vector["expected"]["METEOR"], abs=1e-4), vector["id"]
        assert lines == pytest.approx(vector["expected"]["METEOR_segments"], abs=1e-4)
    vector = OVERLAP[0]
    score = dialogue(vector["hyps"], vector["refs"])["meteor"]
    assert score.value == pytest.approx(100 * vector["expected"]["METEOR"], abs=1e-2)
    assert "meteor:1.5" in score.signature
    # What its protocol cannot carry does not put it out of step.
    odd = ["the cat\n||| sat", "", "the cat sat"]
    value, lines = meteor(odd, [["the cat sat"], ["a ||| b"], ["the cat\nsat", ""]])
    assert lines == pytest.approx([1, 0, 1])
    assert meteor_module._scorer.cache_info().misses == 1


def test_without_java_meteor_has_a_reason_and_no_figure(no_java):
    results = dialogue(["a b"], ["a b"])
    assert results["meteor"].value is None
    assert "no `java` on the PATH" in results["meteor"].reason
    assert results["bleu1"].value == pytest.approx(100)


def test_java_that_fails_is_told_and_not_kept(no_java, monkeypatch):
    java = no_java / "java"
    java.write_text("#!/bin/sh\necho no memory >&2\nexit 1\n")
    java.chmod(0o755)
    start = functools.cache(meteor_module._scorer.__wrapped__)
    monkeypatch.setattr(meteor_module, "_scorer", start)
    for _ in range(2):
        with pytest.raises(MeteorError, match="Java failed at METEOR: no memory"):
            meteor(["a"], [["a"]])
    assert start.cache_info().currsize == 0


@pytest.mark.parametrize("name", ["rougeL", "cider"])
def test_without_pycocoevalcap(name, monkeypatch, no_java):
    for module in ("rouge.rouge", "cider.cider"):
        monkeypatch.setitem(sys.modules, f"pycocoevalcap.{module}", None)
    result = dialogue(["a"], ["a"])[name]
    assert result.value is None and "pycocoevalcap is not installed" in result.reason


@pytest.mark.parametrize("vector", EMBEDDING, ids=lambda v: v["id"])
def test_embeddings(vector, no_java):
    glove = _glove(no_java, vector["vectors"])
    results = dialogue(vector["hyps"], vector["refs"], glove=glove)
    for ours, theirs in EMBEDDINGS.items():
        assert results[ours].value / 100 == pytest.approx(vector["expected"][theirs], abs=1e-4)
        assert results[ours].signature.startswith("vectors:glove.txt|words:6|dim:3|how:")


def test_embeddings_are_the_best_over_references_and_the_mean_over_lines(no_java):
    glove = _glove(no_java, EMBEDDING[0]["vectors"])
    one = dialogue(["cat", ""], [["hello", "cat"], ["dog"]], glove=glove)["embedding"]
    assert one.lines == pytest.approx((100, 0))
    assert (one.value, one.n_empty) == (pytest.approx(50), 1)


def test_no_glove_file_is_a_reason(no_java):
    result = dialogue(["a"], ["a"])["embedding"]
    assert result.value is None and "GloVe" in result.reason


def test_read_glove(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("3 2\na 1 2\n\u00a0 3 4\nb -1 0\n", "utf-8")  # a word2vec head; a space
    vectors = read_glove(path, ["b", "c"])
    assert list(vectors.of) == ["b"] and vectors.n_words == 3
    assert vectors.matrix(["b", "c"]).tolist() == [[-1, 0], [1, 2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 1\n", "line 2: 1 numbers, but 2 before"),
        ("a 1 2\nb 1 x\n", "line 2: not a word and numbers"),
        ("a 1 2\nb 1 nan\n", "line 2: a number is not finite"),
        ("", "no vectors"),
        ("\x1f\udc8b\udcff \udc99 1", "line 1: not a word and numbers"),  # a compressed file, say
    ],
)
def test_read_glove_refuses(text, message, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=message):
        read_glove(path, ["a"])


def test_empty_hypotheses_score_0_and_are_counted(no_java):
    results = dialogue(["", " \n", "a b"], ["", "x", "a b"])
    for name in NAMES:
        assert results[name].n_empty == 2
    assert results["rougeL"].lines == pytest.approx((0, 0, 100))
    assert dialogue([""], ["x"])["bleu1"].value == 0


def test_white_space_and_ragged_references(no_java):
    tidy = dialogue(["a b c d e", "f"], [["a b c d e"], ["f", "g"]])
    untidy = dialogue(["a  b\nc\td e ", "f"], [["a b  c d\r\ne"], ["f", "g"]])
    for name in NAMES:
        assert tidy[name].value == untidy[name].value
    assert tidy["bleu4"].value == pytest.approx(100)


def test_cider_of_equal_references_is_told(no_java):
    assert "0 by definition" in dialogue(["a", "b"], ["a", "a"])["cider"].warnings[0]
    assert dialogue(["a", "b"], ["a", "b"])["cider"].warnings == ()


def test_lengths_and_types(no_java):
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        dialogue(["a", "b"], ["a"])
    with pytest.raises(TypeError, match="line 2"):
        dialogue(["a", "b"], [["a"], []])


def _glove(folder: Path, vectors: dict[str, list[float]]) -> Path:
    path = folder / "glove.txt"
    rows = (f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items())
    path.write_text("".join(rows))
    return path
