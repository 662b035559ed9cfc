"""Scores a run, adds its figures to the run store and renders the tables.

python eval.py --workdir=runs/ende [--split=test] [--beam=4] [--alpha=0.6] [--average=3]
python eval.py --row=wmt_ende/random+vanilla --scale=small
python eval.py --render
python eval.py --html=results.html

Everything needed is in the run directory. Figures go to results/runs.jsonl; the tables in
results/ and in the README are made from that file alone. --row does a whole row: it trains the
run, or what is left of it, and scores it.
"""

from pathlib import Path

from absl import flags

from synth import cli
from synth.errors import UserError

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
HTML = flags.DEFINE_string("html", "", "also write all tables, curves and samples to this file")
RUNS = flags.DEFINE_string("runs", "runs", "for --html: the folder of the run directories")


def main() -> None:
    scoring = bool(WORKDIR.value or ROW.value)
    if scoring == RENDER.value and not (HTML.value and not scoring):
        raise UserError(
            "name a run to score, --workdir=runs/NAME, or a row, --row=TASK/VARIANT, or give "
            "--render or --html=FILE alone"
        )
    from synth import report

    results_dir = Path(RESULTS.value)
    if scoring:
        from synth.rundir import RunDir

        settings = dict(
            split=SPLIT.value,
            beam=BEAM.value,
            alpha=ALPHA.value,
            checkpoint=CHECKPOINT.value,
            average=AVERAGE.value,
            glove=GLOVE.value,
        )
        run = _trained_row() if ROW.value else RunDir(WORKDIR.value)
        report.score(run, results_dir, cli.command(), **settings)
    report.render(results_dir)
    if HTML.value:
        report.write_page(results_dir, Path(HTML.value), Path(RUNS.value))


def _trained_row():
    from synth import row

    found = row.find(ROW.value, scale=SCALE.value, seed=SEED.value, workdir=WORKDIR.value)
    row.tell(found)
    if found.steps:
        row.train(found)
    return found.run


if __name__ == "__main__":
    cli.run(main)
