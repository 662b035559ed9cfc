"""One pass of a jitted function over all examples of a split, on every process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from tqdm import tqdm

from data.pipelines import EvalBatches
from synth import sharding
from synth.errors import UserError
from synth.experiment import Experiment, layout
from synth.progress import say
from synth.stopping import Stop

Step = Callable[[dict[str, jax.Array]], jax.Array]


def run_pass(
    experiment: Experiment, batches: EvalBatches, step: Step, what: str
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """(result, batch) of each batch, as whole numpy arrays; says what was cut, shows progress.

    Args:
      experiment: its mesh runs the step.
      batches: this process's rows.
      step: batch of global arrays -> array with a row for each row of the batch.
      what: is being done, in a word.
    """
    if batches.truncated:
        say(
            f"{batches.truncated} of {batches.examples} examples "
            f"({batches.truncated / batches.examples:.1%}) are longer than the model takes "
            f"({layout(experiment.config, experiment.task).limits}) and were cut there"
        )
    stop = Stop()
    if not sys.stderr.isatty():
        say(f"{what}: {len(batches)} batches")
    for batch in tqdm(batches, desc=what, unit="batch", dynamic_ncols=True, disable=None):
        if jax.process_count() > 1 and stop.requested():
            raise UserError("stopped by a signal; the same command scores again")
        arrays = sharding.to_devices(batch, experiment.mesh)
        yield _gathered((step(arrays), arrays))


def _gathered(arrays: Any) -> Any:
    """The global arrays as numpy arrays, on every process."""
    if jax.process_count() == 1:
        return jax.device_get(arrays)
    return multihost_utils.process_allgather(arrays, tiled=True)
