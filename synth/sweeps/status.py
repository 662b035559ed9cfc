"""Where the runs of a sweep stand: how far, how fast, with which scores."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from synth.clock import duration
from synth.configuration import Config
from synth.results import significance
from synth.results.small_tables import ANY, TASKS
from synth.results.store import Record, load_lines
from synth.rundir import RunDir
from synth.sweeps.folder import Folder
from synth.sweeps.runs import Run
from synth.sweeps.states import DONE, RUNNING, WAITING, State

_REFRESH = 5.0  # seconds
_SHOWN = 3  # scores of a run in the table
_CLEAR = "\x1b[H\x1b[2J"


def entries(folder: Folder, runs: Sequence[Run], results: Path) -> list[dict[str, Any]]:
    """An entry for each run, JSON-able: its state, progress and scores."""
    records = [record for _, record in load_lines(results / "runs.jsonl")]
    jobs = folder.jobs()
    found = []
    for run in runs:
        workdir = RunDir(folder.workdir(run))
        num_steps = run.config().train.num_steps
        state = folder.state(run)
        entry: dict[str, Any] = {"name": run.name, "job": jobs.get(run.name, "")}
        entry |= dataclasses.asdict(state)
        entry |= {"step": None, "num_steps": num_steps}
        entry |= {"steps_per_second": None, "seconds_left": None, "scores": []}
        if workdir.exists():
            entry |= _progress(workdir, num_steps)
            entry["scores"] = _scores(workdir, run, state, records)
        found.append(entry)
    return found


def _progress(workdir: RunDir, num_steps: int) -> dict[str, Any]:
    """Of the lines that training has logged, the last two tell the rate."""
    lines = [line for line in workdir.read_metrics() if "seconds" in line["timing"]]
    if not lines:
        return {"step": 0}
    last = lines[-1]
    before = lines[-2] if len(lines) > 1 else {"step": 0, "timing": {"seconds": 0.0}}
    seconds = last["timing"]["seconds"] - before["timing"]["seconds"]
    rate = (last["step"] - before["step"]) / seconds if seconds > 0 else None
    left = (num_steps - last["step"]) / rate if rate else None
    return {"step": last["step"], "steps_per_second": rate, "seconds_left": left}


def _scores(
    workdir: RunDir, run: Run, state: State, records: Sequence[Record]
) -> list[dict[str, Any]]:
    """The run's figures that its table has columns for, in their order; the newest of each."""
    info = workdir.info()
    same = sorted((r for r in records if r.run == info.config_hash), key=lambda r: r.when)
    ours = [r for r in same if _is_of(r, workdir)]
    equal = [r for r in same if _was_found_again(r, info.config, state)]
    newest = {(r.metric, r.dataset, r.split): r for r in [*equal, *ours]}
    return [
        {"name": name, "value": r.value, "digits": metric.digits, "dataset": r.dataset}
        | {"split": r.split, "step": r.step}
        for name, metric in TASKS.get(run.task, ANY).items()
        for r in newest.values()
        if r.metric == metric.name
    ]


def _is_of(record: Record, workdir: RunDir) -> bool:
    """Whether it was made from this directory: other directories may hold the same run."""
    named = significance.workdir(record)
    return named is not None and Path(named).resolve() == workdir.path.resolve()


def _was_found_again(record: Record, config: Config, state: State) -> bool:
    """Whether a run that is scored must have found the same.

    The store says no figure twice: had the scoring of this run, in its config's settings, found
    another than the newest that was there, it would have added its own, which is shown instead.
    """
    if state.state != DONE or not state.ended or record.step != config.train.num_steps:
        return False
    usual = record.settings.items() <= config.decode.to_dict().items()
    return usual and record.when <= datetime.fromisoformat(state.ended)


def table(found: Sequence[dict[str, Any]]) -> str:
    """The entries for people, with a line of counts."""
    from tabulate import tabulate

    rows = [
        [
            entry["name"],
            entry["state"] + (f" ({entry['phase']})" if entry["state"] == RUNNING else ""),
            "" if entry["step"] is None else f"{entry['step']:,}/{entry['num_steps']:,}",
            _rate(entry),
            _left(entry),
            _score_cell(entry["scores"]),
            _note(entry),
        ]
        for entry in found
    ]
    header = ["run", "state", "step", "steps/s", "left", "scores", "note"]
    align = ["left", "left", "right", "right", "right", "left", "left"]
    counts = Counter(entry["state"] for entry in found)
    summary = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    grid = tabulate(
        rows, header, disable_numparse=True, colalign=align, maxcolwidths=[*[None] * 6, 60]
    )
    return f"{grid}\n\n{summary}"


def _rate(entry: dict[str, Any]) -> str:
    rate = entry["steps_per_second"]
    return "" if rate is None else f"{rate:.3g}"


def _left(entry: dict[str, Any]) -> str:
    running = entry["state"] == RUNNING and entry["phase"] == "train"
    return duration(entry["seconds_left"]) if running and entry["seconds_left"] else ""


def _score_cell(scores: Sequence[dict[str, Any]]) -> str:
    several = len({score["dataset"] for score in scores}) > 1
    shown = [
        f"{score['name']} {score['value']:.{score['digits']}f}"
        + (f" ({score['dataset']})" if several else "")
        for score in scores[:_SHOWN]
    ]
    return ", ".join(shown) + (", ..." if len(scores) > _SHOWN else "")


def _note(entry: dict[str, Any]) -> str:
    if entry["state"] == WAITING and entry["job"]:
        return f"job {entry['job']}; {entry['reason']}".removesuffix("; ")
    return entry["reason"]


def watch(folder: Folder, results: Path) -> None:
    """Prints the table again and again, until nothing waits or runs."""
    while True:
        found = entries(folder, folder.runs(), results)
        # In a file or a pipe the tables follow one another.
        print((_CLEAR if sys.stdout.isatty() else "") + table(found), flush=True)
        if not {entry["state"] for entry in found} & {WAITING, RUNNING}:
            return
        time.sleep(_REFRESH)
