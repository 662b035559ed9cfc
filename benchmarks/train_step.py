"""How fast a training step is: every variant, against a plain formulation, PyTorch and Flax.

python -m benchmarks.train_step [--size=base] [--write=results/benchmarks.md]

One translation batch of random tokens, rows between half full and full, float32, dropout 0.1, all
warm and in turns in one process:

  plain    our model with attention that materialises [B, H, L, M] logits of every term
  PyTorch  nn.Transformer of the same size (pip install -r requirements-bench.txt)
  Flax     the model of its WMT example: --flax_examples=DIR, a checkout's examples/wmt
  products the matrix products of variant vanilla alone: the ceiling of the machine

Both others are dot-product attention, as our variant vanilla. Compiling is most of the time: with
--size=base a variant takes about a minute, so there it is vanilla and random+vanilla by default.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import measure, products
from benchmarks.peers import training
from benchmarks.plain import plain_attention
from data import command
from synth import configuration, sharding
from synth.configuration import Config
from synth.errors import UserError
from synth.experiment import Experiment, TrainState, make_textless_experiment
from synth.steps import make_train_step


@dataclasses.dataclass(frozen=True)
class Size:
    """Rows and tokens of a side, the config's scale, the variants measured if none are named."""

    rows: int
    length: int
    scale: str
    variants: Sequence[str]


SIZES = {
    "tiny": Size(8, 16, "tiny", ("vanilla", "random")),
    "small": Size(24, 44, "small", measure.VARIANTS),
    "base": Size(4, 256, "paper", ("vanilla", "random+vanilla")),
}


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to make a step: ready to be called, and the seconds until it was."""

    step: Callable[[], Any]
    compile_seconds: float


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    flags = command.Flags(prog="benchmarks.train_step", description=__doc__)
    flags.add_argument("--size", choices=list(SIZES), default="small")
    flags.add_argument("--variants", type=measure.attentions, help="comma-separated, or all")
    flags.add_argument(
        "--plain",
        type=measure.attentions,
        default="vanilla,random",
        help="variants also built plainly",
    )
    flags.add_argument("--flax_examples", metavar="DIR", type=Path)
    flags.add_argument("--torch_compile", action="store_true", help="PyTorch compiled, too")
    flags.add_argument("--rounds", type=measure.positive, default=5)
    flags.add_argument("--write", metavar="PAGE", help="also put the section into this page")
    args = flags.parse_args(argv)
    size = SIZES[args.size]
    variants = args.variants or size.variants
    if args.flax_examples and not (args.flax_examples / "models.py").is_file():
        raise UserError(f"--flax_examples={args.flax_examples} has no models.py: name examples/wmt")
    ways = make_ways(size, variants, args)
    text = report(measure.called(flags, args), args.size, ways, args.rounds)
    print(text)
    if args.write:
        measure.write(text, Path(args.write))
    return 0


# --- The ways -------------------------------------------------------------------------------------


def make_ways(size: Size, variants: Sequence[str], args: Any) -> dict[str, Way]:
    """All ways by name, compiled; the first is what ratios are taken to."""
    make: dict[str, Callable[[], Callable[[], Any]]] = {}
    for variant in variants:
        make[variant] = functools.partial(our_step, size, variant)
    for variant in args.plain:
        if variant in variants:
            make[f"{variant}, plain"] = functools.partial(our_step, size, variant, plain=True)
    config = config_of(size, "vanilla")
    peer = (config, make_batch(size, config.data.vocab_size))
    vocabulary = dict(vocab_size=config.data.vocab_size)
    if training.has_torch():
        make["PyTorch"] = functools.partial(training.torch_step, *peer, **vocabulary)
        if args.torch_compile:
            make["PyTorch, compiled"] = functools.partial(
                training.torch_step, *peer, **vocabulary, compiled=True
            )
    if args.flax_examples:
        make["Flax example"] = functools.partial(
            training.flax_step, *peer, **vocabulary, example=args.flax_examples
        )
    make["products alone"] = functools.partial(
        products.products_step, config, size.rows, size.length
    )
    ways = {}
    for name, build in make.items():
        start = time.perf_counter()
        step = build()
        jax.block_until_ready(step())
        ways[name] = Way(step, time.perf_counter() - start)
    return ways


def config_of(size: Size, variant: str) -> Config:
    """The config of wmt_ende at that size, with what the comparison needs: float32, dropout."""
    config = configuration.load(f"configs/wmt_ende.py:{variant},scale={size.scale}")
    config.model.update(
        dtype="float32", residual_dropout=0.1, attention_dropout=0.1, relu_dropout=0.1
    )
    return config


def make_batch(size: Size, vocab_size: int) -> dict[str, np.ndarray]:
    """Random tokens, rows between half full and full, the longest of them full."""
    rng = np.random.default_rng(0)
    batch = {}
    for side in ("inputs", "targets"):
        tokens = rng.integers(3, vocab_size, (size.rows, size.length), np.int32)
        lengths = rng.integers(size.length // 2, size.length + 1, size.rows)
        lengths[0] = size.length
        batch[side] = np.where(np.arange(size.length) < lengths[:, None], tokens, 0)
    return batch


def drawn_state(experiment: Experiment) -> TrainState:
    """A state as after initialisation, drawn by numpy: that takes no compiling."""
    rng = np.random.default_rng(0)
    state = experiment.abstract_state()

    def draw(x):
        values = 1.0 if x.ndim == 1 else 0.05 * rng.standard_normal(x.shape)
        return jax.device_put(np.full(x.shape, values, x.dtype), x.sharding)

    def zeros(x):
        return jax.device_put(np.zeros(x.shape, x.dtype), x.sharding)

    drawn = dict(params=jax.tree.map(draw, state.params), fixed=jax.tree.map(draw, state.fixed))
    return dataclasses.replace(jax.tree.map(zeros, state), **drawn)


def our_step(size: Size, variant: str, *, plain: bool = False) -> Callable[[], Any]:
    """One update of our model; of the plain formulation if asked."""
    config = config_of(size, variant)
    experiment = make_textless_experiment(config)
    state = [drawn_state(experiment)]
    batch = sharding.to_devices(make_batch(size, config.data.vocab_size), experiment.mesh)
    with plain_attention() if plain else contextlib.nullcontext():
        compiled = make_train_step(experiment).lower(state[0], batch).compile()

    def step():
        state[0] = compiled(state[0], batch)
        return state[0]

    return step


# --- The table ------------------------------------------------------------------------------------


def report(called: str, name: str, ways: dict[str, Way], rounds: int) -> str:
    """Measures; returns the section of the page, which names the command that was `called`."""
    size = SIZES[name]
    taken = measure.timed({name: way.step for name, way in ways.items()}, rounds=rounds)
    config = config_of(size, "vanilla")
    batch = make_batch(size, config.data.vocab_size)
    tokens = sum(int((side != 0).sum()) for side in batch.values())
    operations = products.operations(products.products(config, size.rows, size.length))
    base = next(iter(ways))
    rows = []
    for way, built in ways.items():
        seconds = statistics.median(taken[way])
        rows.append(
            (
                way,
                f"{seconds:.3f}",
                f"{tokens / seconds:,.0f}",
                f"{measure.ratio(taken, way, base):.2f}",
                f"{built.compile_seconds:.1f}",
            )
        )
    return measure.section(
        f"Training step, {name}",
        called,
        f"{size.rows} x {size.length} tokens a side, {tokens:,} of them no padding; float32, "
        f"dropout 0.1. `it : {base}` is the ratio of the seconds of a step, median of {rounds} "
        "rounds; the first step holds building and compiling. The products of vanilla are "
        f"{operations / 1e9:.1f} GFLOP.",
        ("way", "s/step", "tokens/s", f"it : {base}", "first step, s"),
        rows,
        packages=("jax", "jaxlib", "flax", "torch"),
    )


if __name__ == "__main__":
    measure.run("benchmarks.train_step", main)
