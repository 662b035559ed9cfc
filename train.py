"""Trains the run a config names.

python train.py --config=configs/wmt_ende.py:random+vanilla,scale=small --workdir=runs/ende

Stopped or killed, it goes on when the same command is given again. `--config.KEY=VALUE` changes
any leaf of the config; `--describe` prints what the model would cost, without training it, and
`--compile_for=v5e-16` whether a training step fits a TPU that need not be there.
"""

from absl import flags

from synth import cli
from synth.configuration import Flag
from synth.errors import UserError

CONFIG = Flag()
WORKDIR = flags.DEFINE_string("workdir", "", "directory of the run: made, or gone on with")
DESCRIBE = flags.DEFINE_bool("describe", False, "print parameters and operations, then exit")
PROFILE = flags.DEFINE_list(
    "profile_steps", [], "FIRST,LAST: a profile of these steps goes to WORKDIR/profile"
)
COMPILE_FOR = flags.DEFINE_string(
    "compile_for",
    "",
    "compile the training step for that TPU topology (v5e-16, v3-8, v5p:2x4x4), print what it "
    "takes, then exit: status 1 if it does not fit",
)
JSON = flags.DEFINE_bool("json", False, "print the description or what a topology takes as JSON")


def main() -> int:
    config = CONFIG.value()
    if DESCRIBE.value:
        from synth import describe

        print(describe.to_json(config) if JSON.value else describe.to_text(config))
        return 0
    if COMPILE_FOR.value:
        from synth import compile_for, fit_report

        report = compile_for.compile_for(config, COMPILE_FOR.value)
        print(fit_report.to_json(report) if JSON.value else fit_report.to_text(report))
        return 0 if report["fits"] else 1
    if JSON.value:
        raise UserError("--json goes with --describe or --compile_for")
    if not WORKDIR.value:
        raise UserError("name a directory for the run: --workdir=runs/NAME")
    from synth import profile, training
    from synth.progress import say
    from synth.rundir import RunDir, RunInfo

    info = RunInfo(CONFIG.name, CONFIG.overrides, config, cli.command())
    steps = profile.parse_steps(PROFILE.value)
    outcome = training.train(info, RunDir(WORKDIR.value), steps)
    if outcome.stopped_by is not None:
        say(f"saved step {outcome.step}; to go on: {cli.command()}")
        return 128 + outcome.stopped_by
    say(f"done: {WORKDIR.value}; to score it: python eval.py --workdir={WORKDIR.value}")
    return 0


if __name__ == "__main__":
    cli.run(main, CONFIG, joins=lambda: not (DESCRIBE.value or COMPILE_FOR.value))
