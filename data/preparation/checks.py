"""What is said of a prepared data set: rows per split against what its makers publish."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from data.errors import DataError
from data.tasks.task import Dataset

WARNING = "WARNING"


def check_disk(data_dir: Path, needed_gb: float) -> str:
    """How much disk there is; a `DataError` if it is too little.

    Args:
      data_dir: where it is needed; it may not exist yet.
      needed_gb: what is still to be written there.
    """
    folder = data_dir.absolute()
    while not folder.exists():
        folder = folder.parent
    free_gb = shutil.disk_usage(folder).free / 1e9
    if not free_gb >= needed_gb:
        raise DataError(
            f"about {needed_gb:.1f} GB are needed and the file system of {data_dir} has "
            f"{free_gb:.1f} GB free: choose another --data_dir, or give --disk_gb=N if you know "
            "that it takes less"
        )
    return f"about {needed_gb:.1f} GB are needed at most, {free_gb:.1f} GB are free"


def count_lines(dataset: Dataset, found: Mapping[str, int]) -> list[str]:
    """A line per split that compares the rows found with those that are published."""
    lines = []
    for split in dict.fromkeys([*found, *dataset.counts]):
        rows, published = found.get(split, 0), dataset.counts.get(split)
        if published is None:
            verdict = "no count is published" if rows else f"{WARNING}: empty"
        elif rows == published:
            verdict = "as published"
        else:
            verdict = f"{WARNING}: {published:,} are published"
        lines.append(f"{split:<22} {rows:>13,}  {verdict}")
    return lines
