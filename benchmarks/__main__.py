"""All benchmarks at their quickest, one after another, and one table of their ratios.

python -m benchmarks [--write=results/benchmarks.md] [--gpu]

About 5 minutes on 2 cores. Each is a process of its own, as when it is run alone; `--gpu` takes
the sizes that are worth a GPU, in bfloat16 where the benchmark has a choice.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tabulate import tabulate

from benchmarks import measure
from data import command

QUICK = {
    "attention": ["--lengths=256", "--masks=padding", "--rounds=3"],
    "train_step": ["--variants=vanilla,random,random+vanilla", "--plain=random+vanilla"],
    "decode": ["--variants=random,vanilla"],
    "startup": ["--warm_starts=1"],
    "data": ["--tasks=wmt_ende"],
}
GPU = {
    "attention": ["--lengths=256,1024", "--masks=padding,causal"],
    "train_step": ["--size=base", "--variants=vanilla,random,random+vanilla", "--plain=vanilla"],
    "decode": ["--size=base", "--variants=random,vanilla"],
}


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status: 1 if a benchmark failed."""
    flags = command.Flags(prog="benchmarks", description=__doc__)
    flags.add_argument("--write", metavar="PAGE", help="also put the sections into this page")
    flags.add_argument("--gpu", action="store_true")
    args = flags.parse_args(argv)
    failed, sections = [], []
    for name, settings in (GPU if args.gpu else QUICK).items():
        section = run(name, settings)
        if section is None:
            failed.append(name)
            continue
        sections.append(section)
        if args.write:
            measure.write(section, Path(args.write))
    rows = [row for section in sections for row in ratios(section)]
    headers = ("benchmark", "row", "ratio", "")
    print(tabulate(rows, headers, tablefmt="pipe", disable_numparse=True))
    for name in failed:
        print(f"benchmarks.{name} failed: run it alone", file=sys.stderr)
    return 1 if failed else 0


def run(name: str, settings: Sequence[str]) -> str | None:
    """The section that a benchmark prints; None if it fails."""
    start = time.monotonic()
    print(f"--- benchmarks.{name} {' '.join(settings)}", file=sys.stderr, flush=True)
    process = [sys.executable, "-m", f"benchmarks.{name}", *settings]
    done = subprocess.run(process, check=False, stdout=subprocess.PIPE, text=True)
    print(f"    {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return done.stdout if done.returncode == 0 else None


def ratios(section: str) -> Iterator[tuple[str, str, str, str]]:
    """(title, row, ratio, value) of every column of ratios; its header has a colon."""
    title, *lines = section.strip().splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    table = [cells for cells in table if len(cells) > 1]
    headers, alignment, *rows = table
    texts = sum(not mark.endswith(":") for mark in alignment)
    for cells in rows:
        for header, cell in zip(headers, cells, strict=True):
            if ":" in header and cell != "-":
                yield title.removeprefix("## "), ", ".join(cells[:texts]), header, cell


if __name__ == "__main__":
    measure.run("benchmarks", main)
