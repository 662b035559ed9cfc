"""Scores a run, adds its figures to the run store and renders the tables.

python eval.py --workdir=runs/ende [--split=test] [--beam=4] [--alpha=0.6] [--average=3]
python eval.py --row=wmt_ende/random+vanilla --scale=small
python eval.py --render
python eval.py --html=results.html
python eval.py --compare
python eval.py --predictions=hyp.txt --config=configs/wmt_ende.py:vanilla --system=fairseq

Everything needed is in the run directory. Figures go to results/runs.jsonl; the tables in
results/ and in the README are made from that file alone. --row does a whole row: it trains the
run, or what is left of it, and scores it. --predictions scores outputs that were made elsewhere;
--system names who made them, for a row of their own.
"""

from pathlib import Path
from typing import Any

from absl import flags

from synth import cli
from synth.configuration import Flag
from synth.errors import UserError

CONFIG = Flag()
WORKDIR = flags.DEFINE_string("workdir", "", "directory of the run to score")
ROW = flags.DEFINE_string("row", "", "TASK/VARIANT: train it if need be, then score it")
SCALE = flags.DEFINE_string("scale", "paper", "of the row: paper, small or tiny")
SEED = flags.DEFINE_integer("seed", 0, "of the row")
SPLIT = flags.DEFINE_string(
    "split", None, "what to score (default: test, or validation where no test labels are public)"
)
BEAM = flags.DEFINE_integer("beam", None, "beam width, 1 = greedy (default: the run's config)")
ALPHA = flags.DEFINE_float("alpha", None, "length penalty (default: the run's config)")
CHECKPOINT = flags.DEFINE_string("checkpoint", "last", "last, best, or a step")
AVERAGE = flags.DEFINE_integer("average", 1, "score the mean of the last N checkpoints")
GLOVE = flags.DEFINE_string("glove", "", "file of word vectors, for replies: glove.6B.300d.txt")
RESULTS = flags.DEFINE_string("results", "results", "directory of the run store and the tables")
RENDER = flags.DEFINE_bool("render", False, "only render the tables again")
PREDICTIONS = flags.DEFINE_string(
    "predictions", "", "a file of outputs made elsewhere, one a line, for the row of --config"
)
SYSTEM = flags.DEFINE_string("system", "", "who made them: their row is kept apart")
COMPARE = flags.DEFINE_bool("compare", False, "test all figures against vanilla's")
HTML = flags.DEFINE_string("html", "", "also write all tables, curves and samples to this file")
RUNS = flags.DEFINE_string("runs", "runs", "for --html: the folder of the run directories")


_RUNS = ("workdir", "row")
_SCORED = (*_RUNS, "predictions")
_ASKED = (*_SCORED, "render", "compare", "html")
# Flag -> those that it has a use with: one of them must be given, too.
GOES_WITH = {
    "scale": ("row",),
    "seed": ("row",),
    "split": _SCORED,
    "beam": _RUNS,
    "alpha": _RUNS,
    "checkpoint": _RUNS,
    "average": _RUNS,
    "glove": _SCORED,
    "system": ("predictions",),
    "runs": ("html",),
    **dict.fromkeys(cli.PEER_FLAGS, _RUNS),
}


def main() -> None:
    _check_flags()
    from synth import distributed, files, report, results

    results_dir = files.local("--results", RESULTS.value)
    # The first process alone reads and writes there; what it finds ends all of them.
    distributed.in_first(lambda: _check_places(results_dir))
    before = 0 if RENDER.value else results.last_line(results_dir / "runs.jsonl")
    if PREDICTIONS.value:
        report.score_predictions(
            Path(PREDICTIONS.value),
            CONFIG,
            results_dir,
            cli.command(),
            system=SYSTEM.value,
            split=SPLIT.value,
            glove=GLOVE.value,
        )
    elif (WORKDIR.value or ROW.value) and not _score(results_dir):
        return  # another process prints and writes
    if COMPARE.value:
        report.compare(results_dir, cli.command())
    report.render(results_dir, since=before)
    if HTML.value:
        report.write_page(results_dir, Path(HTML.value), Path(RUNS.value))


def _check_flags() -> None:
    """Raises UserError for flags that do not go together, and for places that are none."""
    cli.check_uses(GOES_WITH)
    asked = [name for name in _ASKED if cli.is_given(name)]
    if not asked:
        raise UserError(
            "name a run to score, --workdir=runs/NAME, or a row, --row=TASK/VARIANT, or give "
            "--render, --compare or --html=FILE alone"
        )
    if RENDER.value and len(asked) > 1:
        (other, *_) = (name for name in asked if name != "render")
        raise UserError(f"--render stands alone: --{other} renders, too")
    if CONFIG.name and not PREDICTIONS.value:
        raise UserError("--config goes with --predictions; a run directory holds its own config")
    if PREDICTIONS.value and asked[0] != "predictions":
        raise UserError(f"--{asked[0]} and --predictions are two things to score: give one of them")
    if PREDICTIONS.value and not SYSTEM.value:
        raise UserError("--predictions needs --system=NAME: who made these outputs")


def _check_places(results_dir: Path) -> None:
    """Raises UserError for a place that cannot be read, or written when the work is done."""
    from synth import files, results

    results.check(results_dir)
    if PREDICTIONS.value or WORKDIR.value or ROW.value:
        _check_writable(f"--results={results_dir}", results_dir / "runs.jsonl")
    if cli.is_given("runs") and not Path(RUNS.value).is_dir():
        raise UserError(f"--runs={RUNS.value}: there is no such directory")
    if HTML.value:
        _check_writable(f"--html={HTML.value}", files.local("--html", HTML.value))


def _check_writable(flag: str, path: Path) -> None:
    from synth import files

    try:
        files.check_writable(path)
    except OSError as error:
        raise UserError(f"{flag} cannot be written: {error.strerror or error}") from error


def _score(results_dir: Path) -> bool:
    """Scores a run, or a row that it trains first; returns whether this process writes."""
    from synth import evaluation, report
    from synth.rundir import RunDir

    outputs: dict[str, Any] = dict(
        split=SPLIT.value, beam=BEAM.value, alpha=ALPHA.value, glove=GLOVE.value
    )
    if ROW.value:
        from synth import row

        found = row.find(ROW.value, scale=SCALE.value, seed=SEED.value, workdir=WORKDIR.value)
        evaluation.check(found.info.config, **outputs)
        row.check_checkpoints(found, CHECKPOINT.value, AVERAGE.value)
        row.tell(found)
        if found.steps:
            row.train(found)
        run = found.run
    else:
        run = RunDir(WORKDIR.value)
    settings = outputs | dict(checkpoint=CHECKPOINT.value, average=AVERAGE.value)
    return report.score(run, results_dir, cli.command(), **settings)


if __name__ == "__main__":
    cli.run(main, CONFIG, joins=lambda: bool(WORKDIR.value or ROW.value))
