"""What an evaluation tells the terminal, and where its figures go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from synth import results
from synth.progress import say

if TYPE_CHECKING:  # evaluation brings JAX, which rendering tables does not need
    from synth.evaluation import Scored
    from synth.rundir import RunDir


def scored_text(workdir: Path, scored: Scored) -> str:
    """Figures with their signatures, sample translations beside references, and the files."""
    blocks = []
    if scored.samples:
        blocks.append("Samples:\n")
        for source, reference, hypothesis in scored.samples:
            blocks.append(
                f"  source      {source}\n  reference   {reference}\n  hypothesis  {hypothesis}\n"
            )
    where = f"{scored.dataset}, {scored.split}"
    blocks.append(f"{workdir}, step {scored.step}, {where}: {scored.n_items:,} lines")
    for figure in scored.figures:
        blocks.append(f"  {figure.metric:18s} {figure.value:9.3f}  {figure.signature}")
    blocks.append("\nWritten:")
    blocks.extend(f"  {path}" for path in scored.files)
    return "\n".join(blocks)


def score(run: RunDir, results_dir: Path, command: str, **settings: Any) -> None:
    """Scores a run, prints what was found and appends it to the store; see `evaluate`.

    Raises:
      UserError, data.DataError: for what cannot be scored, before the work where that is known.
    """
    from synth import evaluation, records

    results.check(results_dir)
    store = results_dir / "runs.jsonl"
    for scored in evaluation.evaluate(run, **settings):
        print(scored_text(run.path, scored), f"  {store}", sep="\n", flush=True)
        results.append(store, records.make_records(run, scored, command))


def render(results_dir: Path) -> None:
    """Renders the tables, and the README beside the results directory if it has a place for them.

    Says what is odd about the store: figures said twice, unknown rows, copies of a test set.

    Raises:
      ResultsError: if the store has lines that are no records.
    """
    readme = results_dir.parent / "README.md"
    has_place = readme.is_file() and results.BEGIN in readme.read_text(encoding="utf-8")
    for line in results.check(results_dir):
        say(f"note: {line}")
    changed = results.render(results_dir, readme if has_place else None)
    say("tables: " + (", ".join(map(str, changed)) if changed else "nothing has changed"))
