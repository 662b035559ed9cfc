"""GLUE and SuperGLUE by T5's rules: text in, the columns of the paper's tables out, in percent.

A model writes the name of a label; a text that is no label is wrong, whatever the label is. For F1
it counts as the opposite of the right one. What is special:

CoLA     Matthews' correlation, 0 for a constant prediction
STS-B    numbers; a text that is none is -1. A constant has no correlation: `Unavailable`
MRPC, QQP    F1 / accuracy
CB       mean of the F1 of the three classes / accuracy
MultiRC  F1 over all answers (F1a) / share of the questions with every answer judged right (EM)
ReCoRD   each question once; best F1 / exact match with one of its answers, as SQuAD compares them
WSC      the noun that was written is the row's noun, or not; accuracy of that against the label

WNLI is left out, as in T5. An average is the mean over eight tasks of the means of their columns;
it gives the paper's own averages from its cells.
"""

import math
import re
import string
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from synth.metrics.score import Result, Score, Unavailable, check_pairs, make_signature
from synth.metrics.text import count_empty

Example = Mapping[str, Any]

GLUE: dict[str, tuple[str, ...]] = {
    "cola": ("cola",),
    "sst2": ("sst2",),
    "mrpc": ("mrpc_f1", "mrpc_acc"),
    "stsb": ("stsb_pearson", "stsb_spearman"),
    "qqp": ("qqp_f1", "qqp_acc"),
    "mnli": ("mnli_m", "mnli_mm"),
    "qnli": ("qnli",),
    "rte": ("rte",),
}
SUPERGLUE: dict[str, tuple[str, ...]] = {
    "boolq": ("boolq",),
    "cb": ("cb_f1", "cb_acc"),
    "copa": ("copa",),
    "multirc": ("multirc_f1a", "multirc_em"),
    "record": ("record_f1", "record_em"),
    "rte": ("rte",),
    "wic": ("wic",),
    "wsc": ("wsc",),
}
LABELS: dict[str, tuple[str, ...]] = {
    "cola": ("unacceptable", "acceptable"),
    "sst2": ("negative", "positive"),
    "mrpc": ("not_equivalent", "equivalent"),
    "qqp": ("not_duplicate", "duplicate"),
    "mnli": ("entailment", "neutral", "contradiction"),
    "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
    "boolq": ("False", "True"),
    "cb": ("entailment", "contradiction", "neutral"),
    "copa": ("choice1", "choice2"),
    "multirc": ("False", "True"),
    "wic": ("False", "True"),
}
TASKS = tuple(dict.fromkeys((*GLUE, *SUPERGLUE)))
_DETERMINERS = frozenset({
    "a", "an", "the", "this", "that", "these", "those", "each", "every", "few", "many", "much",
    "some", "which", "whose", "my", "your", "his", "her", "our", "their",
})  # fmt: skip


def score_task(
    task: str, predictions: Sequence[str], examples: Sequence[Example], *, mismatched: bool = False
) -> dict[str, Result]:
    """The columns of a task, by the names of `GLUE` and `SUPERGLUE`.

    Args:
      task: one of `TASKS`; the stand-in data sets follow the rules of the task they imitate.
      predictions: what the model wrote, one text for each example.
      examples: with `label`; of STS-B `targets`, of WSC `label` and `targets`, of MultiRC `label`
        and `group`, of ReCoRD `group` and `answers`.
      mismatched: MNLI only: the examples are of the genres that were not trained on.

    Raises:
      TypeError, ValueError: for unequal lengths, an unknown task, or an example that lacks
        something.
    """
    if task not in TASKS:
        raise ValueError(f"there is no task {task!r}; there are {', '.join(TASKS)}")
    if mismatched and task != "mnli":
        raise ValueError(f"only mnli has mismatched genres, not {task}")
    check_pairs(predictions, examples)
    texts = [text.strip() for text in predictions]
    results = _RULES.get(task, _accuracy)(task, texts, examples)
    columns = {**GLUE, **SUPERGLUE}[task]
    if task == "mnli":
        columns = columns[1:] if mismatched else columns[:1]
    return dict(zip(columns, results, strict=True))


def average(benchmark: Mapping[str, Sequence[str]], figures: Mapping[str, float | None]) -> Result:
    """The average of `GLUE` or `SUPERGLUE` from the figures of all its columns.

    Unavailable, naming the columns, while one is missing or None.
    """
    columns = [column for names in benchmark.values() for column in names]
    missing = [column for column in columns if figures.get(column) is None]
    if missing:
        return Unavailable(f"no figure for {', '.join(missing)}")
    means = [_mean([figures[name] or 0.0 for name in names]) for names in benchmark.values()]
    signature = f"mean of {len(means)} tasks, each the mean of its metrics"
    return Score(_mean(means), signature, len(means), 0)


# --- Rules: (task, texts, examples) -> a result for each column ----------------------------------


def _accuracy(task: str, texts: list[str], examples: Sequence[Example]) -> list[Result]:
    return [_accuracy_of(task, texts, _classes(task, texts), _labels(task, examples))]


def _matthews(task: str, texts: list[str], examples: Sequence[Example]) -> list[Result]:
    from sklearn.metrics import matthews_corrcoef

    predicted, labels = _classes(task, texts), _labels(task, examples)
    value = 0.0 if len(set(predicted)) == 1 else matthews_corrcoef(labels, predicted)
    return [_score(task, texts, 100.0 * float(value), "matthews", predicted=predicted)]


def _f1_accuracy(task: str, texts: list[str], examples: Sequence[Example]) -> list[Result]:
    predicted, labels = _classes(task, texts), _labels(task, examples)
    f1 = _score(task, texts, _binary_f1(labels, predicted), "f1", predicted=predicted)
    return [f1, _accuracy_of(task, texts, predicted, labels)]


def _macro_f1_accuracy(task: str, texts: list[str], examples: Sequence[Example]) -> list[Result]:
    predicted, labels = _classes(task, texts), _labels(task, examples)
    classes = range(len(LABELS[task]))
    value = _f1(labels, predicted, labels=classes, average="macro")
    macro = _score(task, texts, value, "macro-f1", predicted=predicted)
    return [macro, _accuracy_of(task, texts, predicted, labels)]


def _multirc(task: str, texts: list[str], examples: Sequence[Example]) -> list[Result]:
    predicted, labels = _classes(task, texts), _labels(task, examples)
    f1a = _score(task, texts, _binary_f1(labels, predicted), "f1a", predicted=predicted)
    right: dict[Any, bool] = {}
    for group, a, b in zip(_field(task, examples, "group"), predicted, labels, strict=True):
        right[group] = right.get(group, True) and a == b
    lines = tuple(100.0 * all_right for all_right in right.values())
    return [f1a, _score(task, texts, _mean(lines), "em", predicted=predicted, lines=lines)]


def _record(task: str, texts: list[str], examples: Sequence[Example]) -> list[Result]:
    groups = _field(task, examples, "group")
    first = {group: i for i, group in reversed(list(enumerate(groups)))}  # the earliest stays
    f1, exact = [], []
    for i in sorted(first.values()):
        given = squad_words(texts[i])
        answers = [squad_words(answer) for answer in _field(task, examples, "answers")[i]]
        f1.append(100.0 * max(_words_f1(given, answer) for answer in answers))
        exact.append(100.0 * any(given == answer for answer in answers))
    return [
        _score(task, texts, _mean(f1), "squad-f1", lines=tuple(f1)),
        _score(task, texts, _mean(exact), "squad-em", lines=tuple(exact)),
    ]


def _wsc(task: str, texts: list[str], examples: Sequence[Example]) -> list[Result]:
    nouns = _field(task, examples, "targets")
    predicted = [int(is_same_noun(a, b)) for a, b in zip(texts, nouns, strict=True)]
    return [_accuracy_of(task, texts, predicted, _labels(task, examples))]


def _correlations(task: str, texts: list[str], examples: Sequence[Example]) -> list[Result]:
    from scipy.stats import pearsonr, spearmanr

    predicted = [_number(text) for text in texts]
    targets = [_number(text) for text in _field(task, examples, "targets")]
    n_bad = sum(number is None for number in predicted)
    numbers = [-1.0 if number is None else number for number in predicted]
    if len(set(numbers)) < 2 or len(set(targets)) < 2:
        reason = "a correlation needs predictions and labels that are not all the same"
        return [Unavailable(reason)] * 2
    results: list[Result] = []
    for name, correlation in (("pearson", pearsonr), ("spearman", spearmanr)):
        with warnings.catch_warnings():  # of numbers too large or too close: the value is nan then
            warnings.simplefilter("ignore")
            value = 100.0 * float(correlation(targets, numbers)[0])  # type: ignore[arg-type]
        score = _score(task, texts, value, name, n_bad=n_bad)
        finite = math.isfinite(value)
        results.append(score if finite else Unavailable(f"{name}'s correlation is not a number"))
    return results


_RULES: dict[str, Callable[[str, list[str], Sequence[Example]], list[Result]]] = {
    "cola": _matthews,
    "mrpc": _f1_accuracy,
    "qqp": _f1_accuracy,
    "stsb": _correlations,
    "cb": _macro_f1_accuracy,
    "multirc": _multirc,
    "record": _record,
    "wsc": _wsc,
}


# --- Texts ---------------------------------------------------------------------------------------


def squad_words(text: str) -> list[str]:
    """Words as SQuAD compares answers: lower case, no ASCII punctuation, no articles."""
    plain = text.lower().translate(str.maketrans("", "", string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def is_same_noun(prediction: str, noun: str) -> bool:
    """Whether the words of one are all words of the other, without determiners and case.

    "Bob" is not "Bob's hat": both or neither must have an apostrophe.
    """
    if ("'" in prediction) != ("'" in noun):
        return False
    a, b = _noun_words(prediction), _noun_words(noun)
    return a <= b or b <= a


def _noun_words(text: str) -> set[str]:
    # Without a word left it is one empty word, so that no text at all does not match every noun.
    return {w for w in text.lower().split() if w not in _DETERMINERS} or {""}


def _words_f1(given: list[str], answer: list[str]) -> float:
    common = sum((Counter(given) & Counter(answer)).values())
    return 2.0 * common / (len(given) + len(answer)) if common else 0.0


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


# --- Numbers -------------------------------------------------------------------------------------


def _classes(task: str, texts: list[str]) -> list[int]:
    number = {name: i for i, name in enumerate(LABELS[task])}
    return [number.get(text, -1) for text in texts]


def _labels(task: str, examples: Sequence[Example]) -> list[int]:
    labels = [int(label) for label in _field(task, examples, "label")]
    n_labels = len(LABELS.get(task, ("False", "True")))
    for line, label in enumerate(labels, start=1):
        if not 0 <= label < n_labels:
            raise ValueError(f"example {line} of {task} has label {label}, not 0 to {n_labels - 1}")
    return labels


def _field(task: str, examples: Sequence[Example], key: str) -> list[Any]:
    for line, example in enumerate(examples, start=1):
        if example.get(key) is None or (key == "answers" and not example[key]):
            raise ValueError(f"example {line} of {task} has no {key}: {dict(example)!r:.120}")
    return [example[key] for example in examples]


def _binary_f1(labels: list[int], predicted: list[int]) -> float:
    pairs = zip(labels, predicted, strict=True)
    return _f1(labels, [1 - label if guess < 0 else guess for label, guess in pairs])


def _f1(targets: list[int], predicted: list[int], **options: Any) -> float:
    from sklearn.metrics import f1_score

    undefined: Any = 0.0  # scikit-learn declares it a string
    return 100.0 * float(f1_score(targets, predicted, zero_division=undefined, **options))


def _accuracy_of(task: str, texts: list[str], predicted: list[int], labels: list[int]) -> Score:
    lines = tuple(100.0 * (a == b) for a, b in zip(predicted, labels, strict=True))
    return _score(task, texts, _mean(lines), "accuracy", predicted=predicted, lines=lines)


def _score(
    task: str,
    texts: list[str],
    value: float,
    metric: str,
    *,
    predicted: Sequence[int] = (),
    n_bad: int = 0,
    lines: tuple[float, ...] = (),
) -> Score:
    n_bad = n_bad or sum(guess < 0 for guess in predicted)
    kind = "number" if task == "stsb" else "label"
    odd = (f"{n_bad} of {len(texts)} predictions are no {kind} of {task}",) if n_bad else ()
    signature = make_signature("scikit-learn", "scipy", rules="T5", task=task, metric=metric)
    return Score(value, signature, len(lines) or len(texts), count_empty(texts), odd, lines)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
