"""How fast outputs are found: ours for every variant, the Flax wmt example's way, others'.

python -m benchmarks.decode [--size=base] [--variants=all] [--write=results/benchmarks.md]

All translate the same random lines with random weights, in one process, in turns. A line of n
tokens has an output of about n tokens, drawn once: EOS is forbidden before and forced there, so
that all ways find as many tokens. Ours and PyTorch's take lines of like length together, the
example takes them as they come, padded to its one length of 256. PyTorch and CTranslate2
(pip install -r requirements-bench.txt) are timed if they are there, with all their threads and with
one: where the cores are shared, PyTorch's wait for each other.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from benchmarks import measure
from benchmarks.peers import flax_wmt
from benchmarks.peers.sizes import Sizes
from data import batching, command
from synth.compilation import jit
from synth.decode import EOS_ID, NEGATIVE
from synth.decoding import Search, find_outputs
from synth.errors import UserError
from synth.transformer import make_model

SIZES = {
    "tiny": Sizes(50, 1, 8, 2, 4, 16, 24),
    "small": Sizes(2000, 2, 128, 4, 32, 512, 96),
    "base": Sizes(32768, 6, 512, 8, 64, 2048, 256),
}
BUCKETS = {"tiny": (12, 24), "small": (24, 44, 96), "base": (32, 64, 256)}
TOKENS = {"tiny": 96, "small": 4096, "base": 4096}  # of a batch's inputs
EXTRA = 20  # tokens that an output may have beyond its input's bucket
ALPHA = 0.6
PEER_LENGTH = 256  # the example's longest inputs and outputs
PEER_ROWS = 32  # and its batch
LINES = 32
PYTORCH = "PyTorch, 1 thread"
CTRANSLATE = "CTranslate2, 1 thread"
MEDIAN_LENGTH = 20


class Lines(NamedTuple):
    """What is to be translated: token ids with EOS, and how long each output gets."""

    ids: list[list[int]]
    ends_N: np.ndarray

    @property
    def tokens(self) -> int:
        """Tokens of all outputs, EOS included."""
        return int(self.ends_N.sum())


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    flags = command.Flags(prog="benchmarks.decode", description=__doc__)
    flags.add_argument("--size", choices=sorted(SIZES), default="small")
    flags.add_argument(
        "--variants",
        type=measure.attentions,
        default="random,vanilla",
        help="comma-separated, or all",
    )
    flags.add_argument("--lines", type=measure.positive, default=LINES)
    flags.add_argument(
        "--longest", type=measure.positive, default=44, help="tokens of a line, at most"
    )
    flags.add_argument("--rounds", type=measure.positive, default=2)
    flags.add_argument("--write", metavar="PAGE", help="also put the section into this page")
    args = flags.parse_args(argv)
    sizes = SIZES[args.size]
    lines = make_lines(args.lines, min(args.longest, sizes.max_length - 2), sizes.vocab_size)
    ways: dict[tuple[str, int], Callable[[], Any]] = {}
    for beam in (1, 4):
        for variant in args.variants:
            ways[variant, beam] = ours(args.size, variant, beam, lines)
        ways["flax wmt", beam] = the_example(sizes, beam, lines)
    if importlib.util.find_spec("torch"):
        ways |= pytorch(args.size, lines)
    if importlib.util.find_spec("ctranslate2"):
        ways |= c_translate(args.size, lines)
    named = {f"{name}, {beam}": way for (name, beam), way in ways.items()}
    taken = measure.timed(named, rounds=args.rounds, warm=False)  # they are compiled already
    called = measure.called(flags, args)
    text = report(args.size, called, lines, list(ways), taken)
    print(text)
    if args.write:
        measure.write(text, Path(args.write))
    return 0


def make_lines(count: int, longest: int, vocab_size: int) -> Lines:
    """Random lines, of lengths spread like those of sentences."""
    rng = np.random.default_rng(0)
    lengths_N = rng.lognormal(np.log(MEDIAN_LENGTH), 0.5, count).round().clip(3, longest)
    ids = [[*rng.integers(2, vocab_size, int(n) - 1).tolist(), EOS_ID] for n in lengths_N]
    ends_N = (lengths_N * rng.lognormal(0.0, 0.2, count)).round().clip(2, longest)
    return Lines(ids, ends_N.astype(np.int32))


def sorted_batches(size: str, lines: Lines) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """(inputs_BM, ends_B, T) of lines of like length: rows x bucket is what memory is given for."""
    buckets, batches = BUCKETS[size], []
    order = np.argsort([len(ids) for ids in lines.ids], kind="stable")
    bucket_N = np.searchsorted(buckets, [len(lines.ids[n]) for n in order])
    for place, bucket in enumerate(buckets):
        members = order[bucket_N == place]
        rows = max(1, min(TOKENS[size] // bucket, len(members)))
        length = min(bucket + EXTRA, SIZES[size].max_length)
        for start in range(0, len(members), rows):
            group = members[start : start + rows]
            inputs_BM = batching.pad([lines.ids[n] for n in group], batch=rows, length=bucket)
            ends_B = np.ones(rows, np.int32)
            ends_B[: len(group)] = lines.ends_N[group].clip(max=length)
            batches.append((inputs_BM, ends_B, length))
    return batches


# --- The ways -------------------------------------------------------------------------------------


class Ending:
    """A model whose outputs end when they are told to."""

    def __init__(self, model: Any, ends_R: jax.Array):
        self._model, self._ends_R = model, ends_R
        self.start = model.start

    def step(self, tokens_R, index, memory, cache):
        """As of the model."""
        logits_RV, cache = self._model.step(tokens_R, index, memory, cache)
        is_end_V = jnp.arange(logits_RV.shape[-1]) == EOS_ID
        ends_now_R1 = (index + 1 >= self._ends_R)[:, None]
        return jnp.where(ends_now_R1 == is_end_V, logits_RV, NEGATIVE), cache


def ours(size: str, variant: str, beam: int, lines: Lines) -> Callable[[], Any]:
    """Our decoder: one program per bucket, batches queued without waiting for their outputs."""
    model = make_our_model(SIZES[size], variant)
    graphdef, state = nnx.split(model)

    @functools.partial(jit, static_argnums=3)
    def decode_batch(state, inputs_BM, ends_B, length):
        ending = Ending(nnx.merge(graphdef, state), jnp.repeat(ends_B, beam))
        return find_outputs(ending, Search(beam=beam, alpha=ALPHA), {"inputs": inputs_BM}, length)

    batches = sorted_batches(size, lines)
    programs = {
        inputs_BM.shape: decode_batch.lower(state, inputs_BM, ends_B, length).compile()
        for inputs_BM, ends_B, length in batches
    }
    return lambda: [programs[batch[0].shape](state, *batch) for *batch, _ in batches]


def make_our_model(sizes: Sizes, variant: str) -> Any:
    """A random encoder-decoder."""
    attention = dict(variant=variant, mix="softmax", rank=8, random_initializer="normal")
    attention |= dict(random_scale=0.02, fixed_random_scale=1.0)
    return make_model(
        "seq2seq",
        **vars(sizes),
        attention=attention,
        residual_dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
        dtype="float32",
        rngs=nnx.Rngs(params=0),
    )


def the_example(sizes: Sizes, beam: int, lines: Lines) -> Callable[[], Any]:
    """The algorithm of the Flax wmt example."""
    rows = min(PEER_ROWS, len(lines.ids))
    if len(lines.ids) % rows:
        raise UserError(f"--lines={len(lines.ids)} must fill batches of {rows}")
    inputs = batching.pad(lines.ids, batch=len(lines.ids), length=PEER_LENGTH)
    params = jax.jit(
        functools.partial(flax_wmt.variables, sizes, longest=PEER_LENGTH, params=True)
    )(inputs[:1])
    settings: dict[str, Any] = dict(beam=beam, alpha=ALPHA, longest=PEER_LENGTH)
    translate = jit(functools.partial(flax_wmt.translate, sizes, **settings))
    program = translate.lower(params, inputs[:rows], lines.ends_N[:rows]).compile()
    groups = [slice(start, start + rows) for start in range(0, len(lines.ids), rows)]
    return lambda: [program(params, inputs[group], lines.ends_N[group]) for group in groups]


def pytorch(size: str, lines: Lines) -> dict[tuple[str, int], Callable[[], Any]]:
    """Greedy search in PyTorch, on the batches that ours have."""
    torch_greedy: Any = importlib.import_module("benchmarks.peers.torch_greedy")
    translate = torch_greedy.Translator(SIZES[size])
    batches = sorted_batches(size, lines)

    def run(threads: int):
        torch_greedy.torch.set_num_threads(threads)
        return [translate(*batch) for batch in batches]

    ways: dict[tuple[str, int], Callable[[], Any]] = {(PYTORCH, 1): lambda: run(1)}
    cores = len(os.sched_getaffinity(0))
    if cores > 1:
        ways[f"PyTorch, {cores} threads", 1] = lambda: run(cores)
    return ways


def c_translate(size: str, lines: Lines) -> dict[tuple[str, int], Callable[[], Any]]:
    """Both searches in CTranslate2, on the batches that ours have."""
    ctranslate: Any = importlib.import_module("benchmarks.peers.ctranslate")
    batches = sorted_batches(size, lines)
    ways: dict[tuple[str, int], Callable[[], Any]] = {}
    for threads in sorted({1, len(os.sched_getaffinity(0))}):
        translate = ctranslate.Translator(SIZES[size], threads)
        name = CTRANSLATE if threads == 1 else f"CTranslate2, {threads} threads"
        for beam in (1, 4):
            ways[name, beam] = functools.partial(translate_all, translate, batches, beam)
    return ways


def translate_all(translate: Callable[..., Any], batches: Sequence[Any], beam: int) -> list[Any]:
    """The outputs of all batches."""
    return [translate(inputs_BM, ends_B, beam, ALPHA) for inputs_BM, ends_B, _ in batches]


# --- The table ------------------------------------------------------------------------------------


def report(size: str, called: str, lines: Lines, ways: Sequence[tuple[str, int]], taken) -> str:
    """The section of the page."""
    rows = []
    names = {name for name, _ in ways}
    others = [name for name in ("flax wmt", PYTORCH, CTRANSLATE) if name in names]
    for name, beam in ways:
        seconds = statistics.median(taken[f"{name}, {beam}"])
        cells = [f"{lines.tokens / seconds:,.0f}"]
        for base in others:
            key = f"{base}, {beam}"
            shown = f"{measure.ratio(taken, key, f'{name}, {beam}'):.2f}" if key in taken else "-"
            cells.append(shown)
        rows.append((name, "greedy" if beam == 1 else f"beam {beam}", *cells))
    model = ", ".join(f"{name}={value}" for name, value in vars(SIZES[size]).items())
    return measure.section(
        f"Decoding, {size}",
        called,
        f"{len(lines.ids)} lines, {lines.tokens} tokens of outputs; {model}; float32. Ratios are "
        "of tokens/s: above 1 the way of the row is the faster. Names without a variant are "
        "vanilla attention of others.",
        ("way", "search", "tokens/s", *(f"it : {name}" for name in others)),
        rows,
        left=2,
        packages=("jax", "jaxlib", "flax", "torch", "ctranslate2"),
    )


if __name__ == "__main__":
    measure.run("benchmarks.decode", main)
