"""One self-attention layer, forward and backward, of every variant: ours against the plain way.

python -m benchmarks.attention [--lengths=64,256,512,1024] [--masks=none,padding,causal]
    [--rounds=5] [--write=results/benchmarks.md]

A layer of transformer_base's width (D = 512, 8 heads of 64; projections included) on about 4,096
tokens, float32 on a CPU and bfloat16 elsewhere. "Plain" materialises the [B, H, L, M] logits of
each term and leaves the gradient to JAX (`benchmarks/plain.py`). Times are wall-clock, in turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from benchmarks import measure
from benchmarks.plain import plain_attention
from data import command
from synth.attention import SelfAttention
from synth.attention.terms import Mask, causal_LM
from synth.compilation import jit

OTHERS = ("plain", "plain vanilla", "our vanilla")
LENGTHS = "64,256,512,1024"
MASKS = "none,padding,causal"
TOKENS = 4096


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    flags = command.Flags(prog="benchmarks.attention", description=__doc__)
    flags.add_argument("--lengths", type=measure.positives, default=LENGTHS, help="comma-separated")
    masks = measure.some_of(*MASKS.split(","))
    flags.add_argument("--masks", type=masks, default=MASKS, help="comma-separated")
    flags.add_argument("--rounds", type=measure.positive, default=5)
    flags.add_argument("--write", metavar="PAGE", help="also put the section into this page")
    args = flags.parse_args(argv)
    lengths = ",".join(map(str, args.lengths))
    title = "Attention" if lengths == LENGTHS else f"Attention, N = {lengths}"
    text = report(title, measure.called(flags, args), list(measure_all(args)))
    print(text)
    if args.write:
        measure.write(text, Path(args.write))
    return 0


def measure_all(args: argparse.Namespace) -> Iterator[list[str]]:
    """The rows of the table."""
    for length in args.lengths:
        for mask in args.masks:
            yield from measure_case(length, mask, args.rounds)


def measure_case(length: int, mask_name: str, rounds: int) -> Iterator[list[str]]:
    """Rows of one length and mask."""
    batch = max(1, TOKENS // length)
    programs = {}
    for variant in measure.VARIANTS:
        programs[variant, "ours"] = compile_layer(variant, batch, length, mask_name)
        with plain_attention():
            programs[variant, "plain"] = compile_layer(variant, batch, length, mask_name)
    taken = measure.timed(
        {f"{v} {way}": run for (v, way), (run, _) in programs.items()}, rounds=rounds
    )
    megabytes = {key: size / 2**20 for key, (_, size) in programs.items()}
    for variant in measure.VARIANTS:
        ours, plain = f"{variant} ours", f"{variant} plain"
        against = (plain, "vanilla plain", "vanilla ours")
        memory = [("vanilla", "plain"), ("vanilla", "ours")]
        yield [
            f"{length} x {batch}",
            mask_name,
            variant,
            f"{1e3 * float(np.median(taken[ours])):.1f}",
            *(f"{measure.ratio(taken, ours, other):.2f}" for other in against),
            f"{megabytes[variant, 'ours']:.0f}",
            f"{megabytes[variant, 'ours'] / megabytes[variant, 'plain']:.2f}",
            *(f"{megabytes[variant, 'ours'] / megabytes[key]:.2f}" for key in memory),
        ]


def compile_layer(
    variant: str, batch: int, length: int, mask: str
) -> tuple[Callable[[], Any], int]:
    """The compiled forward and backward pass, ready to be called, and its temporary bytes."""
    dtype = jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16
    layer = SelfAttention(
        model_dim=512,
        num_heads=8,
        head_dim=64,
        max_length=length,
        variant=variant,
        mix="softmax",
        rank=8,
        random_initializer="normal",
        random_scale=0.02,
        fixed_random_scale=1.0,
        dropout_rate=0.0,
        dtype=dtype,
        rngs=nnx.Rngs(params=0),
    )
    graphdef, params, fixed = nnx.split(layer, nnx.Param, ...)
    rng = np.random.default_rng(0)
    x_BLD, grad_BLD = (jnp.asarray(rng.normal(size=(batch, length, 512)), dtype) for _ in range(2))
    valid_BM = valid_keys(batch, length) if mask == "padding" else None

    def both(params, fixed, x_BLD, valid_BM, grad_BLD):
        seen = Mask(causal_LM(length) if mask == "causal" else None, valid_BM)

        def forward(params, x_BLD):
            return nnx.merge(graphdef, params, fixed)(x_BLD, seen)

        y_BLD, backward = jax.vjp(forward, params, x_BLD)
        return y_BLD, backward(grad_BLD)

    inputs = (params, fixed, x_BLD, valid_BM, grad_BLD)
    compiled = jit(both).lower(*inputs).compile()
    return lambda: compiled(*inputs), compiled.memory_analysis().temp_size_in_bytes


def valid_keys(batch: int, length: int) -> jax.Array:
    """valid_BM of examples of half to full length."""
    lengths_B = np.random.default_rng(1).integers(length // 2, length + 1, size=batch)
    return jnp.asarray(np.arange(length) < lengths_B[:, None])


def report(title: str, called: str, rows: Sequence[Sequence[str]]) -> str:
    """The section of the page."""
    return measure.section(
        title,
        called,
        "Ratios are of time and of the compiled program's temporary memory: ours to the plain "
        "way of the same variant, to plain vanilla attention, and to our vanilla.",
        (
            "N x batch",
            "mask",
            "variant",
            "ms",
            *(f"ms : {other}" for other in OTHERS),
            "MB",
            *(f"MB : {other}" for other in OTHERS),
        ),
        rows,
        left=3,
    )


if __name__ == "__main__":
    measure.run("benchmarks.attention", main)
