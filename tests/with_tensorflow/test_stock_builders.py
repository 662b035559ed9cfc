"""TFDS' own builders, from small archives with the published layout to examples of our tasks.

They need TensorFlow: `make test-prepare`. What is not shown here: that the archives on the servers
still have the registered hashes, and that the published files hold nothing that breaks a builder.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_archives
from expected import EXPECTED, by_text
from small_files import tar

from data import prepare, tokenizer
from data.errors import DataError
from data.preparation import archives
from data.sources import open_split, read_all
from data.tasks import TASKS, get_task
from data.tasks.task import Dataset, Example

pytestmark = [
    pytest.mark.tensorflow,
    # Of TensorFlow and what it imports.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.fixture(autouse=True)
def without_vocabulary(monkeypatch):
    """These texts are too short to learn one from; tests/test_prepare.py does."""

    class Learned:
        vocab_size = 300
        hash = "0" * 64

    monkeypatch.setattr(tokenizer, "load_or_train", lambda *args, **kwargs: Learned())


@pytest.fixture(autouse=True)
def without_network(monkeypatch):
    monkeypatch.setattr(archives, "_answers", lambda url: False)


@pytest.fixture
def small(tmp_path, monkeypatch) -> Callable[[str], Path]:
    """Writes the archives of a TFDS set and has TFDS expect them; returns their folder."""

    def small(tfds_name: str) -> Path:
        folder = small_archives.write(tfds_name, tmp_path / "archives")
        small_archives.register(monkeypatch, tfds_name, folder)
        return folder

    return small


def run(task: str, dataset: str, folder: Path, data_dir: Path) -> None:
    status = prepare.main(
        [
            task,
            f"--dataset={dataset}",
            f"--manual_dir={folder}",
            f"--data_dir={data_dir}",
            "--vocab_size=300",
            "--disk_gb=0.001",
        ]
    )
    assert status == 0


def examples(dataset: Dataset, split: str, data_dir: Path) -> list[Example]:
    """All of them, in an order that does not depend on TFDS' shuffling."""
    return by_text(read_all(open_split(dataset, split, data_dir=data_dir)))


@pytest.mark.parametrize(("task", "name"), EXPECTED)
def test_examples_of_a_set_that_was_prepared_from_archives(small, tmp_path, task, name):
    dataset = get_task(task).dataset(name)
    run(task, name, small(dataset.tfds_name), tmp_path / "data")
    found = {split: examples(dataset, split, tmp_path / "data") for split in dataset.split_of}
    assert found == EXPECTED[task, name]


def test_ag_news_is_split_into_training_and_validation(small, tmp_path):
    dataset = get_task("agnews").dataset("ag_news_subset")
    run("agnews", dataset.name, small(dataset.tfds_name), tmp_path / "data")
    train, validation, test = (examples(dataset, s, tmp_path / "data") for s in dataset.split_of)
    rows = [
        {"inputs": f"{title} {text}", "label": label - 1}
        for label, title, text in small_archives.AG_NEWS
    ]
    assert (len(train), len(validation)) == (3, 2000)
    assert by_text(train + validation) == by_text(rows)
    assert test == by_text(rows[:5])


def test_imdb_is_split_into_training_and_validation(small, tmp_path):
    dataset = get_task("imdb").dataset("imdb_reviews")
    run("imdb", dataset.name, small(dataset.tfds_name), tmp_path / "data")
    train, validation, test = (examples(dataset, s, tmp_path / "data") for s in dataset.split_of)
    rows = [
        {"inputs": text, "label": ("neg", "pos").index(label)}
        for label, text in small_archives.IMDB
    ]
    assert (len(train), len(validation)) == (3, 2000)
    assert by_text(train + validation) == by_text(rows)
    assert test == by_text(rows[:4])


def test_every_stock_builder_of_the_tasks_is_tested():
    from data.preparation import building

    def stock(dataset: Dataset) -> bool:
        own = dataset.stand_in or building.is_ours(dataset)
        return not own and not dataset.parts

    used = {d.tfds_name for task in TASKS.values() for d in task.datasets if stock(d)}
    assert used == set(small_archives.WRITERS)


def test_a_relative_data_dir(small, tmp_path, monkeypatch):
    dataset = get_task("wmt_ende").dataset("wmt_t2t_translate")
    folder = small(dataset.tfds_name)
    monkeypatch.chdir(tmp_path)
    run("wmt_ende", dataset.name, folder, Path("data"))
    assert len(examples(dataset, "test", tmp_path / "data")) == 2


def test_sets_whose_archives_share_a_name(tmp_path, monkeypatch):
    """RTE.zip is GLUE's and SuperGLUE's: each is found in its folder, neither hides the other."""
    for tfds_name in ("glue/rte", "super_glue/rte"):
        folder = small_archives.write(tfds_name, tmp_path / "archives" / tfds_name.split("/")[0])
        small_archives.register(monkeypatch, tfds_name, folder)
    for task in ("glue", "superglue"):
        run(task, "rte", tmp_path / "archives", tmp_path / "data")
        found = examples(get_task(task).dataset("rte"), "train", tmp_path / "data")
        assert found == EXPECTED[task, "rte"]["train"]


# --- Faults ---------------------------------------------------------------------------------------


def refused(folder: Path, data_dir: Path, task: str, name: str) -> str:
    with pytest.raises(DataError) as error:
        run(task, name, folder, data_dir)
    return str(error.value)


def ende(small: Callable[[str], Path]) -> Path:
    return small("wmt_t2t_translate/de-en")


def changed(folder: Path, monkeypatch: Any, files: dict[str, str | bytes]) -> Path:
    """News Commentary is published with other files."""
    path = folder / "training-parallel-nc-v13.tgz"
    stem = "training-parallel-nc-v13/news-commentary-v13.de-en"
    tar(path, {f"{stem}.{end}": content for end, content in files.items()})
    small_archives.register(monkeypatch, "wmt_t2t_translate/de-en", folder)
    return folder


ENDE = ("wmt_ende", "wmt_t2t_translate")


def test_a_missing_archive_is_named(small, tmp_path):
    folder = ende(small)
    (folder / "dev.tgz").unlink()
    message = refused(folder, tmp_path / "data", *ENDE)
    assert "dev.tgz" in message
    assert str(folder) in message
    assert "training-parallel" not in message


def test_an_archive_with_other_bytes_is_named_with_both_hashes(small, tmp_path):
    folder = ende(small)
    path = folder / "dev.tgz"
    right = archives.sha256(path)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    message = refused(folder, tmp_path / "data", *ENDE)
    for part in (str(path), right, archives.sha256(path)):
        assert part in message


def test_an_archive_that_was_cut_off_is_refused_before_the_work(small, tmp_path):
    folder = ende(small)
    path = folder / "dev.tgz"
    path.write_bytes(path.read_bytes()[:100])
    message = refused(folder, tmp_path / "data", *ENDE)
    assert str(path) in message
    assert "100 bytes" in message


def test_an_archive_that_is_published_damaged(small, tmp_path, monkeypatch):
    folder = ende(small)
    path = folder / "dev.tgz"
    path.write_bytes(path.read_bytes()[:100])
    small_archives.register(monkeypatch, "wmt_t2t_translate/de-en", folder)
    message = refused(folder, tmp_path / "data", *ENDE)
    assert "damaged" in message
    assert "dev.tgz" in message


def test_sides_of_unequal_length(small, tmp_path, monkeypatch):
    folder = changed(ende(small), monkeypatch, {"de": "eins\nzwei\n", "en": "one\n"})
    message = refused(folder, tmp_path / "data", *ENDE)
    assert "Sizes do not match: 3 vs 2" in message
    assert "news-commentary" in message


def test_text_that_is_not_utf8_is_refused_by_tfds(small, tmp_path, monkeypatch):
    folder = changed(ende(small), monkeypatch, {"de": b"Gr\xfc\xdfe\n", "en": "greetings\n"})
    message = refused(folder, tmp_path / "data", *ENDE)
    assert "UnicodeDecodeError" in message
    log = (tmp_path / "data/downloads/wmt_t2t_translate.error.txt").read_text()
    assert "read_sentences" in log


def test_text_that_is_not_utf8_and_is_kept_by_tfds(small, tmp_path, monkeypatch):
    folder = small("imdb_reviews/plain_text")
    files = {
        f"aclImdb/{split}/pos/{i}_9.txt": b"caf\xe9"
        for split in ("train", "test")
        for i in range(2001)
    }
    files["aclImdb/train/unsup/0_0.txt"] = b"Unlabelled."
    tar(folder / "aclImdb_v1.tar.gz", files)
    small_archives.register(monkeypatch, "imdb_reviews/plain_text", folder)
    run("imdb", "imdb_reviews", folder, tmp_path / "data")
    split = open_split(
        get_task("imdb").dataset("imdb_reviews"), "train", data_dir=tmp_path / "data"
    )
    assert split.__getitems__([0]) == [{"inputs": "caf\ufffd", "label": 1}]
    assert split.invalid == {0}


def test_an_empty_file_is_a_warning_about_the_counts(small, tmp_path, monkeypatch, capsys):
    folder = changed(ende(small), monkeypatch, {"de": "", "en": ""})
    run(*ENDE, folder, tmp_path / "data")
    out = capsys.readouterr().out
    assert "WARNING: 4,592,289 are published" in out
    assert out.endswith("done; WARNINGs above: 3\n")


def test_what_was_unpacked_is_removed_and_the_archives_are_kept(small, tmp_path):
    folder = ende(small)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    run(*ENDE, folder, tmp_path / "data")
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before
    extracted = tmp_path / "data" / "downloads" / "extracted"
    assert list(extracted.rglob("*.de")) == []
