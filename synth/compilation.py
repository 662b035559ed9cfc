"""How programs are compiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax

_LEVEL = "xla_backend_optimization_level"


def jit(function: Callable[..., Any], **options: Any) -> Any:
    """`jax.jit` with options by platform.

    On a CPU, LLVM's first level: the products are library calls, which it does not touch, and the
    rest compiled in 70 to 80% of the time with no slower a training step (one measurement on a
    busy 2-core machine; decoding was not measured). Elsewhere, and where XLA_FLAGS names a level,
    the defaults.
    """
    chosen = _LEVEL in os.environ.get("XLA_FLAGS", "")
    compiler_options = {_LEVEL: 1} if jax.default_backend() == "cpu" and not chosen else None
    return jax.jit(function, compiler_options=compiler_options, **options)


def stored(x: jax.Array) -> jax.Array:
    """x, and in the backward pass its gradient, computed once.

    XLA's CPU back end fuses a sum into each of its readers. The stream of the residuals is a sum
    with as many terms as there are sub-layers, and every one of them would add up all terms before
    it again; the gradient those after it. Elsewhere the compiler is left to choose.
    """
    return jax.lax.optimization_barrier(x) if jax.default_backend() == "cpu" else x
