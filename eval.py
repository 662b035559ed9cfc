"""Scores a run, adds its figures to the run store and renders the tables.

python eval.py --workdir=runs/ende [--split=test] [--beam=4] [--alpha=0.6] [--average=3]
python eval.py --row=wmt_ende/random+vanilla --scale=small
python eval.py --render
python eval.py --html=results.html
python eval.py --compare
python eval.py --predictions=hyp.txt --config=configs/wmt_ende.py:vanilla --system=fairseq

Everything needed is in the run directory. Figures go to results/runs.jsonl; the tables in
results/ and in the README are made from that file alone. --row does a whole row: it trains the
run, or what is left of it, and scores it.
"""

from pathlib import Path

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
SYSTEM = flags.DEFINE_string("system", "", "who made them: its row is kept apart")
COMPARE = flags.DEFINE_bool("compare", False, "test all figures against vanilla's")
HTML = flags.DEFINE_string("html", "", "also write all tables, curves and samples to this file")
RUNS = flags.DEFINE_string("runs", "runs", "for --html: the folder of the run directories")


def main() -> None:
    scoring = bool(WORKDIR.value or ROW.value or PREDICTIONS.value)
    alone = RENDER.value or COMPARE.value or bool(HTML.value)
    if (not scoring and not alone) or (scoring and RENDER.value):
        raise UserError(
            "name a run to score, --workdir=runs/NAME, or a row, --row=TASK/VARIANT, or give "
            "--render, --compare or --html=FILE alone"
        )
    from synth import report

    results_dir = Path(RESULTS.value)
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
    elif scoring:
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
        if not report.score(run, results_dir, cli.command(), **settings):
            return  # another process prints and writes
    if COMPARE.value:
        report.compare(results_dir, cli.command())
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
    cli.run(main, CONFIG, joins=lambda: bool(WORKDIR.value or ROW.value))
