"""What an evaluation tells the terminal, and where its figures go."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.errors import DataError
from synth import results
from synth.progress import say
from synth.results.store import canonical

if TYPE_CHECKING:  # evaluation brings JAX, which rendering tables does not need
    from synth.configuration import Flag
    from synth.evaluation import Scored
    from synth.rundir import RunDir


def scored_text(what: str, scored: Scored, store: Path) -> str:
    """Figures with their signatures, sample translations beside references, and the files."""
    blocks = []
    if scored.samples:
        blocks.append("Samples:\n")
        for source, reference, hypothesis in scored.samples:
            blocks.append(
                f"  source      {source}\n  reference   {reference}\n  hypothesis  {hypothesis}\n"
            )
    where = f"{scored.dataset}, {scored.split}"
    blocks.append(f"{what}, {where}: {scored.n_items:,} lines")
    for figure in scored.figures:
        blocks.append(f"  {figure.metric:18s} {figure.value:9.3f}  {figure.signature}")
    blocks.append("\nWritten:")
    blocks.extend(f"  {path}" for path in [*scored.files, store])
    return "\n".join(blocks)


def score(run: RunDir, results_dir: Path, command: str, **settings: Any) -> bool:
    """Scores a run, prints what was found and appends it to the store; see `evaluate`.

    Of several processes all score, and the first one prints and writes.

    Returns:
      Whether this is that one.

    Raises:
      UserError, data.DataError: for what cannot be scored, before the work where that is known.
    """
    from synth import distributed, evaluation, records

    store = results_dir / "runs.jsonl"
    found = evaluation.evaluate(run, **settings)
    if not distributed.is_first():
        return False
    for scored in found:
        print(scored_text(f"{run.path}, step {scored.step}", scored, store), flush=True)
        results.append(store, records.make_records(run, scored, command))
    return True


def score_predictions(
    path: Path, flag: Flag, results_dir: Path, command: str, *, system: str, **settings: Any
) -> None:
    """Scores outputs made elsewhere as `score` does ours; see `synth.predictions`."""
    from synth import predictions, records

    store, config = results_dir / "runs.jsonl", flag.value()
    scored = predictions.score_predictions(path, config, **settings)
    print(scored_text(f"{path} by {system}", scored, store), flush=True)
    overrides = {key: value for key, value in flag.overrides.items() if key != "data.data_dir"}
    made = records.make_outside_records(path, config, overrides, scored, system, command)
    results.append(store, made)


def compare(results_dir: Path, command: str) -> None:
    """Appends p-values against vanilla to the store, of all figures whose lines are at hand."""
    from synth import comparison

    store = results_dir / "runs.jsonl"
    known = results.load(store)
    untested = comparison.Untested()
    test = functools.partial(comparison.compare, untested=untested)
    made = results.p_records(known, test, eval_command=command)
    old = {(record.identity, record.step, canonical(record.sums)) for record in known}
    new = [r for r in made if (r.identity, r.step, canonical(r.sums)) not in old]
    for line in untested.lines():
        say(line)
    left = f", {untested.count} figures not tested" if untested.count else ""
    say(f"{len(new)} new p-values, {len(made) - len(new)} known{left}")
    results.append(store, new)


def render(results_dir: Path, since: int = 0) -> None:
    """Renders the tables, and the README beside the results directory if it has a place for them.

    Says what is odd about the store: figures said twice, the last time after line `since`, unknown
    rows, copies of a test set.

    Raises:
      ResultsError: if the store has lines that are no records.
    """
    readme = results_dir.parent / "README.md"
    has_place = readme.is_file() and results.BEGIN in readme.read_text(encoding="utf-8")
    for line in results.check(results_dir, since):
        say(f"note: {line}")
    changed = results.render(results_dir, readme if has_place else None)
    say("tables: " + (", ".join(map(str, changed)) if changed else "nothing has changed"))


def write_page(results_dir: Path, path: Path, runs_dir: Path) -> None:
    """Writes one HTML file of all tables, with the curves and samples of the runs below a folder.

    Raises:
      ResultsError: if the store has lines that are no records.
    """
    directories = sorted(runs_dir.iterdir()) if runs_dir.is_dir() else []
    directories = [directory for directory in directories if (directory / "run.json").is_file()]
    path.parent.mkdir(parents=True, exist_ok=True)
    for problem in results.write_html(results_dir, path, directories, _texts(directories)):
        say(f"note: {problem}")
    say(f"page: {path}")


def _texts(directories: Iterable[Path]) -> dict[tuple[str, str, str], results.Text]:
    """The text that the outputs of these runs are of, where it is at hand."""
    from data import sources, tasks
    from synth.rundir import RunDir

    texts = {}
    for directory in directories:
        data = RunDir(directory).info().config.data
        dataset = tasks.get_task(data.task).dataset(data.dataset)
        key = (data.task, dataset.name, dataset.scored)
        if key in texts or dataset.parts:
            continue
        try:
            text = sources.open_split(dataset, dataset.scored, data_dir=data.data_dir)
        except DataError as error:
            say(f"note: no samples of {directory}: {error}")
            continue
        examples = list(sources.read_all(text))
        if all({"inputs", "targets"} <= example.keys() for example in examples):
            columns = ([example[side] for example in examples] for side in ("inputs", "targets"))
            texts[key] = results.Text(*columns)
    return texts
