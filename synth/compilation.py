"""How programs are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax


def jit(function: Callable[..., Any], **options: Any) -> Any:
    """`jax.jit` with options by platform.

    On a CPU, LLVM's first level: the products are library calls, which it does not touch, and the
    rest compiles in two thirds of the time and runs no slower. Elsewhere, the defaults.
    """
    on_cpu = jax.default_backend() == "cpu"
    compiler_options = {"xla_backend_optimization_level": 1} if on_cpu else None
    return jax.jit(function, compiler_options=compiler_options, **options)
