"""How long it takes from the command to the first step, by part; nothing kept, and all kept.

python -m benchmarks.startup [--config=configs/wmt_ende.py:random+vanilla,scale=small]
                             [--write=results/benchmarks.md]

Each start is a process of its own that does what train.py does before its first step. The cold one
finds neither a vocabulary nor a compiled program; the warm ones find what it left.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Nothing else here: what training imports is timed.
CONFIG = "configs/wmt_ende.py:random+vanilla,scale=small"
PARTS = {
    "imports": "the interpreter and every module that training imports",
    "data": "text, vocabulary, the plan of the batches, the first batch",
    "initial state": "parameters and moments: trace, compile, draw",
    "trace": "the step as Python, and its lowering",
    "compile": "the step by XLA, or read from the cache",
    "first step": "its run, warm",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    from benchmarks import measure
    from data import command
    from synth import configuration

    flags = command.Flags(prog="benchmarks.startup", description=__doc__)
    flags.add_argument("--config", default=CONFIG)
    flags.add_argument("--warm_starts", type=measure.positive, default=3)
    flags.add_argument("--write", metavar="PAGE", help="also put the section into this page")
    args = flags.parse_args(argv)
    configuration.load(args.config)  # a mistake is told here, once
    with tempfile.TemporaryDirectory() as folder:
        cold, *warm = [start(args.config, folder) for _ in range(1 + args.warm_starts)]
    rows = [
        (part, f"{cold[part]:.2f}", f"{statistics.median(one[part] for one in warm):.2f}", text)
        for part, text in PARTS.items()
    ]
    totals = [sum(parts.values()) for parts in (cold, *warm)]
    rows.append(("all", f"{totals[0]:.2f}", f"{statistics.median(totals[1:]):.2f}", ""))
    text = measure.section(
        "Start-up",
        measure.called(flags, args),
        f"Seconds from the command to the end of the first step of {args.config}. Cold: no "
        f"vocabulary, no compiled program; warm: both, median of {args.warm_starts} starts.",
        ("part", "cold", "warm", "what"),
        rows,
        packages=("jax", "jaxlib", "flax", "grain", "orbax-checkpoint"),
    )
    print(text)
    if args.write:
        measure.write(text, Path(args.write))
    return 0


def start(config: str, folder: str) -> dict[str, float]:
    """Seconds of each part of one start in a new process, which keeps what it makes in `folder`."""
    command = [sys.executable, "-m", "benchmarks.startup", "--child", folder, f"--config={config}"]
    environment = os.environ | {"STARTED": str(time.monotonic())}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise ChildProcessError(f"a start of {config} failed, as told above")
    return json.loads(done.stdout.splitlines()[-1])


# --- The process that is timed --------------------------------------------------------------------


def child(folder: str, config_name: str, started: float) -> None:
    """Prints the seconds of each part as JSON."""
    import jax

    from synth import cli, configuration, sharding, training
    from synth.experiment import make_experiment
    from synth.steps import make_train_step

    del cli  # train.py imports it
    seconds = {"imports": time.monotonic() - started}

    @contextmanager
    def timed(part: str) -> Iterator[None]:
        begin = time.monotonic()
        yield
        seconds[part] = time.monotonic() - begin

    jax.config.update("jax_compilation_cache_dir", f"{folder}/jax")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    config = configuration.canonical(configuration.load(config_name))
    config.data.data_dir = f"{folder}/data"
    with timed("data"):
        experiment = make_experiment(config)
        batch = next(iter(training.train_batches(experiment)))
        batch = sharding.to_devices(batch, experiment.mesh)
    with timed("initial state"):
        state = jax.block_until_ready(experiment.init_state())
    with timed("trace"):
        lowered = make_train_step(experiment).lower(state, batch)
    with timed("compile"):
        step = lowered.compile()
    with timed("first step"):
        jax.block_until_ready(step(state, batch))
    print(json.dumps(seconds))


def _child_arguments(argv: Sequence[str]) -> tuple[str, str] | None:
    """(folder, config) if this process is one that is timed."""
    if len(argv) == 3 and argv[0] == "--child":
        return argv[1], argv[2].removeprefix("--config=")
    return None


if __name__ == "__main__":
    if found := _child_arguments(sys.argv[1:]):
        child(*found, float(os.environ["STARTED"]))
    else:
        from benchmarks import measure

        measure.run("benchmarks.startup", main)
