"""Scores a run, adds its figures to the run store and renders the tables.

python eval.py --workdir=runs/ende [--split=test] [--beam=4] [--alpha=0.6]
python eval.py --render

Everything needed is in the run directory. Figures go to results/runs.jsonl; the tables in
results/ and in the README are made from that file alone.
"""

from pathlib import Path

from absl import flags

from synth import cli
from synth.errors import UserError

WORKDIR = flags.DEFINE_string("workdir", "", "directory of the run to score")
SPLIT = flags.DEFINE_string(
    "split", None, "what to score (default: test, or validation where no test labels are public)"
)
BEAM = flags.DEFINE_integer("beam", None, "beam width, 1 = greedy (default: the run's config)")
ALPHA = flags.DEFINE_float("alpha", None, "length penalty (default: the run's config)")
CHECKPOINT = flags.DEFINE_string("checkpoint", "last", "last, best, or a step")
RESULTS = flags.DEFINE_string("results", "results", "directory of the run store and the tables")
RENDER = flags.DEFINE_bool("render", False, "only render the tables again")


def main() -> None:
    if RENDER.value == bool(WORKDIR.value):
        raise UserError("name a run to score, --workdir=runs/NAME, or give --render alone")
    from synth import report

    results_dir = Path(RESULTS.value)
    if not RENDER.value:
        from synth import evaluation, records, results
        from synth.rundir import RunDir

        results.check(results_dir)  # before the work, not after it
        run = RunDir(WORKDIR.value)
        scored = evaluation.evaluate(
            run,
            split=SPLIT.value,
            beam=BEAM.value,
            alpha=ALPHA.value,
            checkpoint=CHECKPOINT.value,
        )
        store = results_dir / "runs.jsonl"
        print(report.scored_text(run.path, scored), f"  {store}", sep="\n", flush=True)
        results.append(store, records.make_records(run, scored, cli.command()))
    report.render(results_dir)


if __name__ == "__main__":
    cli.run(main)
