"""Markdown pages of the tables, written from `paper.json` and `runs.jsonl` alone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from synth.files import write_text
from synth.results.figures import Table
from synth.results.paper_tables import LANGUAGE_MODEL, WMT
from synth.results.small_tables import small_tables
from synth.results.store import ResultsError, load

BEGIN = "<!-- results:begin -->"
END = "<!-- results:end -->"
NOTHING = "No run is in the store yet.\n"


def render(results_dir: Path, readme: Path | None = None) -> list[Path]:
    """Writes the pages, and the README's part between its markers; returns what changed.

    The same store gives the same bytes, and a file that would not change is not touched.
    """
    paper = _paper(results_dir)
    records = load(results_dir / "runs.jsonl")
    variants = [row["variant"] for row in paper["wmt_lm1b"]["rows"]]
    table_2 = [table.build(paper, records) for table in (WMT, LANGUAGE_MODEL)]
    small = small_tables(records, variants)
    pages = {
        results_dir / "wmt_lm1b.md": _page("WMT'14 and LM1B", table_2),
        results_dir / "small_wmt_lm1b.md": _page("WMT and LM1B tasks on small text", small),
    }
    if readme:
        pages[readme] = _with_results(readme, "\n".join(map(markdown, [*small, *table_2])))
    return [path for path, text in pages.items() if _write(path, text)]


def check(results_dir: Path) -> None:
    """Raises ResultsError if a figure could not be put into the tables of this directory."""
    _paper(results_dir)
    load(results_dir / "runs.jsonl")


def _paper(results_dir: Path) -> dict[str, Any]:
    path = results_dir / "paper.json"
    if not path.is_file():
        raise ResultsError(
            f"{results_dir} holds no paper.json, the figures of the paper; copy it there"
        )
    return json.loads(path.read_text("utf-8"))


def _page(title: str, tables: Sequence[Table]) -> str:
    body = "\n".join(map(markdown, tables)) or NOTHING
    return f"# {title}\n\nGenerated from `runs.jsonl` and `paper.json`; do not edit.\n\n{body}"


def markdown(table: Table) -> str:
    """A section: heading, what the table is, the table, its notes, and the commands folded away."""
    align = ["left", *["right"] * (len(table.header) - 1)]
    # Numbers stay the strings they are: one "-" would make tabulate reformat its whole column.
    grid = tabulate(
        [[cell.replace("|", "\\|") for cell in row] for row in table.rows],
        list(table.header),
        tablefmt="pipe",
        disable_numparse=True,
        colalign=align,
    )
    parts = [f"### {table.title}", table.intro, grid, "\n".join(f"- {n}" for n in table.notes)]
    if table.commands:
        block = "\n".join(("```sh", *table.commands, "```"))
        parts.append(f"<details><summary>Commands</summary>\n\n{block}\n\n</details>")
    return "\n\n".join(part for part in parts if part) + "\n"


def _with_results(readme: Path, body: str) -> str:
    text = readme.read_text("utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ResultsError(f"{readme} needs one {BEGIN} and, after it, one {END}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{body}\n{END}{rest.split(END)[1]}"


def _write(path: Path, text: str) -> bool:
    """Replaces the file unless it says this already; returns whether it did not."""
    if path.exists() and path.read_text("utf-8") == text:
        return False
    write_text(path, text)
    return True
