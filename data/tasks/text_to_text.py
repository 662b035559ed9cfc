"""GLUE and SuperGLUE rows as one text in and one text out, in the form that T5 gave them.

`<task> <feature>: <its text> <feature>: <its text>` -> the name of the label. T5 sorts the features
by name, so MNLI reads `hypothesis` before `premise`, except those of MultiRC and WiC; texts stay as
they are, spaces included. Four sets differ: STS-B writes a number, MultiRC removes mark-up, ReCoRD
writes an entity, WSC the noun that a marked pronoun may stand for.

Besides `inputs` and `targets`, examples carry what their metric needs:

label    number of the class (not STS-B, ReCoRD)
group    MultiRC, ReCoRD: the question that an answer belongs to
answers  ReCoRD: all right answers

A row without a label, as in the test sets, is an error.
"""

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from data.errors import DataError
from data.tasks.task import Example, Row, ToExamples

_BOOLEAN = ("False", "True")
_ENTAILMENT = ("entailment", "not_entailment")
NLI_LABELS = ("entailment", "neutral", "contradiction")
CB_LABELS = ("entailment", "contradiction", "neutral")  # not the order of MNLI
RTE_LABELS = QNLI_LABELS = _ENTAILMENT
BOOLQ_LABELS = WIC_LABELS = _BOOLEAN


def classification(
    prefix: str,
    features: Sequence[str],
    labels: Sequence[str],
    *,
    renamed: Mapping[str, str] | None = None,
) -> ToExamples:
    """Rows whose `label` counts `labels`; `features` in the order in which they are written.

    `renamed`: what the row calls a feature, where that is another name.
    """
    column_of = {feature: feature for feature in features} | dict(renamed or {})

    def to_examples(row: Row, split: str) -> list[Example]:
        del split
        texts = {feature: row[column_of[feature]] for feature in features}
        targets = _label_name(row, labels)
        return [{"inputs": _join(prefix, texts), "targets": targets, "label": int(row["label"])}]

    return to_examples


def stsb(row: Row, split: str) -> list[Example]:
    """STS-B: the similarity from 0 to 5, rounded to the nearest fifth."""
    del split
    inputs = _join("stsb", {key: row[key] for key in ("sentence1", "sentence2")})
    if row["label"] < 0:
        raise DataError(f"a row of stsb has no label: {row!s:.200}")
    return [{"inputs": inputs, "targets": _nearest_fifth(row["label"])}]


def multirc(row: Row, split: str) -> list[Example]:
    """MultiRC: is this answer right? All answers of a question share a group."""
    del split
    texts = {key: row[key] for key in ("question", "answer", "paragraph")}
    inputs = _join("multirc", texts).replace("<br>", " ")
    return [
        {
            "inputs": re.sub("</?b>", "", inputs),
            "targets": _label_name(row, _BOOLEAN),
            "label": int(row["label"]),
            "group": _group(row["idx"], "paragraph", "question"),
        }
    ]


def record(row: Row, split: str) -> list[Example]:
    """ReCoRD: the entity that fills the gap; one example per right answer in training.

    Evaluation takes a row once, as T5's metric does when it drops the repeated ones.
    """
    texts = {
        "query": row["query"],
        "entities": ", ".join(row["entities"]),
        "passage": _without_highlights(row["passage"]),
    }
    answers = list(row["answers"])
    if not answers:
        raise DataError(f"a row of record has no answers: {row!s:.200}")
    example = {
        "inputs": _join("record", texts),
        "group": _group(row["idx"], "passage", "query"),
        "answers": answers,
    }
    return [example | {"targets": a} for a in (answers if split == "train" else answers[:1])]


def wsc(row: Row, split: str) -> list[Example]:
    """WSC: the noun that the marked pronoun stands for.

    The targets are the noun of the row, right or wrong (`label`): its metric asks whether the
    model names it. So only the right ones are learned from.
    """
    _label_name(row, _BOOLEAN)
    if split == "train" and not row["label"]:
        return []
    inputs = "wsc: " + _mark_pronoun(row["text"], row["span2_text"], row["span2_index"])
    return [{"inputs": inputs, "targets": row["span1_text"], "label": int(row["label"])}]


def _join(prefix: str, texts: Mapping[str, str]) -> str:
    return " ".join([prefix, *(f"{feature}: {text}" for feature, text in texts.items())])


def _label_name(row: Row, labels: Sequence[str]) -> str:
    label = int(row["label"])
    if not 0 <= label < len(labels):
        raise DataError(
            f"label {label} is none of {', '.join(labels)} (test labels are not public: score "
            f"validation), in the row: {row!s:.200}"
        )
    return labels[label]


def _group(idx: Mapping[str, Any], *keys: str) -> str:
    return "-".join(str(int(idx[key])) for key in keys)


def _nearest_fifth(similarity: float) -> str:
    """T5 computes in 32 bits: there 5 * 0.7 is 3.5 and rounds up, in 64 bits it is below."""
    return f"{round(_float32(5 * _float32(similarity))) / 5:.1f}"


def _float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def _without_highlights(passage: str) -> str:
    """Marks before the summary lines of an article become ends of sentences."""
    passage = re.sub(r"([.?!\"'])\n@highlight\n", r"\1 ", passage)
    return passage.replace("\n@highlight\n", ". ")


def _mark_pronoun(text: str, pronoun: str, index: int) -> str:
    """Stars around the pronoun, which is the word at `index`; words end at single spaces.

    In two rows it is not: once punctuation sticks to it, once the index is off by one. T5 lists
    these rows; here the nearest word that is the pronoun, or begins with it, is taken.
    """
    words = text.split(" ")
    candidates = [i for i, word in enumerate(words) if _is_pronoun(word, pronoun)]
    if not candidates:
        raise DataError(f"no word is the pronoun {pronoun!r} in the text: {text}")
    found = min(candidates, key=lambda i: (abs(i - index), -i))
    rest = words[found].removeprefix(pronoun)
    words[found : found + 1] = [f"*{pronoun}*", *([rest] if rest else [])]
    marked = " ".join(words)
    return marked.rstrip(" ") if rest else marked  # T5 cuts the end of that row, too


def _is_pronoun(word: str, pronoun: str) -> bool:
    return word == pronoun or (word.startswith(pronoun) and not word[len(pronoun)].isalnum())
