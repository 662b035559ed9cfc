"""TFDS' preparation of one data set: begun, gone on with after an interruption, its errors told."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.util
import os
import re
import shutil
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import requests
import tensorflow_datasets.public_api as tfds
from tensorflow_datasets.core.download import download_manager, extractor, util

from data import builders
from data.builders.local import quiet
from data.errors import DataError
from data.preparation import archives, progress
from data.tasks.task import Dataset

# Builders that TFDS finds only after the package of their category was imported.
_CATEGORY_OF = {
    "cnn_dailymail": "tensorflow_datasets.summarization",
    "glue": "tensorflow_datasets.text",
    "super_glue": "tensorflow_datasets.text",
    "wmt14_translate": "tensorflow_datasets.translate",
    "wmt_t2t_translate": "tensorflow_datasets.translate",
}

_MISSING_TENSORFLOW = (
    "{name} is prepared by a builder of TFDS that needs TensorFlow: "
    "pip install -r requirements-prepare.txt (training and evaluation do without)"
)


class Preparation:
    """One data set that is not on disk yet.

    Attributes:
      archives: what its builder reads, as far as TFDS downloads it.
    """

    def __init__(self, dataset: Dataset, *, data_dir: Path, manual_dir: Path):
        self._dataset = dataset
        self._download_dir = data_dir / "downloads"
        self._builder = _builder(dataset, data_dir)
        self._manual_dir = archives.folder_of(self._builder.name, manual_dir)
        # Archives of different sets share names (RTE.zip), and TFDS reuses what it unpacked by
        # name: every set has a folder of its own.
        set_name = Path(self._builder.info.full_name).parent  # without the version
        self._unpack_dir = self._download_dir / "extracted" / set_name
        with quiet():
            self.archives = archives.archives_of(
                self._builder, manual_dir=self._manual_dir, download_dir=self._download_dir
            )

    def archive_lines(self) -> list[str]:
        """The archives for people: what, and where it lies or that it is missing."""
        if not self.archives:  # builders of ours do not ask TFDS for what they find themselves
            return [f"all lie in {self._manual_dir}"]
        return [
            f"{'missing' if archive.path is None else f'lies in {archive.path.parent}'}: {archive}"
            for archive in self.archives
        ]

    def unpacked_bytes(self) -> int:
        """What an interrupted preparation unpacked already."""
        return progress.size_of(self._unpack_dir)

    def run(self) -> None:
        """Downloads, unpacks and writes the set as ArrayRecord."""
        with self._alone(), self._plain_errors():
            self.remove_leftovers()
            folders = [self._download_dir, Path(self._builder.data_dir).parent]
            with quiet(), progress.shown(folders):
                self._builder.download_and_prepare(
                    download_dir=self._download_dir,
                    download_config=tfds.download.DownloadConfig(
                        manual_dir=self._manual_dir,
                        extract_dir=self._unpack_dir,
                        try_download_gcs=False,
                    ),
                    file_format="array_record",
                )
        shutil.rmtree(self._unpack_dir, ignore_errors=True)

    def remove_leftovers(self) -> None:
        """Removes what a killed preparation of this very set was writing."""
        target = Path(self._builder.data_dir)
        written = re.compile(rf"incomplete\.[A-Z0-9]{{6}}_{re.escape(target.name)}")
        leftovers = [p for p in target.parent.glob("incomplete.*") if written.fullmatch(p.name)]
        leftovers += self._unpack_dir.glob("incomplete.*")
        leftovers += (self._download_dir / self._builder.name).glob("**/*.tmp.*")
        for path in sorted(leftovers):
            print(f"  removing what an interrupted preparation left: {path}", flush=True)
            shutil.rmtree(path)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Two processes would delete each other's half-written files."""
        self._download_dir.mkdir(parents=True, exist_ok=True)
        path = self._download_dir / f"{self._builder.name}.lock"
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DataError(
                    f"another process is preparing {self._builder.name} here: it holds {path}"
                ) from error
            except OSError as error:
                print(f"  no lock here ({error.strerror}): prepare this set in one process only")
            yield

    @contextlib.contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except download_manager.NonMatchingChecksumError as error:
            raise _wrong_checksum(str(error)) from error
        except (requests.RequestException, util.DownloadError) as error:
            missing = [archive for archive in self.archives if archive.path is None]
            why = f"a download failed ({_first_line(error)})"
            raise archives.unreachable(why, missing, self._manual_dir) from error
        except extractor.ExtractError as error:
            raise DataError(f"an archive is damaged: {_first_line(error)}") from error
        except (DataError, OSError):  # a full disk, say
            raise
        except Exception as error:
            raise self._unforeseen(error) from error

    def _unforeseen(self, error: Exception) -> DataError:
        """Of a builder that stumbled over what it read; where it did is worth keeping."""
        log = self._download_dir / f"{self._builder.name}.error.txt"
        log.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        what = f"{type(error).__name__}: {_first_line(error)}"
        return DataError(
            f"{self._dataset.name} cannot be prepared from these archives: {what} (more in {log})"
        )


def is_ours(dataset: Dataset) -> bool:
    """Whether the builder is one of data/builders, not of TFDS."""
    return _prefix(dataset) in builders.MODULES


def check_tensorflow(dataset: Dataset) -> None:
    """A `DataError` if TensorFlow is needed and not installed; it is not imported.

    All builders of TFDS itself need it: they unpack their archives with it.
    """
    if not is_ours(dataset) and importlib.util.find_spec("tensorflow") is None:
        raise DataError(_MISSING_TENSORFLOW.format(name=dataset.name))


def _prefix(dataset: Dataset) -> str:
    return dataset.tfds_name.partition("/")[0]


def _builder(dataset: Dataset, data_dir: Path) -> Any:
    prefix = _prefix(dataset)
    # TensorFlow tells of the machine's instructions on standard error otherwise.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with quiet():
            if module := builders.MODULES.get(prefix, _CATEGORY_OF.get(prefix)):
                importlib.import_module(module)
            return tfds.builder(dataset.tfds_name, data_dir=data_dir)
    except ImportError:
        check_tensorflow(dataset)
        raise


def _wrong_checksum(message: str) -> DataError:
    file = re.search(r"downloaded to (.+), has wrong checksum", message)
    hashes: Sequence[str] = re.findall(r"checksum='([0-9a-f]+)'", message)
    if file is None or len(hashes) != 2:
        return DataError(_first_line(message))
    return DataError(
        f"{file[1]} is not the archive that TFDS registered: it has sha256 {hashes[1]}, expected "
        f"{hashes[0]}. Delete it; where the server gives another file now, find the old one and "
        "put it into the manual directory"
    )


def _first_line(error: Any) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:500] if lines else ""
