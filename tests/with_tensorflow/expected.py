"""What a model reads of the small archives, by task and data set."""

from collections.abc import Iterable

import small_archives

from data.tasks.task import Example


def by_text(found: Iterable[Example]) -> list[Example]:
    return sorted(found, key=lambda example: (example.get("inputs", ""), str(example)))


def text_pairs(pairs: Iterable[tuple[str, str]]) -> list[Example]:
    return by_text({"inputs": inputs, "targets": targets} for inputs, targets in pairs)


def labelled(*rows: tuple[str, str, int]) -> list[Example]:
    return by_text({"inputs": i, "targets": t, "label": n} for i, t, n in rows)


def wmt(*subsets: str) -> dict[str, list[Example]]:
    train = [pair for subset in subsets for pair in small_archives.WMT_TRAIN[subset]]
    splits = {
        "train": train,
        "validation": small_archives.WMT_VALIDATION,
        "test": small_archives.WMT_TEST,
    }
    # Pairs with an empty side are left out by TFDS.
    return {
        split: text_pairs((en, other) for other, en in pairs if en and other)
        for split, pairs in splits.items()
    }


def mnli(hypothesis: str, premise: str) -> str:
    return f"mnli hypothesis: {hypothesis} premise: {premise}"


MULTIRC = "multirc question: Where was he? answer: {} paragraph: Sent 1: He stayed. "
RECORD = {
    "inputs": "record query: @placeholder left entities: Ann, Bob, Köln "
    "passage: Ann met Bob in Köln. Ann left",
    "group": "5-6",
    "answers": ["Ann", "Bob"],
}
COPA = "copa choice1: {} choice2: {} premise: {} question: {}"
WSC_TEXTS = (
    "wsc: Ann told Eve that *she* won.",
    "wsc: The dog chased Tom because *it* was angry.",
)
BOOLQ_LAST = ("boolq passage: Fire is “hot”. question: is fire cold", "False", 0)
CB_LAST = ("cb hypothesis: that premise: I wonder.", "neutral", 2)
COPA_LAST = (COPA.format("I ate.", "I slipped.", "I fell.", "cause"), "choice2", 1)
RTE_LAST = ("rte hypothesis: All do. premise: One sings.", "not_entailment", 1)
WIC = "wic sentence1: {} sentence2: {} word: bank"
WIC_LAST = (WIC.format("Bank on it", "I bank on you"), "True", 1)

# (task, data set) -> split -> what a model reads of the small archives
EXPECTED: dict[tuple[str, str], dict[str, list[Example]]] = {
    ("wmt_ende", "wmt_t2t_translate"): wmt("europarl", "commoncrawl", "news"),
    ("wmt_enfr", "wmt14_translate"): wmt("europarl", "commoncrawl", "news", "un", "giga"),
    ("cnn_dailymail", "cnn_dailymail"): {
        "train": text_pairs(
            [
                ("(CNN) -- It rained.", "Rain fell.\nAll got wet."),
                ("The café “closed”.", "Café shuts."),
            ]
        ),
        "validation": text_pairs([("Snow came.", "Snow comes.")]),
        "test": text_pairs([("Sun shone.", "Sun shines.")]),
    },
    ("glue", "cola"): {
        "train": labelled(
            ("cola sentence: The cat sat.", "acceptable", 1),
            ("cola sentence: Cat the “sat.", "unacceptable", 0),
            ("cola sentence: She's here.", "acceptable", 1),
        ),
        "validation": labelled(("cola sentence: Dev sentence", "unacceptable", 0)),
    },
    ("glue", "sst2"): {
        "train": labelled(
            ("sst2 sentence: a gem ", "positive", 1),
            ("sst2 sentence: it 's awful ", "negative", 0),
        ),
        "validation": labelled(("sst2 sentence: fine ", "positive", 1)),
    },
    ("glue", "mrpc"): {
        "train": labelled(
            ('mrpc sentence1: He said "no sentence2: He refused', "equivalent", 1),
            ("mrpc sentence1: Up sentence2: Down", "not_equivalent", 0),
        ),
        "validation": labelled(("mrpc sentence1: Dev a sentence2: Dev b", "equivalent", 1)),
    },
    ("glue", "stsb"): {
        "train": text_pairs([("stsb sentence1: A plane. sentence2: An aircraft.", "4.8")]),
        "validation": text_pairs([("stsb sentence1: A dog. sentence2: A cat.", "1.6")]),
    },
    ("glue", "qqp"): {
        "train": labelled(
            ("qqp question1: Why? question2: How come?", "duplicate", 1),
            ("qqp question1: Who? question2: When?", "not_duplicate", 0),
        ),
        "validation": labelled(("qqp question1: Dev? question2: Dév?", "duplicate", 1)),
    },
    ("glue", "mnli"): {
        "train": labelled(
            (mnli("He moved.", "He ran."), "entailment", 0),
            (mnli("It rained.", "He ran."), "neutral", 1),
            (mnli("He sat.", "He ran."), "contradiction", 2),
        ),
        "validation": labelled((mnli("Same genre.", "Matched."), "neutral", 1)),
        "validation_mismatched": labelled((mnli("Other genre.", "Mismatched."), "entailment", 0)),
    },
    ("glue", "qnli"): {
        "train": labelled(("qnli question: Who? sentence: She did.", "entailment", 0)),
        "validation": labelled(("qnli question: When? sentence: In France.", "not_entailment", 1)),
    },
    ("glue", "rte"): {
        "train": labelled(("rte sentence1: All sing. sentence2: One sings.", "entailment", 0)),
        "validation": labelled(
            ("rte sentence1: One sings. sentence2: All do.", "not_entailment", 1)
        ),
    },
    ("superglue", "boolq"): {
        "train": labelled(
            ("boolq passage: Ice -- Ice is cold. question: is ice cold", "True", 1), BOOLQ_LAST
        ),
        "validation": labelled(BOOLQ_LAST),
    },
    ("superglue", "cb"): {
        "train": labelled(
            ("cb hypothesis: so premise: I think so.", "entailment", 0),
            ("cb hypothesis: it premise: I doubt it.", "contradiction", 1),
            CB_LAST,
        ),
        "validation": labelled(CB_LAST),
    },
    ("superglue", "copa"): {
        "train": labelled(
            (COPA.format("I got wet.", "I sang.", "It rained.", "effect"), "choice1", 0),
            COPA_LAST,
        ),
        "validation": labelled(COPA_LAST),
    },
    ("superglue", "multirc"): {
        "train": [
            {"inputs": MULTIRC.format("At home"), "targets": "True", "label": 1, "group": "3-4"},
            {"inputs": MULTIRC.format("Nowhere"), "targets": "False", "label": 0, "group": "3-4"},
        ],
        "validation": [
            {"inputs": MULTIRC.format("At home"), "targets": "False", "label": 0, "group": "3-4"},
            {"inputs": MULTIRC.format("Nowhere"), "targets": "True", "label": 1, "group": "3-4"},
        ],
    },
    ("superglue", "record"): {
        "train": [RECORD | {"targets": "Ann"}, RECORD | {"targets": "Bob"}],
        "validation": [RECORD | {"targets": "Ann"}],
    },
    ("superglue", "rte"): {
        "train": labelled(
            ("rte hypothesis: One sings. premise: All sing.", "entailment", 0), RTE_LAST
        ),
        "validation": labelled(RTE_LAST),
    },
    ("superglue", "wic"): {
        "train": labelled(
            (WIC.format("Bank of the river", "A bank account"), "False", 0), WIC_LAST
        ),
        "validation": labelled(WIC_LAST),
    },
    ("superglue", "wsc"): {
        "train": labelled((WSC_TEXTS[0], "Ann", 1)),  # wrong nouns are not learned from
        "validation": labelled((WSC_TEXTS[1], "The dog", 0)),
    },
}
