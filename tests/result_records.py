"""Records to put in a store, and how to read the rendered tables back."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from synth import results
from synth.results import Record, append

ROOT = Path(__file__).parents[1]
BASE = Record(
    run="c0ffee", task="wmt_ende", variant="random", mix=None, scale="small", overrides={},
    seed=0, step=2000, dataset="docs_ende", split="test", n_items=1543,
    test_set_sha256="7a7fb12d368ccdc12439b510", metric="bleu", value=10.0,
    signature="tok:13a|version:2.6.0", settings={"beam": 4, "alpha": 0.6}, sums={},
    empty_outputs=0, params=3_456_000, versions={"jax": "0.10.2"}, commit="abc", dirty=False,
    device="cpu", date="2025-01-02T03:04:05+00:00", train_seconds=600.0, eval_seconds=9.0,
    command=["python", "train.py", "--config=a b"], eval_command="python eval.py --seed=0",
)  # fmt: skip
WMT14 = {
    "scale": "paper",
    "dataset": "wmt_t2t_translate",
    "n_items": 3003,
    "step": 250_000,
    "settings": {"beam": 4, "alpha": 0.6, "extra_length": 50},
}
LM1B = {"task": "lm1b", "dataset": "lm1b", "scale": "paper", "settings": {}, "n_items": 6075}


def make(**changes: Any) -> Record:
    return replace(BASE, **changes)


def render_pages(directory: Path, *records: Record) -> dict[str, str]:
    """Renders the records there: name of a file -> its text."""
    paper = directory / "paper.json"
    if not paper.exists():
        paper.write_bytes((ROOT / "results" / "paper.json").read_bytes())
    append(directory / "runs.jsonl", records)
    results.render(directory)
    files = (path for path in directory.rglob("*") if path.suffix in (".md", ".csv", ".tex"))
    return {path.name: path.read_text("utf-8") for path in files}


def paper_rows(table: str) -> list[dict[str, Any]]:
    return json.loads((ROOT / "results" / "paper.json").read_text("utf-8"))[table]["rows"]


def cells(page: str) -> list[list[str]]:
    """The rows of all tables of a page, headers and rules included, links taken off."""
    page = re.sub(r"\[([^\]]*)\]\(#[^)]*\)", r"\1", page)
    rows = [line for line in page.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row[1:-1].split("|")] for row in rows]


def row(page: str, label: str, line: str = "") -> list[str]:
    """The first row of that label; of tables in lines, that one of `paper`, `ours`, `Δ`."""
    found = [row for row in cells(page) if row[0] == label and line in ("", row[1])]
    assert found, f"no row {label!r} {line!r}"
    return found[0]
