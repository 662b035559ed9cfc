"""How programs are compiled, and for what: the one place that asks for the platform."""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

# A `jax.Device`, which a type checker takes for a variable.
Device = Any

_LEVEL = "xla_backend_optimization_level"
_ROWS: contextvars.ContextVar[jax.sharding.Sharding] = contextvars.ContextVar("rows")
_TARGET: contextvars.ContextVar[Sequence[Device]] = contextvars.ContextVar("target")


def devices() -> Sequence[Device]:
    """What programs are made for: the devices there are, or those of `compiling_for`."""
    return _TARGET.get(None) or jax.devices()


def platform() -> str:
    """'cpu', 'gpu' or 'tpu': of `devices`."""
    return devices()[0].platform


@contextlib.contextmanager
def compiling_for(target: Sequence[Device]) -> Iterator[None]:
    """Experiments that are made and steps that are traced inside are for these devices.

    They need not be there: of a description of a TPU (`synth.topologies`) programs are compiled,
    with all that differs between platforms as on a TPU, and cannot be run.
    """
    token = _TARGET.set(target)
    try:
        yield
    finally:
        _TARGET.reset(token)


def jit(function: Callable[..., Any], **options: Any) -> Any:
    """`jax.jit` with options by platform.

    On a CPU, LLVM's first level: the products are library calls, which it does not touch, and the
    rest compiled in 70 to 80% of the time with no slower a training step (one measurement on a
    busy 2-core machine; decoding was not measured). Elsewhere, and where XLA_FLAGS names a level,
    the defaults.
    """
    chosen = _LEVEL in os.environ.get("XLA_FLAGS", "")
    compiler_options = {_LEVEL: 1} if platform() == "cpu" and not chosen else None
    return jax.jit(function, compiler_options=compiler_options, **options)


@contextlib.contextmanager
def rows_split_as(sharding: jax.sharding.Sharding) -> Iterator[None]:
    """Models that are traced inside split the rows of the stream of the residuals like that."""
    token = _ROWS.set(sharding)
    try:
        yield
    finally:
        _ROWS.reset(token)


def split_rows(x: jax.Array) -> jax.Array:
    """x, its first axis split as `rows_split_as` says, and in the backward pass its gradient.

    Left to itself the partitioner takes the split of the embedding over fsdp for that of the
    stream: each device then computes the rows of four, say, and most products are summed over
    devices.
    """
    sharding = _ROWS.get(None)
    return x if sharding is None else jax.lax.with_sharding_constraint(x, sharding)


def stored(x: jax.Array) -> jax.Array:
    """x, and in the backward pass its gradient, computed once.

    XLA's CPU back end fuses a sum into each of its readers. The stream of the residuals is a sum
    with as many terms as there are sub-layers, and every one of them would add up all terms before
    it again; the gradient those after it. Elsewhere the compiler is left to choose.
    """
    return jax.lax.optimization_barrier(x) if platform() == "cpu" else x
