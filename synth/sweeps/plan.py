"""What a sweep would do: its runs, their commands, what they cost and where they stand."""

from __future__ import annotations

import json
import shlex
from typing import Any

from synth.sweeps.execution import Sweep
from synth.sweeps.runs import EVAL, TRAIN, Commands


def entries(sweep: Sweep, commands: Commands, flops_per_second: float | None) -> list[dict]:
    """An entry for each run, JSON-able."""
    from synth import describe  # brings JAX's libraries

    sizes: dict[str, int] = {}
    found = []
    for run in sweep.runs:
        config = run.config()
        # Runs of one model, of other seeds or learning rates, are laid out once.
        model = json.dumps([run.task, config.model.to_dict(), config.data.vocab_size])
        if model not in sizes:
            sizes[model] = describe.trained_parameters(config)
        flop = describe.training_operations(config)
        state = sweep.folder.state(run)
        phases = (TRAIN, EVAL) if sweep.evaluate else (TRAIN,)
        seconds = {"seconds": flop / flops_per_second} if flops_per_second else {}
        entry = {
            "name": run.name,
            "config": run.config_name,
            "overrides": dict(run.overrides),
            "workdir": str(sweep.folder.workdir(run)),
            "commands": [shlex.join(commands.shown(run, phase)) for phase in phases],
            "parameters": sizes[model],
            "flop": flop,
            "state": state.state,
            "reason": state.reason,
        }
        found.append(entry | seconds)
    return found


def table(found: list[dict[str, Any]]) -> str:
    """The entries for people: a table, then the commands."""
    from tabulate import tabulate

    rows = [[entry["name"], *_cells(entry), entry["state"]] for entry in found]
    total = {key: sum(e[key] for e in found) for key in ("flop", "seconds") if key in found[0]}
    rows.append([f"{len(found)} runs", *_cells({"parameters": None} | total), ""])
    cost = ["FLOP", "hours"] if "seconds" in total else ["FLOP"]
    header = ["run", "parameters (M)", *cost, "state"]
    grid = tabulate(
        rows, header, disable_numparse=True, colalign=["left", *["right"] * (len(cost) + 1), "left"]
    )
    lines = [line for entry in found for line in entry["commands"]]
    note = "FLOP: of training on full batches, at most; evaluation is not counted."
    return "\n".join([grid, "", note, "", *lines])


def _cells(entry: dict[str, Any]) -> list[str]:
    size = entry["parameters"]
    cells = ["" if size is None else f"{size / 1e6:.2f}", f"{entry['flop']:.2g}"]
    return cells + ([f"{entry['seconds'] / 3600:.1f}"] if "seconds" in entry else [])
