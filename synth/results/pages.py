"""The pages and files of the tables, written from `paper.json` and `runs.jsonl` alone."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from synth.files import write_text
from synth.results import consistency
from synth.results.declaration import PaperTable
from synth.results.figures import Table
from synth.results.html import write_page
from synth.results.paper_tables import C4, ENCODER_ONLY, LANGUAGE_MODEL, REPLIES, SUMMARIES, WMT
from synth.results.runs import Text, TextKey, collect
from synth.results.small_tables import small_tables
from synth.results.store import Record, ResultsError, load
from synth.results.understanding_tables import GLUE, NARANG, SUPERGLUE
from synth.results.writers import latex, markdown, to_csv

BEGIN = "<!-- results:begin -->"
END = "<!-- results:end -->"
NOTHING = "No run is in the store yet.\n"

# Name of a page -> its title and tables. The tables of the first one stand in the README, too.
PAPER_PAGES: dict[str, tuple[str, tuple[PaperTable, ...]]] = {
    "wmt_lm1b": ("WMT'14 and LM1B", (WMT, LANGUAGE_MODEL)),
    "generation": ("Summaries and replies", (SUMMARIES, REPLIES)),
    "glue": ("GLUE", (GLUE,)),
    "superglue": ("SuperGLUE", (SUPERGLUE,)),
    "c4": ("C4 masked language modelling", (C4,)),
    "encoder_only": ("Encoder only: AG News and IMDB", (ENCODER_ONLY,)),
    "narang": ("The replication by Narang et al.", (NARANG,)),
}
# The same for the runs at scale=small, by their tasks.
SMALL_PAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "small_wmt_lm1b": ("WMT and LM1B tasks on small text", ("wmt_ende", "wmt_enfr", "lm1b")),
    "small_generation": ("Summaries and replies on small text", ("cnn_dailymail", "personachat")),
    "small_understanding": (
        "GLUE and SuperGLUE tasks on small text",
        ("glue", "superglue", "en_mix"),
    ),
    "small_c4": ("Masked language modelling on small text", ("c4",)),
    "small_encoder_only": ("Encoder only on small text", ("agnews", "imdb")),
}
OTHER = "small_other", "Other tasks on small text"  # written where there are any


def render(results_dir: Path, readme: Path | None = None) -> list[Path]:
    """Writes pages, CSV and LaTeX of all tables, and the README's part between its markers.

    Returns what changed. The same store gives the same bytes, and a file that would not change is
    not touched. A CSV or LaTeX file of small runs that are no longer in the store goes.
    """
    paper = read_paper(results_dir)
    records = load(results_dir / "runs.jsonl")
    small = make_small(paper, records)
    full = make_full(paper, records)
    texts = {results_dir / f"{name}.md": _page(*page) for name, page in (full | small).items()}
    tables = [table for _, found in (full | small).values() for table in found]
    for table in tables:
        texts[results_dir / "csv" / f"{table.name}.csv"] = to_csv(table)
        texts[results_dir / "latex" / f"{table.name}.tex"] = latex(table)
    if readme:
        texts[readme] = _with_results(readme, _summary(readme, results_dir, full, small))
    changed = [path for path, text in texts.items() if _write(path, text)]
    return changed + _remove_old(results_dir, texts)


Pages = dict[str, tuple[str, list[Table]]]


def make_full(paper: Mapping[str, Any], records: Sequence[Record]) -> Pages:
    """Name of a page -> its title and the paper's tables on it, with ours beside."""
    return {
        name: (title, [table.build(paper, records) for table in tables])
        for name, (title, tables) in PAPER_PAGES.items()
    }


def make_small(paper: Mapping[str, Any], records: Sequence[Record]) -> Pages:
    """The same for the small runs; a page may have no table."""
    variants = [row["variant"] for row in paper["wmt_lm1b"]["rows"]]
    found = small_tables(records, variants)
    pages = {
        name: (title, [table for task in tasks for table in found.pop(task, [])])
        for name, (title, tasks) in SMALL_PAGES.items()
    }
    if found:
        name, title = OTHER
        pages[name] = title, [table for tables in found.values() for table in tables]
    return pages


def write_html(
    results_dir: Path,
    path: Path,
    directories: Iterable[Path] = (),
    texts: Mapping[TextKey, Text] | None = None,
) -> list[str]:
    """Writes one HTML file of all tables, with curves and samples of the runs in `directories`.

    `texts` is the text that their hypotheses were made of, of the splits whose samples are wanted.
    Returns what of the runs could not be shown, a line each; the page says so, too.
    """
    paper = read_paper(results_dir)
    records = load(results_dir / "runs.jsonl")
    pages = make_small(paper, records) | make_full(paper, records)
    found = collect(directories, texts or {})
    write_page(path, dict(pages.values()), found.curves, found.samples, problems=found.problems)
    return list(found.problems)


def check(results_dir: Path, since: int = 0) -> list[str]:
    """Raises ResultsError if a figure could not be put into the tables of this directory.

    Returns what is odd about the store, a line each, of figures said twice only those that stand
    again after line `since`: see `consistency`.
    """
    return consistency.findings(results_dir / "runs.jsonl", read_paper(results_dir), since)


def read_paper(results_dir: Path) -> dict[str, Any]:
    """The paper's figures."""
    path = results_dir / "paper.json"
    if not path.is_file():
        raise ResultsError(
            f"--results={results_dir} holds no paper.json, the figures of the paper: copy "
            "results/paper.json of this repository there"
        )
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ResultsError(
            f"{path} cannot be read: {error}; copy results/paper.json of this repository there"
        ) from error


def _page(title: str, tables: Sequence[Table]) -> str:
    body = "\n".join(map(markdown, tables)) or NOTHING
    return f"# {title}\n\nGenerated from `runs.jsonl` and `paper.json`; do not edit.\n\n{body}"


def _summary(readme: Path, results_dir: Path, full: Pages, small: Pages) -> str:
    """The small tables, the first page of the paper's, and links to the rest."""
    (_, (_, first)), *rest = full.items()
    tables = [*(table for _, found in small.values() for table in found), *first]
    place = Path(os.path.relpath(results_dir, readme.parent)).as_posix()
    links = [f"[{title}]({place}/{name}.md)" for name, (title, _) in rest]
    more = f"All tables as [CSV]({place}/csv) and [LaTeX]({place}/latex)."
    return "\n".join(
        [*map(markdown, tables), f"The paper's other tables: {', '.join(links)}. {more}\n"]
    )


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
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return True


def _remove_old(results_dir: Path, written: Iterable[Path]) -> list[Path]:
    kept = set(written)
    found = [*results_dir.glob("csv/small_*.csv"), *results_dir.glob("latex/small_*.tex")]
    old = sorted(path for path in [*found, results_dir / f"{OTHER[0]}.md"] if path not in kept)
    gone = [path for path in old if path.exists()]
    for path in gone:
        path.unlink()
    return gone
