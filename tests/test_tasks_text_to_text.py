"""GLUE and SuperGLUE in T5's text form, and the two classification tasks."""

import struct

import pytest

from data.errors import DataError
from data.tasks.agnews import AGNEWS
from data.tasks.glue import GLUE, GLUE_PARTS, MOVIE_SENTIMENT
from data.tasks.imdb import IMDB
from data.tasks.superglue import EN_MIX, SUPERGLUE, SUPERGLUE_PARTS, WORDNET_WIC
from data.tasks.text_to_text import multirc, record, stsb, wsc

# (data set, row, inputs, targets): T5's own preprocessors were run on
# these rows, with TensorFlow, and gave these texts.
GLUE_CASES = [
    (
        "cola",
        {"sentence": 'What did "she"  say who left?', "label": 0, "idx": 3},
        'cola sentence: What did "she"  say who left?',
        "unacceptable",
    ),
    (
        "sst2",
        {"sentence": "a film of rare charm ", "label": 1, "idx": 3},
        "sst2 sentence: a film of rare charm ",
        "positive",
    ),
    (
        "mrpc",
        {"sentence1": "Rain fell.", "sentence2": "It rained .", "label": 1, "idx": 3},
        "mrpc sentence1: Rain fell. sentence2: It rained .",
        "equivalent",
    ),
    (
        "stsb",
        {"sentence1": "A cat sits.", "sentence2": "A dog runs.", "label": 2.5, "idx": 3},
        "stsb sentence1: A cat sits. sentence2: A dog runs.",
        "2.4",
    ),
    (
        "qqp",
        {"question1": "How far is it?", "question2": "", "label": 0, "idx": 3},
        "qqp question1: How far is it? question2: ",
        "not_duplicate",
    ),
    (
        "mnli",
        {"premise": "He slept.", "hypothesis": "He ran.", "label": 2, "idx": 3},
        "mnli hypothesis: He ran. premise: He slept.",
        "contradiction",
    ),
    (
        "mnli",
        {"premise": "Zoë <b>wrote</b>\nback.", "hypothesis": "„Hers“ it is.", "label": 1, "idx": 3},
        "mnli hypothesis: „Hers“ it is. premise: Zoë <b>wrote</b>\nback.",
        "neutral",
    ),
    (
        "qnli",
        {"question": "Who won?", "sentence": "Norway won.", "label": 0, "idx": 3},
        "qnli question: Who won? sentence: Norway won.",
        "entailment",
    ),
    (
        "rte",
        {"sentence1": "All birds sing.", "sentence2": "None does.", "label": 1, "idx": 3},
        "rte sentence1: All birds sing. sentence2: None does.",
        "not_entailment",
    ),
]

SUPERGLUE_CASES = [
    (
        "boolq",
        {"question": "is tea hot", "passage": "Tea -- Tea is hot.", "label": 1, "idx": 3},
        "boolq passage: Tea -- Tea is hot. question: is tea hot",
        "True",
    ),
    (
        "cb",
        {"premise": "B: I doubt it rained.", "hypothesis": "it rained", "label": 1, "idx": 3},
        "cb hypothesis: it rained premise: B: I doubt it rained.",
        "contradiction",
    ),
    (
        "cb",
        {"premise": "May be.", "hypothesis": "it is", "label": 2, "idx": 3},
        "cb hypothesis: it is premise: May be.",
        "neutral",
    ),
    (
        "copa",
        {
            "premise": "The lamp went out.",
            "choice1": "The bulb broke.",
            "choice2": "It was noon.",
            "question": "cause",
            "label": 0,
            "idx": 3,
        },
        "copa choice1: The bulb broke. choice2: It was noon. premise: The lamp went out. "
        "question: cause",
        "choice1",
    ),
    (
        "multirc",
        {
            "paragraph": "<b>Sent 1: </b>Ann ate pie.<br><b>Sent 2: </b>Bob slept.<br/>",
            "question": "Who <b>ate</b>?",
            "answer": "Ann<br>",
            "label": 1,
            "idx": {"paragraph": 5, "question": 12, "answer": 40},
        },
        "multirc question: Who ate? answer: Ann  paragraph: Sent 1: Ann ate pie. "
        "Sent 2: Bob slept.<br/>",
        "True",
    ),
    (
        "record",
        {
            "passage": 'Oslo won\n@highlight\nIt snowed.\n@highlight\n"Fine"\n@highlight\nEnd',
            "query": "@placeholder was proud of @placeholder .",
            "entities": ["Norway", "Oslo"],
            "answers": ["Oslo"],
            "idx": {"passage": 5, "query": 12},
        },
        "record query: @placeholder was proud of @placeholder . entities: Norway, Oslo "
        'passage: Oslo won. It snowed. "Fine" End',
        "Oslo",
    ),
    (
        "rte",
        {"premise": "All birds sing.", "hypothesis": "Some do.", "label": 0, "idx": 3},
        "rte hypothesis: Some do. premise: All birds sing.",
        "entailment",
    ),
    (
        "wic",
        {
            "word": "bank",
            "sentence1": "The bank lent it.",
            "sentence2": "A muddy bank.",
            "start1": 4,
            "end1": 8,
            "start2": 8,
            "end2": 12,
            "label": 0,
            "idx": 3,
        },
        "wic sentence1: The bank lent it. sentence2: A muddy bank. word: bank",
        "False",
    ),
    (
        "wsc",
        {
            "text": "Ann told Eva that she won , and she smiled. ",
            "span1_text": "Eva",
            "span1_index": 2,
            "span2_text": "she",
            "span2_index": 8,
            "label": 1,
            "idx": 3,
        },
        "wsc: Ann told Eva that she won , and *she* smiled. ",
        "Eva",
    ),
]
CASES = [
    (dataset, *case[1:])
    for task, cases in ((GLUE, GLUE_CASES), (SUPERGLUE, SUPERGLUE_CASES))
    for case in cases
    for dataset in [task.dataset(case[0])]
]


@pytest.mark.parametrize("split", ["train", "validation"])
@pytest.mark.parametrize(
    ("dataset", "row", "inputs", "targets"), CASES, ids=[case[0].tfds_name for case in CASES]
)
def test_text_is_t5s(dataset, row, inputs, targets, split):
    (example,) = dataset.to_examples(row, split)
    assert (example["inputs"], example["targets"]) == (inputs, targets)
    assert example.get("label") == (None if dataset.name in ("stsb", "record") else row["label"])


def test_every_part_has_a_case():
    assert {case[0].tfds_name for case in CASES} == {
        part.tfds_name for part in (*GLUE_PARTS, *SUPERGLUE_PARTS)
    }


# T5's own values, computed in 32 bits; 0.5 and 2.5 lie between two fifths, and go to the even one.
SIMILARITIES = "0 0.0, 0.5 0.4, 0.7 0.8, 1.1 1.2, 1.66 1.6, 2.5 2.4, 3.3 3.2, 3.8 3.8, 4.909 5.0"


@pytest.mark.parametrize("pair", SIMILARITIES.split(", "))
def test_similarity_is_rounded_to_fifths(pair):
    similarity, text = float(pair.split()[0]), pair.split()[1]
    stored = struct.unpack("f", struct.pack("f", similarity))[0]
    for value in (similarity, stored):
        row = {"sentence1": "", "sentence2": "", "label": value}
        assert stsb(row, "train")[0]["targets"] == text


def test_answers_to_a_question_share_a_group():
    def group(paragraph, question, answer):
        idx = {"paragraph": paragraph, "question": question, "answer": answer}
        row = {"paragraph": "", "question": "", "answer": "", "label": 0, "idx": idx}
        return multirc(row, "validation")[0]["group"]

    assert group(1, 12, 0) == group(1, 12, 1) == "1-12"
    assert group(11, 2, 0) == "11-2"


def test_record_has_an_example_per_answer_in_training_only():
    row = {"passage": "P", "query": "Q", "entities": ["a", "b", "c", "d"]}
    row |= {"answers": ["b", "c", "d"], "idx": {"passage": 4, "query": 9}}
    train, validation = record(row, "train"), record(row, "validation")
    assert [example["targets"] for example in train] == ["b", "c", "d"]
    assert [example["targets"] for example in validation] == ["b"]
    for example in (*train, *validation):
        assert example["answers"] == ["b", "c", "d"]
        assert example["group"] == "4-9"
        assert example["inputs"] == "record query: Q entities: a, b, c, d passage: P"


@pytest.mark.parametrize(
    ("passage", "text"),
    [
        ("Who?\n@highlight\nHe.", "Who? He."),
        ("a\n@highlight\n@highlight\nb", "a. @highlight\nb"),
        ("@highlight\nfirst", "@highlight\nfirst"),
        ("so \n@highlight \nit is", "so \n@highlight \nit is"),
        ("'tis'\n@highlight\n", "'tis' "),
    ],
)
def test_record_joins_highlights(passage, text):
    row = {"passage": passage, "query": "", "entities": [], "answers": ["x"]}
    row["idx"] = {"passage": 0, "query": 0}
    assert record(row, "train")[0]["inputs"] == f"record query:  entities:  passage: {text}"


def _winograd(text, pronoun, index, label=1):
    return {
        "text": text,
        "span1_text": "Max",
        "span2_text": pronoun,
        "span2_index": index,
        "label": label,
    }


def test_wrong_nouns_are_only_evaluated():
    row = _winograd("Max met Tim when he left.", "he", 4, label=0)
    assert wsc(row, "train") == []
    (example,) = wsc(row, "validation")
    assert example["label"] == 0
    assert example["targets"] == "Max"


@pytest.mark.parametrize(
    ("text", "pronoun", "index", "marked"),
    [
        ("Max  fell; he cried.", "he", 3, "Max  fell; *he* cried."),
        ("he saw he was", "he", 0, "*he* saw he was"),
        # Punctuation that sticks to the pronoun comes off, and the end of the text with it.
        ('"Poor him," he said. ', "him", 1, '"Poor *him* ," he said.'),
        # The index is off by one; another `it` is farther away.
        ("it is late to use it , Max", "it", 4, "it is late to use *it* , Max"),
        ("Max saw its end as it came", "it", 5, "Max saw its end as *it* came"),
    ],
)
def test_pronoun_is_marked(text, pronoun, index, marked):
    assert wsc(_winograd(text, pronoun, index), "train")[0]["inputs"] == f"wsc: {marked}"


def test_missing_pronoun_is_an_error():
    with pytest.raises(DataError, match="no word is the pronoun 'she'"):
        wsc(_winograd("Max met Tim.", "she", 1), "train")


@pytest.mark.parametrize("case", CASES, ids=[case[0].tfds_name for case in CASES])
def test_rows_without_a_label_are_errors(case):
    dataset, row, *_ = case
    unlabelled = row | ({"answers": []} if dataset.name == "record" else {"label": -1})
    for split in ("train", "validation"):
        with pytest.raises(DataError, match=r"label|answers"):
            dataset.to_examples(unlabelled, split)


def test_stand_ins_have_the_form_of_what_they_stand_for():
    (example,) = MOVIE_SENTIMENT.to_examples({"text": "Dull.", "label": 0}, "train")
    assert example == {"inputs": "sst2 sentence: Dull.", "targets": "negative", "label": 0}
    row = {"word": "dip", "sentence1": "a dip", "sentence2": "dip it", "label": 1}
    (example,) = WORDNET_WIC.to_examples(row, "test")
    inputs = "wic sentence1: a dip sentence2: dip it word: dip"
    assert example == {"inputs": inputs, "targets": "True", "label": 1}


@pytest.mark.parametrize("task", [GLUE, SUPERGLUE, EN_MIX], ids=lambda task: task.name)
def test_datasets_are_declared_consistently(task):
    names = [dataset.name for dataset in task.datasets]
    assert len(names) == len(set(names))
    assert task.datasets[0].stand_in
    for dataset in task.datasets:
        assert dataset.scored in dataset.split_of
        assert set(dataset.counts) == (set() if dataset.parts else set(dataset.split_of.values()))
        for part in dataset.parts:
            assert part in task.datasets
            assert part.stand_in == dataset.stand_in
            assert set(dataset.split_of) <= set(part.split_of)


def test_mixtures_hold_all_parts():
    assert GLUE.dataset("glue").parts == GLUE_PARTS
    assert SUPERGLUE.dataset("superglue").parts == SUPERGLUE_PARTS
    tfds_names = [part.tfds_name for part in EN_MIX.dataset("en_mix").parts]
    assert tfds_names == [part.tfds_name for part in (*GLUE_PARTS, *SUPERGLUE_PARTS)]
    assert EN_MIX.dataset("superglue_rte").tfds_name == "super_glue/rte"
    stand_ins = EN_MIX.dataset("sentiment_and_wic")
    assert stand_ins.parts == (MOVIE_SENTIMENT, WORDNET_WIC)
    assert (stand_ins.scored, stand_ins.stand_in) == ("test", True)


def test_mnli_can_be_scored_on_other_genres():
    split_of = GLUE.dataset("mnli").split_of
    assert split_of["validation"] == "validation_matched"
    assert split_of["validation_mismatched"] == "validation_mismatched"


def test_agnews_reads_title_and_description():
    row = {"title": "Rain", "description": "It rained.", "label": 3}
    (example,) = AGNEWS.datasets[0].to_examples(row, "train")
    assert example == {"inputs": "Rain It rained.", "label": 3}
    assert AGNEWS.labels[3] == "Sci/Tech"


def test_imdb_reads_text_as_it_is():
    for dataset in IMDB.datasets:
        (example,) = dataset.to_examples({"text": "Dull.<br />", "label": 1}, "train")
        assert example == {"inputs": "Dull.<br />", "label": 1}
    assert IMDB.labels[1] == "positive"
