"""Checkpoints of a run: state, data position and meta, in one Orbax step directory each.

The state is saved as plain dicts of arrays and restored onto any mesh. A checkpoint counts only
when it is complete: Orbax writes beside and renames, so that a run killed during a save goes on
from the one before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import preservation_policy

from synth import distributed
from synth.errors import UserError
from synth.files import in_bucket


@dataclasses.dataclass(frozen=True)
class Restored:
    """What a checkpoint holds: the state tree, the data iterator's state, and meta."""

    step: int
    state: Any
    data: Any
    meta: dict[str, Any]


class Checkpoints:
    """Saves and restores checkpoints below `directory`; keeps the last `keep` and the best one.

    "Best" is the lowest validation loss among the checkpoints saved with one.
    """

    def __init__(self, directory: Path, *, keep: int):
        def loss(metrics):
            return metrics["loss"]

        policy = preservation_policy.AnyPreservationPolicy(
            [
                preservation_policy.LatestN(n=keep),
                preservation_policy.BestN(
                    get_metric_fn=loss, reverse=True, n=1, keep_checkpoints_without_metrics=False
                ),
            ]
        )
        options = ocp.CheckpointManagerOptions(
            best_fn=loss, best_mode="min", preservation_policy=policy, create=True
        )
        self._directory = directory
        # Orbax wants no relative paths; those of buckets never are, and etils would spoil them.
        place = directory if in_bucket(directory) else directory.absolute()
        self._manager = ocp.CheckpointManager(place, options=options)
        # It would ask with the number of a step, which `stopping.Stop` does with other numbers.
        self._manager.reached_preemption = lambda step: False

    def latest(self) -> int | None:
        """The newest complete step, or None."""
        return self._manager.latest_step()

    def resolve(self, which: str) -> int:
        """The step that 'best', 'last' or a number stands for.

        Raises:
          UserError: if there is no such checkpoint; the message lists the steps that exist.
        """
        steps = self._manager.all_steps()
        if not steps:
            raise UserError(f"there is no checkpoint in {self._directory}")
        if which == "last":
            return steps[-1]
        if which == "best":
            return self._manager.best_step() or steps[-1]
        if which.isdecimal() and int(which) in steps:
            return int(which)
        known = ", ".join(map(str, steps))
        raise UserError(
            f"no checkpoint {which!r} in {self._directory}; known: best, last, and steps {known}"
        )

    def up_to(self, step: int, count: int) -> list[int]:
        """The last `count` steps that are kept, up to `step`.

        Raises:
          UserError: if fewer are.
        """
        steps = [kept for kept in self._manager.all_steps() if kept <= step]
        if not 1 <= count <= len(steps):
            known = ", ".join(map(str, steps))
            raise UserError(
                f"--average={count}: {self._directory} keeps {len(steps)} up to step {step} "
                f"({known}); train with a larger train.keep_checkpoints for more"
            )
        return steps[-count:]

    def save(
        self, step: int, state: Any, data: Any, meta: Mapping[str, Any], loss: float | None
    ) -> None:
        """Saves in the background what a run needs to go on after `step`.

        Args:
          step: updates done.
          state: tree of arrays.
          data: JSON-able state of the data iterator.
          meta: JSON-able facts to check on resuming.
          loss: validation loss at this step, if it was evaluated.

        Raises:
          UserError: if this save, or the one before it, could not be written.
        """
        if step in self._manager.all_steps():
            return
        args = ocp.args.Composite(
            state=ocp.args.StandardSave(state),
            data=ocp.args.JsonSave({"iterator": data}),
            meta=ocp.args.JsonSave(dict(meta)),
        )
        metrics = None if loss is None else {"loss": loss}
        self._guard(lambda: self._manager.save(step, args=args, metrics=metrics))

    def restore(self, step: int, abstract_state: Any, *, vocabulary: str) -> Restored:
        """Reads the checkpoint of `step` into the shapes and shardings of `abstract_state`.

        Raises:
          UserError: if its arrays are not those of the model, or its tokens not those of the
            vocabulary with that hash.
        """
        meta = self.check_vocabulary(step, vocabulary)  # first: its size is that of an array
        restored = self._read(
            step, state=ocp.args.StandardRestore(abstract_state), data=ocp.args.JsonRestore()
        )
        self._check_shapes(step, abstract_state, restored.state)
        return Restored(step, restored.state, restored.data["iterator"], meta)

    def check_vocabulary(self, step: int, vocabulary: str) -> dict[str, Any]:
        """Meta of a checkpoint; UserError if its tokens are not those of that vocabulary."""
        meta = self._read(step, meta=ocp.args.JsonRestore()).meta
        if (trained := meta["vocabulary"]) != vocabulary:
            raise UserError(
                f"the checkpoint {self._directory / str(step)} was trained with the vocabulary "
                f"{trained[:16]}, but the one of the run is {vocabulary[:16]}"
            )
        return meta

    def _read(self, step: int, **parts: Any) -> Any:
        try:
            return self._manager.restore(step, args=ocp.args.Composite(**parts))
        except (ValueError, KeyError, OSError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(
                f"the checkpoint {self._directory / str(step)} cannot be read, or is of another "
                f"model: {reason:.300}. Without that directory the run goes on from the one before"
            ) from error

    def _check_shapes(self, step: int, abstract_state: Any, state: Any) -> None:
        """Orbax gives an array the shape it was saved with, whatever was asked for."""
        wanted = jax.tree_util.tree_leaves_with_path(abstract_state)
        for (path, expected), found in zip(wanted, jax.tree.leaves(state), strict=True):
            if expected.shape != found.shape:
                raise UserError(
                    f"the checkpoint {self._directory / str(step)} is of another model: "
                    f"{jax.tree_util.keystr(path)} has the shape {found.shape}, not "
                    f"{expected.shape}"
                )

    def wait(self) -> None:
        """Returns when everything is on disk; raises UserError if something could not be."""
        self._guard(self._manager.wait_until_finished)

    def close(self) -> None:
        """Waits, and frees the manager; raises UserError if something could not be written."""
        try:
            self.wait()
        finally:
            self._guard(self._manager.close)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        """Closes, unless a save in progress would wait for a process that does not come."""
        if jax.process_count() > 1 and isinstance(error, KeyboardInterrupt):
            return
        if error is None or not distributed.loss_of_peer(error):
            self.close()

    def _guard(self, work) -> None:
        try:
            work()
        except (OSError, ValueError, RuntimeError) as error:
            if distributed.loss_of_peer(error):
                raise
            reason = str(error).strip().splitlines()[0]
            latest = self.latest()
            kept = (
                "none is complete yet" if latest is None else f"last complete one is step {latest}"
            )
            raise UserError(
                f"could not write a checkpoint to {self._directory}: {reason:.300}; {kept}. The "
                "same command goes on from it"
            ) from error
