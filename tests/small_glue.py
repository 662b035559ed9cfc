"""Small archives of GLUE and SuperGLUE with the layout of the published ones, by config of TFDS."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from small_files import jsonl, table, zipped

# --- GLUE -----------------------------------------------------------------------------------------


def _glue(name: str, folder_name: str, **tables: str) -> Callable[[Path], None]:
    files = {f"{folder_name}/{split}.tsv": text for split, text in tables.items()}
    return lambda folder: zipped(folder / f"{name}.zip", files)


_COLA_TRAIN = table(None, "gj04|1||The cat sat.", "gj04|0|*|Cat the “sat.", "cj99|1||She's here.")
_MNLI = (
    "index|promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse|sentence1_parse|"
    "sentence2_parse|sentence1|sentence2|label1|gold_label"
)


def _mnli(sentence1: str, sentence2: str, label: str) -> str:
    return f"0|1|1n|fiction|( a )|( b )|(ROOT a)|(ROOT b)|{sentence1}|{sentence2}|{label}|{label}"


_MNLI_TEST = table(_MNLI.removesuffix("|label1|gold_label"), "0|1|1n|f|( a )|( b )|a|b|One.|Two.")


def _mrpc(folder: Path) -> None:
    header = "Quality|#1 ID|#2 ID|#1 String|#2 String"
    train = table(header, '1|7|8|He said "no|He refused', "0|9|10|Up|Down", "1|5|6|Dev a|Dev b")
    test = table(header, "1|1|2|Test a|Test b")
    (folder / "msr_paraphrase_train.txt").write_text(train, encoding="utf-8-sig")
    (folder / "msr_paraphrase_test.txt").write_text(test, encoding="utf-8-sig")
    (folder / "data_mrpc_dev_ids.tsv").write_text(table(None, "5|6"))


_STSB = "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2"
_QQP = "id|qid1|qid2|question1|question2|is_duplicate"

GLUE: dict[str, Callable[[Path], None]] = {
    "cola": _glue(
        "CoLA",
        "CoLA",
        train=_COLA_TRAIN,
        dev=table(None, "gj04|0|*|Dev sentence"),
        test=table("index|sentence", "0|Test sentence"),
    ),
    "sst2": _glue(
        "SST-2",
        "SST-2",
        train=table("sentence|label", "a gem |1", "it 's awful |0"),
        dev=table("sentence|label", "fine |1"),
        test=table("index|sentence", "0|unlabelled"),
    ),
    "mrpc": _mrpc,
    "stsb": _glue(
        "STS-B",
        "STS-B",
        train=table(f"{_STSB}|score", "0|news|f|2012|1|n|n|A plane.|An aircraft.|4.750"),
        dev=table(f"{_STSB}|score", "0|news|f|2012|1|n|n|A dog.|A cat.|1.6"),
        test=table(_STSB, "0|news|f|2012|1|n|n|A test.|Tests."),
    ),
    "qqp": _glue(
        "QQP",
        "QQP",
        # TFDS drops rows with a missing column; the published file has some.
        train=table(_QQP, "1|2|3|Why?|How come?|1", "4|5|6|Who?|When?|0", "7|8|9|Cut off"),
        dev=table(_QQP, "1|2|3|Dev?|Dév?|1"),
        test=table("id|question1|question2", "0|Test?|Tests?"),
    ),
    "mnli": _glue(
        "MNLI",
        "MNLI",
        train=table(
            _MNLI,
            _mnli("He ran.", "He moved.", "entailment"),
            _mnli("He ran.", "He sat.", "contradiction"),
            _mnli("He ran.", "It rained.", "neutral"),
        ),
        dev_matched=table(_MNLI, _mnli("Matched.", "Same genre.", "neutral")),
        dev_mismatched=table(_MNLI, _mnli("Mismatched.", "Other genre.", "entailment")),
        test_matched=_MNLI_TEST,
        test_mismatched=_MNLI_TEST,
    ),
    "qnli": _glue(
        "QNLIv2",
        "QNLI",
        train=table("index|question|sentence|label", "0|Who?|She did.|entailment"),
        dev=table("index|question|sentence|label", "0|When?|In France.|not_entailment"),
        test=table("index|question|sentence", "0|Test?|Test."),
    ),
    "rte": _glue(
        "RTE",
        "RTE",
        train=table("index|sentence1|sentence2|label", "0|All sing.|One sings.|entailment"),
        dev=table("index|sentence1|sentence2|label", "0|One sings.|All do.|not_entailment"),
        test=table("index|sentence1|sentence2", "0|Test.|Tests."),
    ),
}

# --- SuperGLUE ------------------------------------------------------------------------------------


def _superglue(name: str, train: str, val: str, test: str) -> Callable[[Path], None]:
    files = {
        f"{name}/{split}.jsonl": text
        for split, text in zip(("train", "val", "test"), (train, val, test), strict=True)
    }
    return lambda folder: zipped(folder / f"{name}.zip", files)


def _unlabelled(row: Mapping[str, Any]) -> str:
    return jsonl({key: value for key, value in row.items() if key != "label"})


def _simple(name: str, *rows: Mapping[str, Any]) -> Callable[[Path], None]:
    """All rows train, the last one validates and, without its label, tests."""
    train = jsonl(*({**row, "idx": i} for i, row in enumerate(rows)))
    last = {**rows[-1], "idx": 0}
    return _superglue(name, train, jsonl(last), _unlabelled(last))


def _multirc(labels: Sequence[int | None]) -> str:
    answers = [
        {"text": text, "idx": i} | ({} if label is None else {"label": label})
        for i, (text, label) in enumerate(zip(["At home", "Nowhere"], labels, strict=True))
    ]
    questions = [{"question": "Where was <b>he</b>?", "answers": answers, "idx": 4}]
    passage = {"text": "<b>Sent 1: </b>He stayed.<br>", "questions": questions}
    return jsonl({"idx": 3, "version": 1.1, "passage": passage})


def _record(answers: Sequence[str]) -> str:
    text = "Ann met Bob in Köln.\n@highlight\nAnn left"
    spans = [(text.index(name), name) for name in ("Ann", "Bob", "Köln")]
    entities = [{"start": start, "end": start + len(name) - 1} for start, name in spans]
    query: dict[str, Any] = {"idx": 6, "query": "@placeholder left"}
    if answers:
        query["answers"] = [{"start": 0, "end": 1, "text": answer} for answer in answers]
    passage = {"text": text, "entities": entities}
    return jsonl({"source": "Daily mail", "idx": 5, "passage": passage, "qas": [query]})


def _wsc(text: str, noun: tuple[str, int], pronoun: tuple[str, int], label: bool) -> dict[str, Any]:
    target = {
        "span1_text": noun[0],
        "span1_index": noun[1],
        "span2_text": pronoun[0],
        "span2_index": pronoun[1],
    }
    return {"text": text, "target": target, "label": label}


def _wic(sentence1: str, sentence2: str, label: bool) -> dict[str, Any]:
    ends = {"start1": 0, "end1": 4, "start2": 2, "end2": 6, "version": 1.1}
    return {"word": "bank", "sentence1": sentence1, "sentence2": sentence2, "label": label, **ends}


SUPERGLUE: dict[str, Callable[[Path], None]] = {
    "boolq": _simple(
        "BoolQ",
        {"question": "is ice cold", "passage": "Ice -- Ice is cold.", "label": True},
        {"question": "is fire cold", "passage": "Fire is “hot”.", "label": False},
    ),
    "cb": _simple(
        "CB",
        {"premise": "I think so.", "hypothesis": "so", "label": "entailment"},
        {"premise": "I doubt it.", "hypothesis": "it", "label": "contradiction"},
        {"premise": "I wonder.", "hypothesis": "that", "label": "neutral"},
    ),
    "copa": _simple(
        "COPA",
        {
            "premise": "It rained.",
            "choice1": "I got wet.",
            "choice2": "I sang.",
            "question": "effect",
            "label": 0,
        },
        {
            "premise": "I fell.",
            "choice1": "I ate.",
            "choice2": "I slipped.",
            "question": "cause",
            "label": 1,
        },
    ),
    "multirc": _superglue("MultiRC", _multirc([1, 0]), _multirc([0, 1]), _multirc([None, None])),
    "record": _superglue("ReCoRD", _record(["Ann", "Bob"]), _record(["Bob", "Ann"]), _record([])),
    "rte": _simple(
        "RTE",
        {"premise": "All sing.", "hypothesis": "One sings.", "label": "entailment"},
        {"premise": "One sings.", "hypothesis": "All do.", "label": "not_entailment"},
    ),
    "wic": _simple(
        "WiC",
        _wic("Bank of the river", "A bank account", False),
        _wic("Bank on it", "I bank on you", True),
    ),
    "wsc.fixed": _simple(
        "WSC",
        _wsc("Ann told Eve that she won.", ("Ann", 0), ("she", 4), True),
        # The published rows differ from the text in case and full stops, which TFDS mends.
        _wsc("The dog chased Tom because it was angry.", ("the dog.", 0), ("it", 5), False),
    ),
}
