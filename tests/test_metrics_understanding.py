"""GLUE and SuperGLUE: T5's figures, the paper's averages, and texts that are no answer."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from data.tasks import glue, superglue, text_to_text
from synth.metrics import understanding
from synth.metrics.understanding import (
    GLUE,
    LABELS,
    SUPERGLUE,
    TASKS,
    is_same_noun,
)

average: Any = understanding.average  # of either kind of result
score_task: Any = understanding.score_task

FILE = Path(__file__).parent / "metric_vectors.json"
VECTORS = {v["id"]: v for v in json.loads(FILE.read_text("utf-8"))["vectors"]}

# The cells of the paper's tables in the order of the columns, after the averages it prints; the
# last average of GLUE is 84.04 by its cells and printed as 84.1.
PAPER_GLUE = [
    (83.5, 53.1, 92.2, 92.0, 88.7, 89.1, 88.9, 88.2, 91.2, 84.7, 85.0, 91.7, 76.9),
    (75.1, 41.2, 91.2, 85.9, 79.4, 74.0, 74.3, 85.5, 89.0, 77.6, 78.1, 87.6, 59.2),
    (72.0, 18.9, 89.9, 86.4, 79.4, 75.3, 75.5, 85.2, 88.3, 77.4, 78.1, 86.9, 57.4),
    (82.6, 48.6, 92.4, 91.2, 87.7, 88.9, 89.0, 88.6, 91.5, 84.3, 84.8, 91.7, 75.1),
    (84.1, 53.3, 92.2, 91.2, 87.7, 89.3, 88.9, 88.6, 91.4, 85.0, 84.6, 92.3, 81.2),
]
PAPER_SUPERGLUE = [
    (70.3, 78.2, 72.1, 83.9, 59.0, 73.1, 32.1, 71.1, 70.3, 77.3, 65.8, 80.8),
    (61.1, 69.5, 54.6, 73.2, 60.0, 63.0, 15.7, 58.4, 57.4, 67.5, 64.4, 66.3),
    (58.5, 69.5, 51.7, 71.4, 51.0, 66.0, 15.8, 54.1, 53.0, 67.5, 65.2, 58.7),
    (69.7, 79.3, 74.3, 85.7, 64.0, 73.8, 33.7, 69.9, 69.2, 78.7, 64.3, 68.3),
    (72.2, 79.3, 82.7, 91.1, 64.0, 74.3, 34.9, 70.8, 69.9, 82.7, 64.6, 75.0),
]


def _values(task, predictions, examples, **options):
    return [score.value for score in score_task(task, predictions, examples, **options).values()]


def _labelled(task, vector):
    """Texts of the vector's classes, and examples; a class of -1 is a text that is no label."""
    texts = [LABELS[task][n] if n >= 0 else "nonsense" for n in vector["predictions"]]
    return texts, [{"label": label} for label in vector["targets"]]


# --- Vectors -------------------------------------------------------------------------------------


def test_cb():
    vector = VECTORS["glue/cb_macro_f1"]
    expected = vector["expected"]["macro_f1"], vector["expected"]["accuracy"]
    assert _values("cb", *_labelled("cb", vector)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("task", ["mrpc", "qqp"])
def test_invalid_texts_are_wrong(task):
    vector = VECTORS["glue/invalid_label_f1"]
    scores = score_task(task, *_labelled(task, vector))
    expected = vector["expected"]
    assert scores[f"{task}_f1"].value == pytest.approx(expected["f1"], abs=1e-4)
    assert scores[f"{task}_acc"].value == pytest.approx(expected["accuracy"], abs=1e-4)
    for score in scores.values():
        assert score.warnings == (f"2 of 4 predictions are no label of {task}",)


def test_constant_prediction():
    vector = VECTORS["glue/constant_prediction"]
    expected = vector["expected"]
    assert _values("cola", *_labelled("cola", vector)) == [expected["mcc"]]
    f1, accuracy = _values("mrpc", *_labelled("mrpc", vector))
    assert (f1, accuracy) == pytest.approx((expected["f1"], expected["accuracy"]), abs=1e-4)


def test_multirc():
    vector = VECTORS["glue/multirc"]
    texts = [LABELS["multirc"][n] for n in vector["predictions"]]
    examples = [{"group": group, "label": label} for group, label in vector["targets"]]
    scores = score_task("multirc", texts, examples)
    assert scores["multirc_f1a"].value == pytest.approx(vector["expected"]["f1a"], abs=1e-4)
    assert scores["multirc_em"].value == pytest.approx(vector["expected"]["em"], abs=1e-4)
    assert scores["multirc_em"].n_lines == 3  # questions


def test_record():
    vector = VECTORS["glue/record"]
    examples = [{**t, "group": str(t["group"])} for t in vector["targets"]]
    scores = score_task("record", vector["predictions"], examples)
    assert scores["record_f1"].value == pytest.approx(vector["expected"]["f1"], abs=1e-4)
    assert scores["record_em"].value == pytest.approx(vector["expected"]["em"], abs=1e-4)
    assert scores["record_em"].lines == (100, 100, 0)


def test_stsb_of_a_constant_is_no_figure():
    vector = VECTORS["glue/stsb_constant"]
    examples = [{"targets": f"{n:.1f}"} for n in vector["targets"]]
    scores = score_task("stsb", [f"{n:.1f}" for n in vector["predictions"]], examples)
    assert [score.value for score in scores.values()] == list(vector["expected"].values())
    assert "all the same" in scores["stsb_pearson"].reason


def test_stsb_targets():
    for label, text in VECTORS["glue/stsb_text"]["expected"].items():
        row = {"sentence1": "a", "sentence2": "b", "label": float(label)}
        assert text_to_text.stsb(row, "train")[0]["targets"] == text


def test_average_of_a_vector():
    vector = VECTORS["glue/superglue_average_paper_row"]
    cells = [n for v in vector["scores"].values() for n in (v if isinstance(v, list) else [v])]
    value = average(SUPERGLUE, _named(SUPERGLUE, cells)).value
    assert value == pytest.approx(vector["expected"]["average"], abs=0.05)


# --- Averages ------------------------------------------------------------------------------------


def _named(benchmark, cells):
    columns = [column for names in benchmark.values() for column in names]
    return dict(zip(columns, cells, strict=True))


@pytest.mark.parametrize(
    ("benchmark", "row"),
    [(GLUE, row) for row in PAPER_GLUE] + [(SUPERGLUE, row) for row in PAPER_SUPERGLUE],
)
def test_averages_of_the_paper(benchmark, row):
    assert average(benchmark, _named(benchmark, row[1:])).value == pytest.approx(row[0], abs=0.06)


def test_an_average_without_a_column_is_no_figure():
    cells = _named(GLUE, PAPER_GLUE[0][1:])
    result = average(GLUE, {**cells, "cola": None})
    assert result.value is None and result.reason == "no figure for cola"


# --- The rest of the rules -----------------------------------------------------------------------


def test_labels_are_those_the_data_sets_write():
    features = ["sentence", "sentence1", "sentence2", "question", "question1", "question2"]
    features += ["hypothesis", "premise", "passage", "choice1", "choice2"]
    rows: dict[str, Any] = dict.fromkeys(features, "x")
    rows |= {"word": "x", "answer": "x", "paragraph": "x", "idx": {"paragraph": 0, "question": 0}}
    seen = {}
    for part in (*glue.GLUE_PARTS, *superglue.SUPERGLUE_PARTS):
        if part.name in LABELS:
            for label, name in enumerate(LABELS[part.name]):
                (example,) = part.to_examples({**rows, "label": label}, "validation")
                assert (example["targets"], example["label"]) == (name, label)
                seen[part.name] = True
        assert part.name in TASKS
    assert seen.keys() == LABELS.keys()


@pytest.mark.parametrize("task", ["sst2", "qnli", "rte", "boolq", "copa", "wic"])
def test_accuracy(task):
    no, yes = LABELS[task]
    examples = [{"label": n} for n in (0, 1, 1, 0)]
    (score,) = score_task(task, [no, f" {yes}\n", no.upper() + "x", ""], examples).values()
    assert (score.value, score.lines, score.n_empty) == (50, (100, 100, 0, 0), 1)
    assert score.warnings == (f"2 of 4 predictions are no label of {task}",)


def test_both_halves_of_mnli():
    texts, examples = ["neutral", "neutral"], [{"label": 1}, {"label": 2}]
    assert list(score_task("mnli", texts, examples)) == ["mnli_m"]
    assert list(score_task("mnli", texts, examples, mismatched=True)) == ["mnli_mm"]


def test_cola_counts_invalid_texts_as_a_class_of_their_own():
    examples = [{"label": n} for n in (1, 1, 0, 0)]
    right = ["acceptable", "acceptable", "unacceptable", "unacceptable"]
    assert _values("cola", right, examples) == [100]
    assert 0 < _values("cola", [*right[:3], "what"], examples)[0] < 100


def test_one_class_only():
    examples = [{"label": 0}, {"label": 0}]
    assert _values("mrpc", ["not_equivalent"] * 2, examples) == [0, 100]
    assert _values("cola", ["unacceptable"] * 2, examples) == [0]
    assert _values("cola", ["unacceptable", "what"], examples) == [0]


def test_stsb():
    examples = [{"targets": t} for t in ("1.0", "2.0", "4.0", "0.0")]
    assert _values("stsb", ["1.2", "2.2", "4.8", "0.2"], examples) == pytest.approx(
        [99.6, 100], abs=0.5
    )
    scores = score_task("stsb", ["1.0", "inf", "what", ""], examples)
    assert scores["stsb_pearson"].warnings == ("3 of 4 predictions are no number of stsb",)
    assert math.isfinite(scores["stsb_pearson"].value)
    huge = score_task("stsb", ["1e308", "-1e308", "1e308", "0"], examples)
    assert all(s.value is None or math.isfinite(s.value) for s in huge.values())


@pytest.mark.parametrize(
    ("text", "noun", "same"),
    [
        ("fuzzy bunny", "bunny", True),
        ("The Bunny", "the fuzzy bunny", True),
        ("Bob", "Bob's hat", False),
        ("bob's", "Bob's hat", True),
        ("Bob", "Alice", False),
        ("", "bunny", False),
        ("the", "bunny", False),
    ],
)
def test_nouns(text, noun, same):
    assert is_same_noun(text, noun) == same


def test_wsc():
    examples = [{"targets": "the trophy", "label": n} for n in (1, 0, 0)]
    assert _values("wsc", ["Trophy", "trophy", "suitcase"], examples) == [pytest.approx(200 / 3)]


def test_record_takes_the_best_answer_word_by_word():
    examples = [{"group": "0-0", "answers": ["the Big Apple", "New York City"]}]
    assert _values("record", ["new york!"], examples) == pytest.approx([80, 0])
    assert _values("record", ["big apple"], examples) == [100, 100]
    assert _values("record", [""], examples) == [0, 0]


@pytest.mark.parametrize(
    ("task", "example", "message"),
    [
        ("rte", {}, "example 1 of rte has no label"),
        ("rte", {"label": 2}, "example 1 of rte has label 2, not 0 to 1"),
        ("multirc", {"label": 0}, "no group"),
        ("record", {"group": "a", "answers": []}, "no answers"),
        ("wnli", {"label": 0}, "no task 'wnli'"),
    ],
)
def test_refuses(task, example, message):
    with pytest.raises(ValueError, match=message):
        score_task(task, ["x"], [example])


def test_unequal_lengths():
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        score_task("rte", ["a", "b"], [{"label": 0}])
    with pytest.raises(ValueError, match="only mnli"):
        score_task("rte", ["a"], [{"label": 0}], mismatched=True)
