"""Tasks and the text behind them: what exists, what is missing, what is normalised."""

import dataclasses
import shutil

import numpy as np
import pytest

from data.errors import DataError
from data.sources import TextSplit, open_split, read_all
from data.tasks import TASKS, get_task
from data.tasks.task import Dataset, labelled, line, mixture, pair

NO_STAND_IN = {"agnews"}
DATASETS = [(task, dataset) for task in TASKS.values() for dataset in task.datasets]


def test_every_task_has_a_real_set_and_all_but_one_a_stand_in():
    for name, task in TASKS.items():
        assert get_task(name) is task
        stand_ins = [dataset.stand_in for dataset in task.datasets]
        assert stand_ins == sorted(stand_ins, reverse=True)  # they come first
        assert not all(stand_ins) and any(stand_ins) == (name not in NO_STAND_IN)
        names = [dataset.name for dataset in task.datasets]
        assert len(set(names)) == len(names)
        assert bool(task.labels) == (task.kind == "classification")


@pytest.mark.parametrize(("task", "dataset"), DATASETS, ids=lambda value: value.name)
def test_every_declaration_is_whole(task, dataset):
    assert {"train", "validation", dataset.scored} <= set(dataset.split_of)
    assert bool(dataset.tfds_name) != bool(dataset.parts)
    assert dataset.description and dataset.licence and dataset.disk_gb > 0
    for part in dataset.parts:
        assert part.name in {other.name for other in task.datasets}


@pytest.mark.parametrize(
    ("task", "dataset"),
    [(t, d) for t, d in DATASETS if d.stand_in and d.name != "chitchat"],
    ids=lambda value: value.name,
)
def test_every_embedded_text_gives_examples_of_its_kind(task, dataset, data_dir):
    keys = {
        "seq2seq": {"inputs", "targets"},
        "language_model": {"targets"},
        "span_corruption": {"targets"},
        "classification": {"inputs", "label"},
    }[task.kind]
    for split in dataset.split_of:
        text = open_split(dataset, split, data_dir=data_dir)
        assert len(text) > 100
        for example in text.__getitems__([0, len(text) // 2, len(text) - 1]):
            assert keys <= example.keys()
            assert all(example[key].strip() for key in keys - {"label"})
            if task.kind == "classification":
                assert 0 <= example["label"] < len(task.labels)


def test_unknown_names_list_what_exists(tmp_path):
    with pytest.raises(DataError, match="no task 'wmt'; there are: wmt_ende, wmt_enfr, lm1b"):
        get_task("wmt")
    with pytest.raises(DataError, match="no data set 'x'; it has: docs_ende, wmt_t2t_translate"):
        get_task("wmt_ende").dataset("x")
    with pytest.raises(DataError, match="no split 'dev'; it has: train, validation, test"):
        open_split(get_task("lm1b").dataset("web_lm"), "dev", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("task", "dataset"),
    [(t, d) for t, d in DATASETS if not d.stand_in],
    ids=lambda value: value.name,
)
def test_a_real_set_that_is_not_there_says_what_to_do(tmp_path, task, dataset):
    with pytest.raises(DataError) as error:
        open_split(dataset, "train", data_dir=tmp_path)
    message = str(error.value)
    missing = dataset.parts[0] if dataset.parts else dataset
    first = next(t for t in TASKS.values() if missing in t.datasets)
    prepare = f"data.prepare {first.name} --dataset={missing.name} --data_dir={tmp_path}"
    for part in (missing.tfds_name, str(tmp_path), prepare):
        assert part in message
    # Only where there is such text.
    assert ("scale=small" in message) == (task.name not in NO_STAND_IN)


def test_text_is_nfc_whether_it_was_bytes_or_not():
    rows = [{"en": "e\u0301".encode(), "de": "u\u0308 "}, {"en": b"", "de": "\n"}]
    split = TextSplit(rows, pair("en", "de"), identity="test")
    assert len(split) == 2
    assert split[0] == {"inputs": "\u00e9", "targets": "\u00fc "}
    assert split.__getitems__([1, 0]) == [{"inputs": "", "targets": "\n"}, split[0]]


def test_bytes_that_are_not_utf8_are_replaced_and_their_rows_named():
    rows = [{"text": b"good"}, {"text": b"b\xe4d"}]
    split = TextSplit(rows, line("text"), identity="test")
    assert split.__getitems__([0, 1, 1])[1] == {"targets": "b\ufffdd"}
    assert split.invalid == {1}


def test_numbers_lists_and_mappings_become_plain():
    row = {
        "label": np.int64(1),
        "score": np.float32(0.5),
        "answers": np.array([b"e\xcc\x81", b"b"], object),
        "idx": {"query": np.int32(3), "names": [b"x"]},
    }
    split = TextSplit([row], lambda row, split: [dict(row)], identity="test")
    found = split[0]
    assert found == {
        "label": 1,
        "score": 0.5,
        "answers": ["\u00e9", "b"],
        "idx": {"query": 3, "names": ["x"]},
    }
    assert type(found["label"]) is int and type(found["idx"]["query"]) is int


def one_per_answer(row, split):
    answers = row["answers"] if split == "train" else row["answers"][:1]
    return [{"inputs": row["q"], "targets": answer} for answer in answers]


def test_a_row_may_be_no_example_or_many():
    counts = [2, 0, 3, 1, 0, 0, 1]
    rows = [
        {"q": f"q{n}", "answers": [f"{n}.{k}" for k in range(count)]}
        for n, count in enumerate(counts)
    ]
    train, test = (
        TextSplit(rows, one_per_answer, split=split, identity="test", one_to_one=False)
        for split in ("train", "test")
    )
    expected = [(f"q{n}", f"{n}.{k}") for n, count in enumerate(counts) for k in range(count)]
    assert len(train) == sum(counts) and len(test) == 4
    assert [(e["inputs"], e["targets"]) for e in read_all(train)] == expected
    some = [5, 0, 6, 3, 3]
    found = train.__getitems__(some)
    assert [(e["inputs"], e["targets"]) for e in found] == [expected[i] for i in some]
    assert [e["targets"] for e in read_all(test)] == ["0.0", "2.0", "3.0", "6.0"]


def test_a_mixture_holds_every_example_of_its_parts_once(data_dir):
    parts = [get_task("glue").dataset("movie_sentiment"), get_task("lm1b").dataset("web_lm")]
    joined = open_split(mixture("both", parts, description="two"), "validation", data_dir=data_dir)
    alone = [open_split(part, "validation", data_dir=data_dir) for part in parts]
    assert len(joined) == sum(map(len, alone))
    assert list(read_all(joined)) == [e for part in alone for e in read_all(part)]
    border = len(alone[0])
    assert joined.__getitems__([border, 0, border - 1]) == [
        alone[1].__getitems__([0])[0],
        *alone[0].__getitems__([0, border - 1]),
    ]
    assert all(part.identity in joined.identity for part in alone)


def test_a_mixture_counts_the_bad_rows_of_all_its_parts():
    """Also those of its later parts."""
    rows = [{"t": b"a", "l": 0}, {"t": b"\xff", "l": 1}]

    from data.sources import _Joined

    parts = [TextSplit(rows, labelled("t", "l"), identity=str(n)) for n in range(2)]
    joined = _Joined(parts)
    assert [e["label"] for e in read_all(joined)] == [0, 1, 0, 1]
    assert joined.invalid == {(0, 1), (1, 1)}


def test_declarations_are_frozen():
    dataset = get_task("imdb").datasets[0]
    with pytest.raises(AttributeError):
        dataset.name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(dataset, Dataset)


def test_slices_that_are_not_there_and_damaged_sets_are_told(tmp_path):
    """Not as the errors of what reads them."""
    web_lm = get_task("lm1b").datasets[0]
    beyond = dataclasses.replace(web_lm, split_of={"test": "test[2000:999999]"})
    with pytest.raises(DataError, match=r"the test split of web_lm is 'test\[2000:999999\]'"):
        open_split(beyond, "test", data_dir=tmp_path)
    real = get_task("lm1b").dataset("lm1b")
    target = tmp_path / "lm1b_shards" / "1.0.0"
    target.parent.mkdir()
    shutil.copytree(next((tmp_path / "embedded_text").glob("web_lm-*/1.0.0")), target)
    assert len(open_split(real, "test", data_dir=tmp_path)) == 2556
    (record,) = target.glob("*-test.array_record*")
    record.write_bytes(record.read_bytes()[:2000])
    with pytest.raises(DataError, match="remove its folder and prepare it again"):
        list(read_all(open_split(real, "test", data_dir=tmp_path)))
    (target / "dataset_info.json").write_text("{")
    with pytest.raises(DataError, match=r"holds no whole data set .* remove that folder"):
        open_split(real, "test", data_dir=tmp_path)
