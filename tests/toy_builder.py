"""A builder of TFDS with one archive to download, which needs no TensorFlow: for tests."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow_datasets.public_api as tfds
from tensorflow_datasets.core.download import checksums

from data.tasks.task import Dataset, Task, line

URL = "https://toys.example/files/toys.txt?version=2"
TEXT = "".join(
    f"toy {i} is {'red' if i % 3 else 'blue'} and costs {i * 7} cents\n" for i in range(90)
)


def before_row(number: int) -> None:
    """Called before each row is written; replaced by tests."""


class ToyRows(tfds.core.GeneratorBasedBuilder):
    """Lines of a text file, the last ten of them to test on."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        path = Path(os.fspath(dl_manager.download({"toys": URL})["toys"]))
        return {
            "train": self._generate_examples(path, slice(0, -10)),
            "test": self._generate_examples(path, slice(-10, None)),
        }

    def _generate_examples(self, path: Path, part: slice) -> Iterator[tuple[int, dict[str, str]]]:
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines()[part]):
            before_row(number)
            yield number, {"text": text}


def write(folder: Path, text: str = TEXT) -> Path:
    """Writes the archive into a folder and has TFDS expect it; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "toys.txt"
    path.write_text(text, encoding="utf-8")
    ToyRows.url_infos = {URL: checksums.compute_url_info(path)}
    return path


TOYS = Dataset(
    name="toys",
    tfds_name="toy_rows",
    split_of={"train": "train", "validation": "test", "test": "test"},
    to_examples=line("text"),
    counts={"train": 80, "test": 10},
    disk_gb=0.001,
    description="prices of toys",
    licence="none",
)
TASK = Task(name="toys", kind="language_model", metrics=("perplexity",), datasets=(TOYS,))
