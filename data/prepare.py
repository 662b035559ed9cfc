"""Prepares a task's data sets and their vocabularies, once, for training to read.

python -m data.prepare wmt_ende --data_dir=cache/data --manual_dir=archives

Archives that lie in --manual_dir under their published names are used; others are downloaded.
Interrupted, it goes on when the same command is given again. What TFDS' own builders prepare needs
TensorFlow, once: pip install -r requirements-prepare.txt.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from data import command
from data.errors import DataError
from data.files import sha256
from data.tasks import TASKS, get_task
from data.tasks.task import Dataset, Task

if TYPE_CHECKING:  # imports tensorflow_datasets: slow
    from data.preparation.building import Preparation

NAME = "data.prepare"


@dataclasses.dataclass(frozen=True)
class Request:
    """What was asked for, checked.

    Attributes:
      task: whose data sets.
      datasets: those that get a vocabulary; the parts of a mixture are prepared with it.
      data_dir: where they are kept.
      manual_dir: where the user's archives lie.
      vocab_size: pieces of each vocabulary.
      disk_gb: what it takes by the user's reckoning; None: by ours.
      check: only look.
    """

    task: Task
    datasets: tuple[Dataset, ...]
    data_dir: Path
    manual_dir: Path
    vocab_size: int
    disk_gb: float | None
    check: bool


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    request = read_request(argv)
    leaves = list(_leaves(request.datasets))
    warnings = _prepare(leaves, request)
    if request.check:
        return 0
    for dataset in request.datasets:
        _make_vocabulary(dataset, request)
    _say(f"done; WARNINGs above: {warnings}" if warnings else "done")
    return 0


# --- What was asked for ---------------------------------------------------------------------------


def _flags() -> argparse.ArgumentParser:
    flags = command.Flags(prog=NAME, description=__doc__)
    flags.add_argument("task", metavar="TASK", help=", ".join(TASKS))
    flags.add_argument("--dataset", metavar="NAME", help="only this one; default: all real ones")
    flags.add_argument("--data_dir", metavar="DIR", default="cache/data", help="where it is kept")
    flags.add_argument(
        "--manual_dir", metavar="DIR", help="your archives; default: DATA_DIR/downloads/manual"
    )
    flags.add_argument(
        "--vocab_size", metavar="N", type=int, help="default: that of the task's config"
    )
    flags.add_argument("--scale", help="of that config; default: paper, small for a stand-in")
    flags.add_argument(
        "--disk_gb", metavar="N", type=float, help="what it takes, if you know better than we do"
    )
    flags.add_argument(
        "--check", action="store_true", help="only say what is there and what is missing"
    )
    return flags


def read_request(argv: Sequence[str] | None = None) -> Request:
    """The command line, checked; a `DataError` says what is wrong with it."""
    args = _flags().parse_args(argv)
    task = get_task(args.task)
    datasets = _chosen(task, args.dataset)
    data_dir = Path(args.data_dir).expanduser()
    manual_dir = Path(args.manual_dir or data_dir / "downloads" / "manual").expanduser()
    if args.manual_dir and not manual_dir.is_dir():
        raise DataError(f"--manual_dir={args.manual_dir} is no directory")
    if args.vocab_size is None:
        scale = args.scale or ("small" if datasets[0].stand_in else "paper")
        args.vocab_size = command.config_of(task.name, scale).data.vocab_size
    return Request(
        task=task,
        datasets=datasets,
        data_dir=data_dir,
        manual_dir=manual_dir,
        vocab_size=args.vocab_size,
        disk_gb=args.disk_gb,
        check=args.check,
    )


def _chosen(task: Task, name: str | None) -> tuple[Dataset, ...]:
    """The named data set, or all real ones but those that are a part of another."""
    if name is not None:
        return (task.dataset(name),)
    real = [dataset for dataset in task.datasets if not dataset.stand_in]
    parts = {part.name for dataset in real for part in dataset.parts}
    return tuple(dataset for dataset in real if dataset.name not in parts)


def _leaves(datasets: Iterable[Dataset]) -> Iterator[Dataset]:
    """The data sets that have rows on disk, each of them once; a mixture is its parts."""
    seen = set()
    for dataset in datasets:
        for leaf in _leaves(dataset.parts) if dataset.parts else [dataset]:
            if leaf.tfds_name not in seen:
                seen.add(leaf.tfds_name)
                yield leaf


# --- Data sets ------------------------------------------------------------------------------------


def _prepare(datasets: Sequence[Dataset], request: Request) -> int:
    """Prepares what is not there yet; returns how many counts differ from the published ones."""
    for dataset in datasets:
        _say(f"{dataset.name}: {dataset.description}", f"licence: {dataset.licence}")
    preparations = {d.name: p for d in datasets if (p := _preparation(d, request)) is not None}
    if preparations:
        _check([d for d in datasets if d.name in preparations], preparations, request)
    warnings = 0
    for dataset in datasets:
        if request.check and (dataset.stand_in or dataset.name in preparations):
            continue
        if dataset.name in preparations:
            _run(dataset, preparations[dataset.name], request)
        warnings += _tell_counts(dataset, request)
    return warnings


def _preparation(dataset: Dataset, request: Request) -> Preparation | None:
    """What is to be done for a data set, told; None if it is there or makes itself."""
    if dataset.stand_in:
        _say(f"{dataset.name}: a stand-in, made in seconds where it is not there yet")
        return None
    from data.preparation import building
    from data.sources import find_prepared

    if find_prepared(dataset, request.data_dir) is not None:
        _say(f"{dataset.name}: prepared already under {request.data_dir}")
        return None
    preparation = building.Preparation(
        dataset, data_dir=request.data_dir, manual_dir=request.manual_dir
    )
    _say(f"{dataset.name}: not prepared yet; its archives:", *preparation.archive_lines())
    return preparation


def _check(
    datasets: Sequence[Dataset], preparations: dict[str, Preparation], request: Request
) -> None:
    """Everything that can be known before the work: a `DataError` says what is wrong."""
    from data.preparation import archives, building, checks

    needed = [archive for p in preparations.values() for archive in p.archives]
    archives.check_sizes(needed)
    missing = list({archive.url: archive for archive in needed if archive.path is None}.values())
    archives.check_reachable(missing, request.manual_dir)
    needed_gb = _needed_gb(datasets, preparations.values(), request)
    _say(f"disk: {checks.check_disk(request.data_dir, needed_gb)}")
    for dataset in datasets:
        building.check_tensorflow(dataset)
    _say("nothing stands in the way")


def _needed_gb(
    datasets: Iterable[Dataset], preparations: Iterable[Preparation], request: Request
) -> float:
    """What is still to be written; archives and unpacked files that are there count as written."""
    if request.disk_gb is not None:
        return request.disk_gb
    preparations = list(preparations)
    there = {a.path for p in preparations for a in p.archives if a.path is not None}
    in_place = sum(path.stat().st_size for path in there)
    in_place += sum(preparation.unpacked_bytes() for preparation in preparations)
    return max(sum(dataset.disk_gb for dataset in datasets) - in_place / 1e9, 0.0)


def _run(dataset: Dataset, preparation: Preparation, request: Request) -> None:
    _say(f"{dataset.name}: preparing it under {request.data_dir}")
    try:
        preparation.run()
    except command.Stopped as stopped:
        stopped.note = (
            f"archives that were downloaded whole are kept in {request.data_dir}/downloads; "
            "to go on, give the same command again"
        )
        raise


def _tell_counts(dataset: Dataset, request: Request) -> int:
    """Prints the rows of each split; returns how many differ from what is published."""
    from data.preparation import checks
    from data.sources import open_builder, open_split

    for name in dataset.split_of:  # is every split there, and can it be read?
        text = open_split(dataset, name, data_dir=request.data_dir)
        text.__getitems__([0, len(text) - 1] if len(text) else [])
    splits = open_builder(dataset, request.data_dir).info.splits
    lines = checks.count_lines(
        dataset, {name: split.num_examples for name, split in splits.items()}
    )
    _say(f"{dataset.name}: its rows", *lines)
    return sum(checks.WARNING in line for line in lines)


# --- Vocabularies ---------------------------------------------------------------------------------


def _make_vocabulary(dataset: Dataset, request: Request) -> None:
    from data.tokenizer import load_or_train

    tokenizer = load_or_train(
        request.task, dataset, vocab_size=request.vocab_size, data_dir=request.data_dir
    )
    names = f"{request.task.name}-{dataset.name}-{request.vocab_size}-*.model"
    paths = (request.data_dir / "vocabularies").glob(names)
    _say(
        f"{dataset.name}: its vocabulary",
        f"{tokenizer.vocab_size:,} pieces, sha256 {tokenizer.hash}",
        *(f"kept in {path}" for path in paths if sha256(path) == tokenizer.hash),
    )


def _say(line: str, *details: str) -> None:
    """To standard output, and at once: the next step may take hours."""
    print("\n  ".join([line, *details]), flush=True)


if __name__ == "__main__":
    command.run(NAME, main)
