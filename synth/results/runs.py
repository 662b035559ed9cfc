"""What run directories hold for a page: learning curves, and hypotheses beside one another.

Run directories are read as files, without the rest of the program: `run.json`, `metrics.jsonl` and
`eval/<split>-step<step>-....txt`, one hypothesis a line.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synth.results.figures import assignments
from synth.results.store import row_key

Points = Sequence[tuple[float, float]]  # (step, loss)
_OUTPUT = re.compile(r"(?P<split>[a-z_]+)-step(?P<step>\d+)(?P<how>.*)\.txt")


@dataclass(frozen=True)
class Curve:
    """The losses of one run. Curves of one `group` share a picture, those of one `row` a colour."""

    group: str
    row: str
    label: str
    train: Points
    validation: Points


@dataclass(frozen=True)
class Samples:
    """Some lines of a test set: for each the source, the reference, and a text of each run."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Text:
    """The lines of a split, in its order."""

    sources: Sequence[str]
    references: Sequence[str]


# (task, data set, split)
TextKey = tuple[str, str, str]


@dataclass(frozen=True)
class Collected:
    """What was found, and in `problems` what could not be used, a line each."""

    curves: Sequence[Curve]
    samples: Sequence[Samples]
    problems: Sequence[str]


@dataclass(frozen=True)
class _Run:
    path: Path
    task: str
    dataset: str
    row: str
    scale: str
    label: str


def collect(
    directories: Iterable[Path], texts: Mapping[TextKey, Text], count: int = 8
) -> Collected:
    """Curves of all runs in these run directories, and samples of those whose text is given.

    Args:
      directories: of runs; others are passed over.
      texts: the text that hypotheses were made of; a file of another number of lines is a problem.
      count: samples of each test set, spread evenly over it.
    """
    curves, problems = [], []
    outputs: dict[tuple[TextKey, str], list[tuple[str, list[str]]]] = {}
    for path in sorted(directories):
        if not (path / "run.json").is_file():
            continue
        try:
            run = _read_run(path)
            curves.append(_read_curve(run))
            for key, lines in _read_outputs(run).items():
                if key not in texts:
                    continue
                if len(lines) != len(texts[key].references):
                    told = f"{len(lines)} hypotheses for {len(texts[key].references)} lines"
                    problems.append(f"{path}: {told} of {', '.join(key)}")
                    continue
                outputs.setdefault((key, run.scale), []).append((run.label, lines))
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            problems.append(f"{path}: cannot be read: {error!r:.200}")
    samples = [
        _side_by_side(key, scale, texts[key], found, count)
        for (key, scale), found in sorted(outputs.items())
    ]
    order = sorted((c for c in curves if c.train or c.validation), key=lambda c: (c.group, c.label))
    return Collected(order, samples, problems)


def _read_run(path: Path) -> _Run:
    record = json.loads((path / "run.json").read_text("utf-8"))
    config: dict[str, Any] = record["config"]
    attention = config["model"]["attention"]
    row = row_key(attention["variant"], attention["mix"])
    # As in a record: where it lies and how often it logs make no other run of it.
    kept = ("model.", "optimizer.", "train.num_steps", "train.init_from", "data.dataset")
    overrides = {k: v for k, v in record["overrides"].items() if k.startswith(kept)}
    named = ("model.attention.variant", "model.attention.mix")
    extra = assignments({k: v for k, v in overrides.items() if k not in named})
    about = "; ".join([path.name, *extra])
    label = f"{row}, seed {config['seed']} ({about})"
    data = config["data"]
    return _Run(path, data["task"], data["dataset"], row, config["scale"], label)


def _read_curve(run: _Run) -> Curve:
    points: dict[str, list[tuple[float, float]]] = {"train/loss": [], "validation/loss": []}
    path = run.path / "metrics.jsonl"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            if number < len(lines):
                raise
            break  # cut off by a crash
        for name, found in points.items():
            if name in record and math.isfinite(record[name]):
                found.append((record["step"], record[name]))
    group = f"{run.task}, scale={run.scale}, on {run.dataset}"
    return Curve(group, run.row, run.label, points["train/loss"], points["validation/loss"])


def _read_outputs(run: _Run) -> dict[TextKey, list[str]]:
    """Of each split the hypotheses of the last step, and of its widest beam."""
    best: dict[str, tuple[tuple[int, int, str], Path]] = {}
    for path in sorted(run.path.glob("eval/*.txt")):
        if not (match := _OUTPUT.fullmatch(path.name)):
            continue
        beam = re.search(r"beam(\d+)", match["how"])
        rank = int(match["step"]), int(beam[1]) if beam else 0, path.name
        if match["split"] not in best or rank > best[match["split"]][0]:
            best[match["split"]] = rank, path
    return {
        # Not splitlines(): a hypothesis may hold other ends of lines.
        (run.task, run.dataset, split): path.read_text("utf-8").removesuffix("\n").split("\n")
        for split, (_, path) in best.items()
    }


def _side_by_side(
    key: TextKey, scale: str, text: Text, found: Sequence[tuple[str, list[str]]], count: int
) -> Samples:
    task, dataset, split = key
    last = len(text.references) - 1
    shown = min(count, last + 1)
    places = [round(i * last / max(shown - 1, 1)) for i in range(shown)]
    rows = [
        [text.sources[i], text.references[i], *(lines[i] for _, lines in found)] for i in places
    ]
    return Samples(
        f"{task}, scale={scale}, on {dataset} ({split})",
        ["source", "reference", *(label for label, _ in found)],
        rows,
    )
