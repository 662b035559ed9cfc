"""Shows what a task's model learns from: text, token ids, lengths, how full the batches are.

python -m data.show wmt_ende --n 5
python -m data.show cnn_dailymail --split=test --plot=lengths.png

Everything is as the task's config says at --scale; histograms of the lengths are drawn, too.
"""

from __future__ import annotations

import argparse
import dataclasses
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data import batching, command, pipelines
from data.batching import Ids, Layout
from data.errors import DataError
from data.report import fill_report
from data.sources import Split, open_split
from data.tasks import TASKS, get_task
from data.tasks.task import Dataset, Example, Task
from data.tokenizer import Tokenizer, load_or_train

NAME = "data.show"
_MOST = 20_000  # examples whose lengths are looked at
_WIDTH = 100
_BARS = 12


@dataclasses.dataclass(frozen=True)
class View:
    """A split as a config sees it."""

    task: Task
    dataset: Dataset
    split_name: str
    split: Split
    tokenizer: Tokenizer
    layout: Layout
    window: int
    seed: int


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    args = _flags().parse_args(argv)
    if args.n < 0:
        raise DataError(f"--n={args.n} must be at least 0")
    if args.plot and (Path(args.plot).is_dir() or not Path(args.plot).suffix):
        raise DataError(f"--plot={args.plot} must be a file with an ending, as lengths.png")
    view = open_view(
        args.task,
        data_dir=args.data_dir,
        dataset=args.dataset,
        split=args.split,
        scale=args.scale,
    )
    print(_title(view), end="\n\n")
    for text in _examples(view, args.n):
        print(text, end="\n\n")
    lengths_of = _lengths(view)
    print(_summary(view, lengths_of), end="\n\n")
    for side, lengths_N in lengths_of.items():
        print(f"{side}, tokens", _bars(lengths_N, _limit(view, side)), sep="\n", end="\n\n")
    windows = pipelines.plan_windows(
        view.split, view.tokenizer, view.layout, window=view.window, seed=view.seed
    )
    print(f"as training batches: {fill_report(windows)}")
    plot = Path(args.plot or _default_plot(view, args.data_dir)).expanduser()
    _draw(view, lengths_of, plot)
    print(f"picture: {plot}")
    return 0


def _flags() -> argparse.ArgumentParser:
    flags = command.Flags(prog=NAME, description=__doc__)
    flags.add_argument("task", metavar="TASK", help=", ".join(TASKS))
    flags.add_argument("--n", type=int, default=5, help="how many examples are shown")
    flags.add_argument("--dataset", metavar="NAME", help="default: that of the config")
    flags.add_argument("--split", default="train", help="train, validation or test")
    flags.add_argument("--scale", help="of the config; default: small, or paper for want of it")
    flags.add_argument("--data_dir", metavar="DIR", default="cache/data", help="where data is kept")
    flags.add_argument("--plot", metavar="FILE", help="default: below DATA_DIR/pictures")
    return flags


def open_view(
    name: str,
    *,
    data_dir: str,
    dataset: str | None = None,
    split: str = "train",
    scale: str | None = None,
) -> View:
    """A split of a task as its config at `scale` sees it.

    Args:
      name: of the task.
      data_dir: where data is kept.
      dataset: its name; None takes that of the config.
      split: train, validation or test.
      scale: None takes small, or paper where the task has no stand-in.
    """
    task = get_task(name)
    stand_in = any(known.stand_in for known in task.datasets)
    config = command.config_of(name, scale or ("small" if stand_in else "paper"))
    chosen = task.dataset(dataset or config.data.dataset)
    return View(
        task=task,
        dataset=chosen,
        split_name=split,
        split=open_split(chosen, split, data_dir=data_dir),
        tokenizer=load_or_train(task, chosen, vocab_size=config.data.vocab_size, data_dir=data_dir),
        layout=batching.make_layout(
            task, max_length=config.model.max_length, data=config.data.to_dict()
        ),
        window=config.data.window,
        seed=config.seed,
    )


def _title(view: View) -> str:
    lines = [
        f"{view.task.name} ({view.task.kind}), data set {view.dataset.name}, {view.split_name}: "
        f"{len(view.split):,} examples",
        view.dataset.description,
        f"licence: {view.dataset.licence}",
        f"vocabulary: {view.tokenizer.vocab_size:,} pieces, {view.tokenizer.hash[:16]}",
    ]
    return "\n".join(lines)


def _examples(view: View, count: int) -> Iterator[str]:
    """Examples spread evenly over the split, as text and as tokens."""
    count = min(count, len(view.split))
    places = np.linspace(0, len(view.split) - 1, count, dtype=int).tolist()
    for place, example in zip(places, view.split.__getitems__(places), strict=True):
        yield "\n".join([f"--- example {place:,}", *_example_lines(view, example)])


def _example_lines(view: View, example: Example) -> Iterator[str]:
    for name, value in example.items():
        yield _paragraph(name, value)
    if "label" in example and view.task.labels:
        yield _paragraph("label is", view.task.labels[example["label"]])
    ids_of = batching.encode([example], view.tokenizer)
    if view.layout.kind == "span_corruption":
        rng = np.random.default_rng(0)
        lines = ids_of["targets"]
        ids_of = batching.corrupted(lines, view.layout, rng, view.tokenizer.sentinels)
    for side, (ids, *_) in ids_of.items():
        if view.layout.kind == "classification" and side == "targets":
            continue
        yield _paragraph(f"{side}, {len(ids)} tokens", " ".join(_pieces(view, ids)))
        yield _paragraph("ids", " ".join(map(str, ids)))


def _pieces(view: View, ids: Ids) -> list[str]:
    return [piece.replace("\n", "\\n") for piece in view.tokenizer.pieces(ids)]


def _paragraph(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    lines = text.split("\n")
    indent = " " * 4
    body = [_wrapped(line) for line in lines[:8]]
    more = [f"... {len(lines) - 8} more lines"] if len(lines) > 8 else []
    return f"{name}:\n" + textwrap.indent("\n".join(body + more), indent)


def _wrapped(line: str) -> str:
    """At most six lines of it, spaces as they are."""
    cut = line if len(line) <= 6 * _WIDTH else line[: 6 * _WIDTH] + " ..."
    return textwrap.fill(cut, _WIDTH - 4, break_on_hyphens=False, drop_whitespace=False)


def _lengths(view: View) -> dict[str, np.ndarray]:
    """Of each side the lengths in tokens, EOS counted, of examples spread over the split."""
    count = min(len(view.split), _MOST)
    places = np.linspace(0, len(view.split) - 1, count, dtype=int).tolist()
    ids_of = batching.encode(view.split.__getitems__(places), view.tokenizer)
    if view.layout.kind == "classification":
        del ids_of["targets"]
    return {side: batching.side_lengths_N(ids) for side, ids in ids_of.items()}


def _summary(view: View, lengths_of: dict[str, np.ndarray]) -> str:
    from tabulate import tabulate

    rows = []
    for side, lengths_N in lengths_of.items():
        quantiles = np.quantile(lengths_N, [0.1, 0.5, 0.9, 1.0]).round().astype(int)
        limit = _limit(view, side)
        beyond = "-" if limit is None else f"{(lengths_N > limit).mean():.1%}"
        rows.append((side, len(lengths_N), *quantiles.tolist(), limit or "-", beyond))
    headers = ("tokens", "examples", "10%", "median", "90%", "most", "limit", "longer")
    return tabulate(rows, headers, intfmt=",")


def _limit(view: View, side: str) -> int | None:
    """The most tokens that a side may have; documents for span corruption may have any number."""
    return None if view.layout.kind == "span_corruption" else view.layout.longest(side)


def _bars(lengths_N: np.ndarray, limit: int | None) -> str:
    """A histogram in text; the last bar holds all that is longer, too."""
    edges = _edges(lengths_N, limit, _BARS)
    counts, _ = np.histogram(np.minimum(lengths_N, edges[-1]), edges)
    widest = max(int(counts.max()), 1)
    return "\n".join(
        f"{int(low):>6}-{int(high) - 1:<6} {'#' * round(60 * count / widest):60s} {count:,}"
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    )


def _edges(lengths_N: np.ndarray, limit: int | None, bars: int) -> np.ndarray:
    """Borders of the bars: up to 1.5 times the limit, or where 1% are longer without one."""
    last = 1.5 * limit if limit else np.quantile(lengths_N, 0.99)
    last = min(int(lengths_N.max()) + 1, round(last))
    return np.unique(np.linspace(1, max(last, 2), bars + 1).astype(int))


def _default_plot(view: View, data_dir: str) -> Path:
    name = f"{view.task.name}-{view.dataset.name}-{view.split_name}-lengths.png"
    return Path(data_dir) / "pictures" / name


def _draw(view: View, lengths_of: dict[str, np.ndarray], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow, and needs no display
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * len(lengths_of), 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    for number, (side, lengths_N) in enumerate(lengths_of.items()):
        axes = figure.add_subplot(1, len(lengths_of), number + 1)
        limit = _limit(view, side)
        edges = _edges(lengths_N, limit, 40)
        axes.hist(np.minimum(lengths_N, edges[-1]), bins=edges.tolist(), color="tab:blue")
        axes.set(xlabel=f"{side}, tokens", ylabel="examples")
        if limit is not None:
            axes.axvline(limit, color="tab:red", linestyle="--", label=f"limit {limit}")
            axes.legend()
    figure.suptitle(f"{view.task.name}, {view.dataset.name}, {view.split_name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(path, dpi=120)
    except ValueError as error:  # an ending that matplotlib has no format for
        raise DataError(f"--plot={path}: {error}") from error


if __name__ == "__main__":
    command.run(NAME, main)
