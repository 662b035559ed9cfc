"""What a sweep is asked for: the rows of a table of the paper, or of chosen configs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from synth import configuration
from synth.configuration import Config
from synth.errors import UserError
from synth.progress import say
from synth.results.declaration import is_ours
from synth.results.pages import PAPER_PAGES
from synth.results.sources import row_names
from synth.sweeps import assignments
from synth.sweeps.assignments import Assignment
from synth.sweeps.runs import Run, as_flag

_PAPER = Path(__file__).parents[2] / "results" / "paper.json"
_SCALES = ("paper", "small", "tiny")


@dataclasses.dataclass(frozen=True)
class Selection:
    """What the flags of sweep.py ask for: a table, or configs with variants.

    Attributes:
      table: of paper.json, or ''.
      configs: names of config files, without `configs/` and `.py`.
      variants: as in the tables, `random+vanilla` or `random+vanilla;mix=sum`.
      scale: of all rows.
      seeds: each row is run with each of them.
      assignments: values of --set, of which all combinations are run.
    """

    table: str = ""
    configs: Sequence[str] = ()
    variants: Sequence[str] = ()
    scale: str = "paper"
    seeds: Sequence[str] = ("0",)
    assignments: Sequence[Assignment] = ()


def expand(selection: Selection) -> list[Run]:
    """The runs of a selection, each once; says which rows of a table are left out.

    Raises:
      UserError: for what does not exist, naming what does, or if nothing is left.
    """
    _check(selection)
    runs: dict[str, Run] = {}
    for task, row in _rows(selection):
        for seed in selection.seeds:
            for run in _runs(selection, task, row, int(seed)):
                runs.setdefault(run.name, run)
    if not runs:
        raise UserError(f"--table={selection.table} has no row at scale={selection.scale}")
    return list(runs.values())


def _check(selection: Selection) -> None:
    if bool(selection.table) == bool(selection.configs or selection.variants):
        raise UserError(
            f"name a table of the paper, --table={'|'.join(PAPER_PAGES)}, or rows, "
            "--configs=wmt_ende,lm1b --variants=random,random+vanilla, and not both"
        )
    if not selection.table and not (selection.configs and selection.variants):
        raise UserError("--configs and --variants go together: --configs=lm1b --variants=random")
    if selection.table and selection.table not in PAPER_PAGES:
        raise UserError(f"no table {selection.table!r}; known: {', '.join(PAPER_PAGES)}")
    if selection.scale not in _SCALES:
        raise UserError(f"unknown scale {selection.scale!r}; known: {', '.join(_SCALES)}")
    for seed in selection.seeds:
        if not seed.isdecimal():
            raise UserError(f"--seeds: {seed!r} must be a number of at least 0, as 0,1,2")
    if not selection.seeds:
        raise UserError("--seeds must name a seed, as 0,1,2")
    files = Path("configs").glob("*.py")
    known = sorted(path.stem for path in files if path.stem not in ("__init__", "common"))
    for task in selection.configs:
        if task not in known:
            raise UserError(f"no config {task!r}; known: {', '.join(known) or 'none here'}")


def _rows(selection: Selection) -> Iterable[tuple[str, str]]:
    if not selection.table:
        return ((task, row) for task in selection.configs for row in selection.variants)
    return _table_rows(selection.table, selection.scale)


def _table_rows(name: str, scale: str) -> list[tuple[str, str]]:
    """(task, row) of what can be run of a table; of tasks that fill one column, the first."""
    paper = json.loads(_PAPER.read_text(encoding="utf-8"))
    rows: dict[tuple[str, str], None] = {}
    left_out: dict[str, str] = {}  # model or task -> why
    for table in PAPER_PAGES[name][1]:
        for row in paper[table.rows]["rows"]:
            if not is_ours(row["variant"]):
                left_out[row["label"]] = "not implemented here"
                continue
            named = row_names(row["variant"], table.mixes)[0]
            for family in table.families:
                try:
                    _named_config(family.tasks[0], named, scale, 0)
                except UserError as error:
                    left_out.setdefault(family.tasks[0], str(error))
                else:
                    rows[family.tasks[0], named] = None
    for name, reason in left_out.items():
        say(f"left out: {name}: {reason}")
    return list(rows)


def _named_config(task: str, row: str, scale: str, seed: int) -> Config:
    return configuration.canonical(configuration.load(Run(task, row, scale, seed).config_name))


def _runs(selection: Selection, task: str, row: str, seed: int) -> Iterator[Run]:
    config = _named_config(task, row, selection.scale, seed)
    attention = config.model.attention
    for overrides in assignments.products(selection.assignments, config):
        yield Run.make(task, attention.variant, attention.mix, selection.scale, seed, overrides)


def flags_of(run: Run) -> list[str]:
    """The flags of sweep.py that ask for this run alone, so that it can be started elsewhere."""
    flags = [
        f"--configs={run.task}",
        f"--variants={run.row}",
        f"--scale={run.scale}",
        f"--seeds={run.seed}",
    ]
    for key, value in sorted(run.overrides.items()):
        # Quoted, for a text may hold commas, at which values part.
        text = f"'{value}'" if isinstance(value, str) else as_flag(value)
        flags.append(f"--set=config.{key}={text}")
    return flags
