"""What an evaluation tells the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from synth import results
from synth.progress import say

if TYPE_CHECKING:  # evaluation brings JAX, which rendering tables does not need
    from synth.evaluation import Scored


def scored_text(workdir: Path, scored: Scored) -> str:
    """Figures with their signatures, sample translations beside references, and the files."""
    blocks = []
    if scored.samples:
        blocks.append("Samples:\n")
        for source, reference, hypothesis in scored.samples:
            blocks.append(
                f"  source      {source}\n  reference   {reference}\n  hypothesis  {hypothesis}\n"
            )
    blocks.append(f"{workdir}, step {scored.step}, {scored.split}: {scored.n_items:,} lines")
    for figure in scored.figures:
        blocks.append(f"  {figure.metric:18s} {figure.value:9.3f}  {figure.signature}")
    blocks.append("\nWritten:")
    blocks.extend(f"  {path}" for path in scored.files)
    return "\n".join(blocks)


def render(results_dir: Path) -> None:
    """Renders the tables, and the README beside the results directory if it has a place for them.

    Raises:
      ResultsError: if the store has lines that are no records.
    """
    readme = results_dir.parent / "README.md"
    has_place = readme.is_file() and results.BEGIN in readme.read_text(encoding="utf-8")
    changed = results.render(results_dir, readme if has_place else None)
    say("tables: " + (", ".join(map(str, changed)) if changed else "nothing has changed"))
