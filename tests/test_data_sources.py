"""Tasks and the text behind them: what exists, what is missing, what is normalised."""

import pytest

from data.errors import DataError
from data.sources import TextSplit, open_split
from data.tasks import TASKS, get_task


def test_every_task_runs_on_embedded_text_and_on_a_real_set():
    for name, task in TASKS.items():
        assert get_task(name) is task
        assert [dataset.embedded for dataset in task.datasets] == [True, False]
        for dataset in task.datasets:
            assert set(dataset.split_of) == {"train", "validation", "test"}
            assert (dataset.input_feature is None) == (task.kind == "language_model")


def test_unknown_names_list_what_exists(tmp_path):
    with pytest.raises(DataError, match="no task 'wmt'; there are: wmt_ende, wmt_enfr, lm1b"):
        get_task("wmt")
    with pytest.raises(DataError, match="no data set 'x'; it has: docs_ende, wmt_t2t_translate"):
        get_task("wmt_ende").dataset("x")
    with pytest.raises(DataError, match="no split 'dev'; it has: train, validation, test"):
        open_split(get_task("lm1b").dataset("web_lm"), "dev", data_dir=tmp_path)


@pytest.mark.parametrize(("task", "name"), [("wmt_ende", "wmt_t2t_translate"), ("lm1b", "lm1b")])
def test_a_real_set_that_is_not_there_says_what_to_do(tmp_path, task, name):
    dataset = get_task(task).dataset(name)
    with pytest.raises(DataError) as error:
        open_split(dataset, "test", data_dir=tmp_path)
    message = str(error.value)
    for part in (dataset.tfds_name, str(tmp_path), "download_and_prepare", "scale=small"):
        assert part in message


def test_text_is_nfc_whether_it_was_bytes_or_not():
    rows = [{"en": "e\u0301".encode(), "de": "u\u0308 "}, {"en": b"", "de": "\n"}]
    split = TextSplit(rows, input_feature="en", target_feature="de", identity="test")
    assert len(split) == 2
    assert split[0] == {"inputs": "\u00e9", "targets": "\u00fc "}
    assert split.__getitems__([1, 0]) == [{"inputs": "", "targets": "\n"}, split[0]]


def test_bytes_that_are_not_utf8_are_replaced_and_their_lines_named():
    rows = [{"text": b"good"}, {"text": b"b\xe4d"}]
    split = TextSplit(rows, input_feature=None, target_feature="text", identity="test")
    assert split.__getitems__([0, 1, 1])[1] == {"targets": "b\ufffdd"}
    assert split.invalid == {1}
