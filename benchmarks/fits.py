"""Which rows of the paper fit which TPUs: every row compiled, none run.

python -m benchmarks.fits [--topologies=v5e-16,v3-8,v5p-64] --write=results/fits.md

Each row of a config's run card at scale=paper is compiled as `train.py --compile_for` does
(pip install -r requirements-tpu-check.txt), rows that are the same program once; a program takes
minutes. What is done is kept in results/fits.jsonl, with the versions that did it, and the page is
written after each: stopped, it goes on, and with --seconds it stops by itself. Delete that file
after a change of the model.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

from benchmarks import measure
from data import command, tasks
from synth import configuration, topologies
from synth.compile_for import compile_for
from synth.configuration import Config
from synth.errors import UserError
from synth.experiment import layout
from synth.files import write_text
from synth.variants import parse_variant

TOPOLOGIES = ("v5e-16", "v3-8", "v5p-64")
_PACKAGES = ("jax", "jaxlib", "flax", "libtpu")
_HEAD = """# Which rows fit which TPUs

The training step of every row, compiled for TPUs that were not there: what it takes of a device's
memory, and what it computes and moves. Memory, shapes and collectives are checked, speed is not.
"""
_TEXT = """{chips} chips, {devices} devices, {limit} of each for a program; the config as it is
(mesh data={devices}). Memory is that of the batch shape that takes most: arguments, temporaries and
code. Operations are XLA's count, which takes a loop's body once; collectives the bytes of the
arrays that are reduced or gathered, of a step and device. Rows that are one program are compiled
once, with XLA's least effort: a run's program may need an eighth more memory."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the paper: its config files, which give the same program, and its attention."""

    names: tuple[str, ...]
    config: Config
    key: str

    @property
    def label(self) -> str:
        return ", ".join(name.partition(":")[0] for name in self.names)


def main(argv: Sequence[str] | None = None, compile_row: Any = compile_for) -> int:
    """The command; returns the exit status."""
    flags = command.Flags(prog="benchmarks.fits", description=__doc__)
    flags.add_argument("--topologies", type=names, default=list(TOPOLOGIES))
    flags.add_argument("--store", type=Path, default=Path("results/fits.jsonl"))
    flags.add_argument("--write", metavar="PAGE", help="also write this page, after each row")
    flags.add_argument("--seconds", type=measure.positive, default=10**6, help="begin none later")
    args = flags.parse_args(argv)
    start = time.monotonic()
    # How long it may go on changes no figure.
    called = measure.called(
        flags, argparse.Namespace(**vars(args) | {"seconds": flags.get_default("seconds")})
    )
    rows, done = paper_rows(Path("configs")), read(args.store)

    def page() -> str:
        return "\n".join([_HEAD, *(section(called, t, rows, done) for t in args.topologies)])

    for name in args.topologies:
        for row in rows:
            place = f"{topologies.parse(name).name} {row.key}"
            if place not in done and time.monotonic() - start < args.seconds:
                print(f"{name}: {row.names[0]}", file=sys.stderr, flush=True)
                done[place] = summary(compile_row, row, name)
                append(args.store, place, done[place])
                jax.clear_caches()
                if args.write:
                    write_text(Path(args.write), page())
    print(page())
    if args.write:
        write_text(Path(args.write), page())
    return 0


def names(text: str) -> list[str]:
    """The type of a flag that takes topologies, separated by commas."""
    for name in text.split(","):
        topologies.parse(name)
    return text.split(",")


# --- Rows -----------------------------------------------------------------------------------------


def paper_rows(directory: Path) -> list[Row]:
    """The rows of all run cards, those that are one program together."""
    found: dict[str, Row] = {}
    for path in sorted(directory.glob("*.py")):
        if path.stem in ("__init__", "common"):
            continue
        for row in card_rows(path.read_text(encoding="utf-8")):
            config = configuration.canonical(configuration.load(f"{path}:{row}"))
            key, name = program_key(config), f"{path.stem}:{row}"
            others = found[key].names if key in found else ()
            found[key] = Row((*others, name), config, key)
    return list(found.values())


def card_rows(text: str) -> Iterator[str]:
    """The rows that a run card gives figures of, as after the colon of `--config`."""
    mix = ",mix=sum" if re.search(r":[a-z_+]+,mix=sum", text) else ""
    figures = re.search(r"The paper's figures.*?:\n\n(.*?)\n\n", text, flags=re.DOTALL)
    seen = set()
    for word in re.findall(r"[a-z_+]+(?= [\d.(])", figures[1] if figures else ""):
        try:
            variant = "+".join(parse_variant(word))
        except ValueError:
            continue
        if variant not in seen:
            seen.add(variant)
            yield variant + (mix if "+" in variant else "")


def program_key(config: Config) -> str:
    """The same for configs whose training steps are the same program."""
    task = tasks.get_task(config.data.task)
    shapes = layout(config, task)
    train = config.train
    parts = [
        task.kind,
        len(task.labels),
        config.data.vocab_size,
        config.model.to_dict(),
        config.sharding.to_dict(),
        [shapes.shapes(length) for length in shapes.training_lengths],
        [train.label_smoothing, train.loss_tokens, train.accumulate_steps],
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


# --- Figures --------------------------------------------------------------------------------------


def summary(compile_row: Callable[[Config, str], dict[str, Any]], row: Row, name: str) -> Any:
    """What the page says of a row on a topology."""
    try:
        report = compile_row(row.config, name)
    except UserError as error:
        return {"error": str(error)}
    worst = max(report["programs"], key=lambda program: program["memory"]["total"])
    moved = [traffic["bytes"] for traffic in worst.get("collectives", {}).values()]
    return {
        "total": worst["memory"]["total"],
        "temporaries": worst["memory"].get("temporaries", 0),
        "limit": report["memory_limit"],
        "fits": report["fits"],
        "flops": worst.get("flops"),
        "collectives": sum(moved),
        "rematerialised": sum(program["rematerialised"] for program in report["programs"]),
    }


def read(path: Path) -> dict[str, Any]:
    """What these versions compiled before, by topology and program."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line.pop("place"): line for line in lines if line["versions"] == versions()}


def versions() -> dict[str, str | None]:
    """Of what a figure may depend on."""
    return {name: measure.version(name) for name in _PACKAGES}


def append(path: Path, place: str, found: dict[str, Any]) -> None:
    """Adds a line to the store."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"place": place, "versions": versions(), **found}) + "\n")


def section(called: str, name: str, rows: Sequence[Row], done: dict[str, Any]) -> str:
    """The table of one topology; rows that are not compiled say so."""
    topology = topologies.parse(name)
    lines = []
    for row in rows:
        variant = row.names[0].partition(":")[2].removesuffix(",mix=sum")
        found = done.get(f"{topology.name} {row.key}", {"error": "not compiled"})
        lines.append((row.label, variant, *cells(found)))
    text = _TEXT.format(
        chips=topology.chips,
        devices=topology.device_count,
        limit=f"{topology.memory / topologies.GIB:.2f} GiB",
    )
    headers = ("config", "attention", "GiB", "fits", "GFLOP", "collectives, MB")
    return measure.section(name, called, text, headers, lines, left=2, packages=_PACKAGES)


def cells(found: dict[str, Any]) -> tuple[str, ...]:
    """A row's figures; an error stands in the second column."""
    if "error" in found:
        return "-", found["error"], "-", "-"
    return (
        f"{found['total'] / topologies.GIB:.2f}",
        ("yes" if found["fits"] else "NO") + (" (copies)" if found["rematerialised"] else ""),
        "-" if found["flops"] is None else f"{found['flops'] / 1e9:,.0f}",
        f"{found['collectives'] / 1e6:,.0f}",
    )


if __name__ == "__main__":
    measure.run("benchmarks.fits", main)
