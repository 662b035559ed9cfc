"""What all benchmarks share: time in turns, ratios of the same round, a section of the page.

Timings of one machine differ by more from minute to minute than two ways of doing a thing do.
So all ways are called in turns in one process, and a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import shlex
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

import jax
from tabulate import tabulate

from data import command
from data.errors import DataError
from synth import variants
from synth.errors import UserError

PAGE = Path("results/benchmarks.md")
VARIANTS = (
    "vanilla",
    *(name for name in variants.VARIANTS if name != "vanilla"),
    "random+vanilla",
    "dense+vanilla",
)
_HEADING = "# Benchmarks\n\nEach section is written by the command that it names.\n"

Seconds = dict[str, list[float]]


def timed(
    ways: Mapping[str, Callable[[], Any]], *, rounds: int, seconds: float = 0.0, warm: bool = True
) -> Seconds:
    """Seconds per call of each way in each round.

    Args:
      ways: what to call, by name; a jax result is waited for.
      rounds: how often every way has its turn.
      seconds: a turn calls its way again until so much time has passed, at least once.
      warm: calls each way once before the first round, so that nothing is compiled in it.
    """
    if warm:
        for call in ways.values():
            jax.block_until_ready(call())
    taken: Seconds = {name: [] for name in ways}
    for _ in range(rounds):
        for name, call in ways.items():
            calls, start = 0, time.perf_counter()
            while True:
                jax.block_until_ready(call())
                calls, passed = calls + 1, time.perf_counter() - start
                if passed >= seconds:
                    break
            taken[name].append(passed / calls)
    return taken


def ratio(taken: Seconds, name: str, base: str) -> float:
    """Time of `name` over that of `base`: the median of the ratios within each round."""
    pairs = zip(taken[name], taken[base], strict=True)
    return statistics.median(ours / theirs for ours, theirs in pairs)


def run(name: str, main: Callable[[], int]) -> NoReturn:
    """Runs a benchmark and ends the process; a user's mistake is one line on standard error."""

    def guarded() -> int:
        try:
            return main()
        except UserError as error:  # the library's; `command.run` knows those of `data`
            raise DataError(str(error)) from error

    command.run(name, guarded)


def some_of(*known: str) -> Callable[[str], list[str]]:
    """The type of a flag that takes some of these names, separated by commas."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names

    return parse


def attentions(text: str) -> list[str]:
    """The type of a flag that takes variants, separated by commas; `all`, or '' for none."""
    names = list(VARIANTS) if text == "all" else [name for name in text.split(",") if name]
    try:
        return ["+".join(variants.parse_variant(name)) for name in names]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive(text: str) -> int:
    """The type of a flag that takes a number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of at least 1")
    return int(text)


def positives(text: str) -> list[int]:
    """The type of a flag that takes such numbers, separated by commas."""
    return [positive(number) for number in text.split(",")]


def called(flags: argparse.ArgumentParser, args: argparse.Namespace) -> str:
    """The command that repeats a benchmark; where files of others lie is left to the reader."""
    parts = ["python", "-m", flags.prog]
    for name, value in vars(args).items():
        shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        if name == "write" or shown == str(flags.get_default(name)):
            continue
        shown = "DIR" if isinstance(value, Path) else shown
        parts.append(f"--{name}" if value is True else shlex.quote(f"--{name}={shown}"))
    return " ".join(parts)


def machine(*packages: str) -> str:
    """The machine, and the versions of Python and of those packages that are there."""
    devices = ""
    if jax.default_backend() != "cpu":
        devices = f", {jax.device_count()} x {jax.devices()[0].device_kind}"
    cores = len(os.sched_getaffinity(0))
    found = [f"{name} {number}" for name in packages if (number := version(name))]
    place = f"{platform.machine()}, {cores} cores{devices}, Python {platform.python_version()}"
    return "; ".join([place, ", ".join(found)] if found else [place])


def section(
    title: str,
    command: str,
    text: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: int = 1,
    packages: Sequence[str] = ("jax", "jaxlib", "flax"),
) -> str:
    """A section of the page: its heading, command, date and machine, an explanation and the table.

    Args:
      left: how many columns, from the first, are text and stand at the left.
    """
    table = tabulate(
        rows,
        headers,
        tablefmt="pipe",
        disable_numparse=True,
        colalign=["left"] * left + ["right"] * (len(headers) - left),
    )
    today = date.today().isoformat()
    lines = [f"## {title}", "", f"`{command}`, {today}: {machine(*packages)}.", text, "", table, ""]
    return "\n".join(lines)


def write(section_text: str, page: Path) -> None:
    """Puts the section in the place of the one with its title, or at the end of the page."""
    title = section_text.partition("\n")[0]
    page_text = page.read_text(encoding="utf-8") if page.exists() else _HEADING
    head, *sections = re.split(r"^(?=## )", page_text, flags=re.MULTILINE)
    by_title = {text.partition("\n")[0]: text.rstrip("\n") + "\n" for text in sections}
    by_title[title] = section_text.rstrip("\n") + "\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join([head.rstrip("\n") + "\n", *by_title.values()]), encoding="utf-8")


def version(package: str) -> str | None:
    """Of an installed package; None if it is not there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
