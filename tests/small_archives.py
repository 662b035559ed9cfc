"""Small archives with the layout of the published ones, for the builders of TFDS itself.

`write(tfds_name, folder)` writes those of one set. The texts are invented; they hold what has
broken readers before: quotes, accents, tabs of a table, empty lines, rows without a label.
"""

import csv
import gzip
import hashlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import tensorflow_datasets.public_api as tfds
from small_files import lines, tar
from small_glue import GLUE, SUPERGLUE
from tensorflow_datasets.core.download import checksums

from data.preparation import building
from data.tasks.task import Dataset, line

# --- Translation ----------------------------------------------------------------------------------

WMT_TRAIN = {
    "europarl": [("Guten Tag.", "Good day."), ("Herr Präsident!", "Mr President!")],
    "commoncrawl": [("Er sagte: „ja“.", 'He said: "yes".'), ("", "left out: one side is empty")],
    "news": [("Zwei\tTabs", "two\ttabs"), ("Ende", "end")],
    "un": [("Artikel 1", "Article 1")],
    "giga": [("Größe 😀", "size 😀")],
}
WMT_VALIDATION = [("eins", "one"), ("zwei", "two"), ("drei", "three")]
WMT_TEST = [("vier & fünf", "four & five"), ("sechs", "six")]


def _sides(stem: str, pairs: Sequence[tuple[str, str]], language: str) -> dict[str, str]:
    return {
        f"{stem}.{language}": lines([pair[0] for pair in pairs]),
        f"{stem}.en": lines([pair[1] for pair in pairs]),
    }


def _sgm(sentences: Sequence[str]) -> str:
    segments = [f'<seg id="{i + 1}">{s}</seg>' for i, s in enumerate(sentences)]
    return lines(['<srcset setid="newstest2014">', '<doc docid="a">', "<p>", *segments, "</p>"])


def _wmt(folder: Path, language: str, news: str, news_path: str) -> None:
    pair = f"{language}-en"
    other = _sides("training/europarl-v7.cs-en", [("ano", "yes")], "cs")  # not to be read
    europarl = _sides(f"training/europarl-v7.{pair}", WMT_TRAIN["europarl"], language)
    tar(folder / "training-parallel-europarl-v7.tgz", europarl | other)
    crawl = _sides(f"commoncrawl.{pair}", WMT_TRAIN["commoncrawl"], language)
    tar(folder / "training-parallel-commoncrawl.tgz", crawl)
    tar(folder / news, _sides(f"{news_path}.{pair}", WMT_TRAIN["news"], language))
    stem = f"dev/newstest2014-{language}en"
    test = {
        f"{stem}-src.{language}.sgm": _sgm([pair[0] for pair in WMT_TEST]),
        f"{stem}-ref.en.sgm": _sgm([pair[1] for pair in WMT_TEST]),
    }
    tar(folder / "dev.tgz", _sides("dev/newstest2013", WMT_VALIDATION, language) | test)


def wmt_ende(folder: Path) -> None:
    """wmt_t2t_translate/de-en."""
    news = "training-parallel-nc-v13"
    _wmt(folder, "de", f"{news}.tgz", f"{news}/news-commentary-v13")


def wmt_enfr(folder: Path) -> None:
    """wmt14_translate/fr-en (the sentences are German all the same)."""
    _wmt(folder, "fr", "training-parallel-nc-v9.tgz", "training/news-commentary-v9")
    tar(
        folder / "training-parallel-un.tgz",
        _sides("un/undoc.2000.fr-en", WMT_TRAIN["un"], "fr"),
    )
    giga = _sides("giga-fren.release2.fixed", WMT_TRAIN["giga"], "fr")
    packed = {f"{name}.gz": gzip.compress(text.encode()) for name, text in giga.items()}
    tar(folder / "training-giga-fren.tar", packed)


# --- Summaries ------------------------------------------------------------------------------------

# split -> publisher -> URL -> article, highlights
STORIES = {
    "train": {
        "cnn": {"http://cnn.example/a": ("(CNN) -- It rained.", ["Rain fell", "All got wet"])},
        "dailymail": {"http://dm.example/b": ("The café “closed”.", ["Café shuts."])},
    },
    "val": {"cnn": {"http://cnn.example/c": ("Snow came.", ["Snow comes"])}, "dailymail": {}},
    "test": {"cnn": {}, "dailymail": {"http://dm.example/d": ("Sun shone.", ["Sun shines"])}},
}


def _story(article: str, highlights: Sequence[str]) -> str:
    return "\n\n".join([article, *(f"@highlight\n\n{highlight}" for highlight in highlights)])


def cnn_dailymail(folder: Path) -> None:
    """cnn_dailymail."""
    for publisher, archive in (("cnn", "cnn_stories.tgz"), ("dailymail", "dailymail_stories.tgz")):
        files = {
            f"{publisher}/stories/{hashlib.sha1(url.encode()).hexdigest()}.story": _story(*story)
            for split in STORIES.values()
            for url, story in split[publisher].items()
        }
        files[f"{publisher}/stories/{'0' * 40}.story"] = _story("In no list.", ["No list"])
        tar(folder / archive, files)
    for split, stories in STORIES.items():
        urls = [url for of_publisher in stories.values() for url in of_publisher]
        (folder / f"all_{split}.txt").write_text(lines(urls))


# --- Classification -------------------------------------------------------------------------------

# More than the 2,000 rows of which the tasks make their validation split.
AG_NEWS = [(1 + i % 4, f'Title "{i}"', f"Story, number {i}\\of many") for i in range(2003)]
IMDB = [(("neg", "pos")[i % 2], f"Review {i}<br />It was ¼ of a film.") for i in range(2003)]


def ag_news(folder: Path) -> None:
    """ag_news_subset."""

    def text(rows: Sequence[tuple[int, str, str]]) -> str:
        file = io.StringIO()
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
        return file.getvalue()

    files = {"train.csv": text(AG_NEWS), "test.csv": text(AG_NEWS[:5]), "readme.txt": "AG's"}
    packed = {f"ag_news_csv/{name}": content for name, content in files.items()}
    tar(folder / "ag_news_csv.tar.gz", packed)


def imdb(folder: Path) -> None:
    """imdb_reviews/plain_text."""
    train = {f"aclImdb/train/{label}/{i}_7.txt": text for i, (label, text) in enumerate(IMDB)}
    test = {f"aclImdb/test/{label}/{i}_7.txt": text for i, (label, text) in enumerate(IMDB[:4])}
    more = {"aclImdb/train/unsup/0_0.txt": "Unlabelled.", "aclImdb/README": "Cite it."}
    tar(folder / "aclImdb_v1.tar.gz", train | test | more)


# --- All of them ----------------------------------------------------------------------------------

WRITERS: dict[str, Callable[[Path], None]] = {
    "wmt_t2t_translate/de-en": wmt_ende,
    "wmt14_translate/fr-en": wmt_enfr,
    "cnn_dailymail": cnn_dailymail,
    "ag_news_subset": ag_news,
    "imdb_reviews/plain_text": imdb,
    **{f"glue/{name}": writer for name, writer in GLUE.items()},
    **{f"super_glue/{name}": writer for name, writer in SUPERGLUE.items()},
}


def write(tfds_name: str, folder: Path) -> Path:
    """Writes the archives of a set, under their published names; returns their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    WRITERS[tfds_name](folder)
    return folder


def register(patch: pytest.MonkeyPatch, tfds_name: str, folder: Path) -> None:
    """Has TFDS expect the files of a folder where it expects the published ones."""
    dataset = Dataset(
        name=tfds_name,
        tfds_name=tfds_name,
        split_of={},
        to_examples=line("text"),
        description="",
        licence="",
    )
    preparation = building.Preparation(dataset, data_dir=folder, manual_dir=folder)
    infos = {a.url: checksums.compute_url_info(folder / a.name) for a in preparation.archives}
    patch.setattr(tfds.builder_cls(tfds_name.partition("/")[0]), "url_infos", infos)
