"""The committed text as TFDS sets: prepared once, never half, never from other text."""

import gzip
import hashlib
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets.public_api as tfds

from data.batching import Layout
from data.builders import embedded, local
from data.builders.local import quiet
from data.errors import DataError
from data.pipelines import eval_batches, plan_windows
from data.report import fill_report
from data.rows import ScalarRows, open_rows
from data.sources import open_split, read_all
from data.tasks import get_task
from data.tokenizer import load_or_train

WEB_LM, LM1B = get_task("lm1b").datasets


def write_corpus(folder, lines_of):
    folder.mkdir(exist_ok=True)
    for split, lines in lines_of.items():
        with gzip.open(folder / f"web_lm.{split}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": line, "doc": "d"}) + "\n" for line in lines)


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "CORPORA", tmp_path / "corpora")
    lines_of = {"train": ["one", "tw\u00f6", "three"], "validation": ["four"], "test": ["five"]}
    write_corpus(tmp_path / "corpora", lines_of)
    return lines_of


def texts(split, data_dir):
    rows = open_split(WEB_LM, split, data_dir=data_dir)
    return [row["targets"] for row in rows.__getitems__(range(len(rows)))]


def test_lines_keep_their_order_and_the_second_call_prepares_nothing(corpus, tmp_path, capfd):
    for split, lines in corpus.items():
        assert texts(split, tmp_path / "data") == lines
    said = capfd.readouterr()
    assert said.err.count("preparing the embedded text web_lm") == 1
    assert said.out == ""
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["embedded_text"]


def test_other_text_is_prepared_again(corpus, tmp_path):
    before = open_split(WEB_LM, "train", data_dir=tmp_path / "data")
    write_corpus(tmp_path / "corpora", {"train": ["one", "two", "four"]})
    assert texts("train", tmp_path / "data") == ["one", "two", "four"]
    after = open_split(WEB_LM, "train", data_dir=tmp_path / "data")
    assert before.identity != after.identity


def test_a_killed_preparation_leaves_nothing_that_is_read(corpus, tmp_path, monkeypatch):
    def killed(make_builder, folder):
        (tmp_path / "data" / "preparing.left").mkdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(local, "_write", killed)
        embedded.prepare("web_lm", data_dir=tmp_path / "data")
    assert texts("train", tmp_path / "data") == corpus["train"]


def test_two_preparations_at_once_both_succeed(corpus, tmp_path, monkeypatch):
    write, data_dir = local._write, tmp_path / "data"

    def overtaken(make_builder, folder):
        monkeypatch.setattr(local, "_write", write)
        embedded.prepare("web_lm", data_dir=data_dir)  # the other process is faster
        write(make_builder, folder)

    monkeypatch.setattr(local, "_write", overtaken)
    embedded.prepare("web_lm", data_dir=data_dir)
    assert texts("train", data_dir) == corpus["train"]


def test_missing_files_are_named(corpus, tmp_path):
    (tmp_path / "corpora" / "web_lm.test.jsonl.gz").unlink()
    with pytest.raises(DataError, match=r"lacks .*web_lm\.test\.jsonl\.gz"):
        embedded.prepare("web_lm", data_dir=tmp_path)
    with pytest.raises(DataError, match="there are: docs_ende"):
        embedded.prepare("docs", data_dir=tmp_path)


def test_the_committed_text_becomes_full_batches(tmp_path):
    task = get_task("wmt_ende")
    dataset = task.dataset("docs_ende")
    train = open_split(dataset, "train", data_dir=tmp_path)
    tokenizer = load_or_train(task, dataset, vocab_size=4000, data_dir=tmp_path)
    assert len(train) == 32_667 and tokenizer.vocab_size == 4000
    assert load_or_train(task, dataset, vocab_size=4000, data_dir=tmp_path).hash == tokenizer.hash
    layout = Layout(
        kind="seq2seq",
        max_length=96,
        batch_tokens=2048,
        bucket_lengths=(16, 24, 36, 52, 96),
        batch_multiple=8,
    )
    windows = plan_windows(train, tokenizer, layout, window=4096, seed=0)
    report = fill_report(windows)
    assert report.fill["inputs"] > 0.6 and report.fill["targets"] > 0.7, report
    assert report.too_long < 0.01 * report.examples and report.empty == 0, report
    test = open_split(dataset, "test", data_dir=tmp_path)
    batches = eval_batches(list(read_all(test)), tokenizer, layout)
    assert sum(int((batch["index"] >= 0).sum()) for batch in batches) == len(test) == 1543


def as_real_set(data_dir, file_format):
    """Places the tiny corpus where the prepared shards of lm1b would be."""
    target = data_dir / "lm1b_shards" / "1.0.0"
    target.parent.mkdir(parents=True)
    embedded.prepare("web_lm", data_dir=data_dir).rename(target)
    info = target / "dataset_info.json"
    text = info.read_text()
    assert '"fileFormat": "array_record"' in text
    info.write_text(text.replace('"array_record"', f'"{file_format}"'))


def test_a_prepared_real_set_is_read_through_sub_splits(corpus, tmp_path):
    as_real_set(tmp_path / "data", "array_record")
    lm1b = replace(LM1B, split_of={"train": "train[1:3]", "test": "train[:1]"})
    train, test = (open_split(lm1b, split, data_dir=tmp_path / "data") for split in lm1b.split_of)
    assert train.__getitems__([1, 0]) == [{"targets": "three"}, {"targets": "tw\u00f6"}]
    assert len(test) == 1 and train.identity != test.identity


def test_a_real_set_in_another_format_is_refused(corpus, tmp_path):
    as_real_set(tmp_path / "data", "tfrecord")
    with pytest.raises(DataError, match=r"stored as tfrecord.*data\.prepare"):
        open_split(LM1B, "train", data_dir=tmp_path / "data")


@pytest.mark.parametrize("name", ["wordnet_wic", "docs_ende"])
def test_rows_read_quickly_are_those_of_tfds(name, data_dir):
    """Text and numbers, in the split and in a part of it."""
    builder: Any = tfds.builder_from_directory(embedded.prepare(name, data_dir=data_dir))
    for split in ("test", "test[5:9]"):
        quick, slow = open_rows(builder, split), builder.as_data_source(split=split)
        assert isinstance(quick, ScalarRows) and len(quick) == len(slow)
        places = [len(quick) - 1, 0, 2]
        expected = [dict(row) for row in slow.__getitems__(places)]
        assert [dict(row) for row in quick.__getitems__(places)] == expected


class Labelled(tfds.core.GeneratorBasedBuilder):
    """Features as the stock sets have them."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {
            "text": tfds.features.Text(),
            "label": tfds.features.ClassLabel(names=["no", "yes"]),
            "score": np.float32,
            "answers": tfds.features.Sequence(tfds.features.Text()),
        }
        if not self.nested:
            del features["answers"]
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"test": self._generate_examples()}

    def _generate_examples(self):
        for number in range(5):
            row = {"text": f"t{number}", "label": number % 2, "score": number / 8}
            yield number, row | ({"answers": ["a", "b"]} if self.nested else {})

    nested = False


@pytest.mark.parametrize("nested", [False, True])
def test_rows_of_stock_features_are_those_of_tfds(nested, tmp_path, monkeypatch):
    """Class labels go the quick way, lists do not."""
    monkeypatch.setattr(Labelled, "nested", nested)
    builder: Any = Labelled(data_dir=tmp_path, file_format="array_record")
    with quiet():
        builder.download_and_prepare()
    found, expected = open_rows(builder, "test"), builder.as_data_source(split="test")
    assert isinstance(found, ScalarRows) != nested
    for row, other in zip(found.__getitems__([3, 0]), expected.__getitems__([3, 0]), strict=True):
        assert row.keys() == other.keys()
        assert all(np.array_equal(row[name], other[name]) for name in row)


def test_the_committed_text_is_what_its_readme_says():
    """Lines and the hash of the unpacked text, of every file."""
    readme = (embedded.CORPORA / "README.md").read_text(encoding="utf-8")
    row = re.compile(r"^\| (\w+) \| (\w+) \| ([\d,]+) \|.*\| `([0-9a-f]{24})` \|$", re.MULTILINE)
    rows = {(corpus, split): (lines, sha) for corpus, split, lines, sha in row.findall(readme)}
    assert set(rows) == {(name, split) for name in embedded.FIELDS for split in embedded.SPLITS}
    for (corpus, split), (lines, sha) in rows.items():
        text = gzip.decompress(embedded.corpus_file(corpus, split).read_bytes())
        assert text.count(b"\n") == int(lines.replace(",", ""))
        assert hashlib.sha256(text).hexdigest().startswith(sha)
