"""The run directory: what was run, its metrics, its vocabulary. All that evaluation needs.

run.json           name, overrides and config of the run, and the command that made it
vocabulary.model   the sentencepiece model its tokens are of
metrics.jsonl      one line per logging or evaluation step
events.*           the same for TensorBoard
checkpoints/       see `checkpoints.py`
lock               held while it is trained (`locks.py`); eval/lock while it is scored
heartbeat/         of several processes, what each is doing (`heartbeat.py`)
profile/           of the steps that were asked for (`profile.py`)
eval/              hypotheses and scores (`evaluation.py`)
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data.tokenizer import Tokenizer
from synth import configuration, locks
from synth.configuration import Config
from synth.errors import UserError
from synth.files import (
    append_text,
    in_bucket,
    locate,
    read_text,
    write_bytes,
    write_text,
    written_here,
)

# Keys and sections that may change when a run goes on: they do not change what a step computes.
# The T2T schedule does not depend on the number of steps, so a longer run is the same run.
_FREE = (
    "train.num_steps",
    "train.log_every",
    "train.eval_every",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "model.remat",
    "data.data_dir",
    "decode.",
    "sharding.",
)


@dataclasses.dataclass(frozen=True)
class RunInfo:
    """Contents of run.json."""

    name: str
    overrides: dict[str, Any]
    config: Config
    command: str

    @property
    def config_hash(self) -> str:
        """Twelve hex digits that differ between runs of different configs."""
        text = json.dumps(self.config.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class RunDir:
    """Paths and files of one run; `path` may be in a bucket (`files.locate`)."""

    def __init__(self, path: str | Path):
        self.path = locate(path)
        self.checkpoints = self.path / "checkpoints"
        self.vocabulary = self.path / "vocabulary.model"
        self.metrics = self.path / "metrics.jsonl"
        self.eval = self.path / "eval"
        self._info = self.path / "run.json"

    def exists(self) -> bool:
        """Whether the directory holds a run."""
        return self._info.is_file()

    def check(self, info: RunInfo) -> None:
        """Raises UserError unless this is a new directory or one of the same run."""
        if self._info.exists():
            self._check_same(info)
        elif self.path.exists() and not self.path.is_dir():
            raise UserError(f"--workdir={self.path} is a file; name a directory")
        elif self.path.exists() and any(not _is_draft(path) for path in self.path.iterdir()):
            raise UserError(
                f"--workdir={self.path} is not empty and holds no run; name a new directory"
            )

    def begin(self, info: RunInfo) -> None:
        """Creates the directory of a new run, or checks that it is one of the same run.

        Raises:
          UserError: if it holds another run; the message names the keys that differ.
        """
        self.check(info)
        self.make()
        record = dataclasses.asdict(info) | {"config": info.config.to_dict()}
        write_text(self._info, json.dumps(record, indent=2, sort_keys=True) + "\n")

    def make(self) -> None:
        """Makes the directory."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make --workdir={self.path}: {error.strerror}") from error

    def _check_same(self, info: RunInfo) -> None:
        old, new = self.info().config, info.config
        changed = {
            key: value
            for key, value in configuration.difference(old, new).items()
            if not key.startswith(_FREE)
        }
        if changed:
            before = configuration.flatten(old)
            told = ", ".join(
                f"{key} was {before.get(key)!r}, is {changed[key]!r}" for key in changed
            )
            raise UserError(
                f"--workdir={self.path} holds another run: {told}. Name a new directory, or the "
                "config it was started with"
            )

    def check_free(self) -> None:
        """Raises UserError if a process trains the run; it says which."""
        if not in_bucket(self.path) and (who := locks.holder(self.path / "lock")):
            raise UserError(f"--workdir={self.path} is in use by {who}")

    def hold_training(self) -> contextlib.AbstractContextManager:
        """Held by the process that trains the run: a second one would spoil its log.

        Raises:
          UserError: if another one does; it says which. Buckets have no locks.
        """
        return self._hold(self.path, f"--workdir={self.path}")

    def hold_scoring(self) -> contextlib.AbstractContextManager:
        """The same for evaluation, which may go on beside training."""
        return self._hold(self.eval, f"the evaluation of --workdir={self.path}")

    def _hold(self, folder: Path, what: str) -> contextlib.AbstractContextManager:
        if in_bucket(folder):
            return contextlib.nullcontext()
        return locks.hold(folder / "lock", what)

    def info(self) -> RunInfo:
        """What run.json says; UserError if this is no run directory."""
        if not self.exists():
            raise UserError(f"--workdir={self.path} holds no run (it has no run.json)")
        try:
            record = json.loads(read_text(self._info))
            config = configuration.from_dict(record["config"])
            return RunInfo(record["name"], record["overrides"], config, record["command"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self._info} cannot be read: {error!r}") from error

    def set_vocabulary(self, tokenizer: Tokenizer) -> None:
        """Puts the vocabulary into a new run; in an old one it must be the same."""
        if not self.vocabulary.exists():
            write_bytes(self.vocabulary, tokenizer.model)  # one process after the other
        old = Tokenizer.load(self.vocabulary).hash
        if old != tokenizer.hash:
            raise UserError(
                f"--workdir={self.path} was started with the vocabulary {old[:16]}, but the data "
                f"now gives {tokenizer.hash[:16]}; name a new directory"
            )

    def read_metrics(self) -> list[dict[str, Any]]:
        """The complete lines of metrics.jsonl; a line cut off by a crash is left out."""
        if not self.metrics.exists():
            return []
        records = []
        for line in read_text(self.metrics).splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                break
            if not isinstance(record, dict) or not {"step", "timing"} <= record.keys():
                raise UserError(f"{self.metrics} holds a line that is no record: {line:.60}")
            records.append(record)
        return records


class MetricsLog:
    """Appends to metrics.jsonl and to TensorBoard's event file."""

    def __init__(self, run: RunDir, step: int):
        """Opens the log of a run that goes on after `step`: what was logged later is dropped.

        Without that, a run killed between a checkpoint and its next one would log steps twice.
        """
        from tensorboardX import SummaryWriter

        kept = [record for record in run.read_metrics() if record["step"] <= step]
        write_text(run.metrics, "".join(json.dumps(record) + "\n" for record in kept))
        # Seconds of training that earlier starts of the run took.
        self.seconds = max((record["timing"].get("seconds", 0.0) for record in kept), default=0.0)
        # All of their seconds, by part.
        timings = [record["timing"] for record in kept if "parts" in record["timing"]]
        self.parts: dict[str, float] = timings[-1]["parts"] if timings else {}
        self._path = run.metrics
        # A bucket gets the events at the end: sent from TensorBoard's thread, a failure would go
        # unseen until its queue is full, and training would wait for ever.
        self._written = contextlib.ExitStack()
        folder = self._written.enter_context(written_here(run.path))
        self._events = SummaryWriter(str(folder), purge_step=step + 1, write_to_disk=True)

    def write(self, step: int, values: Mapping[str, float], **timing: Any) -> None:
        """Logs values of `step`; `timing` differs between runs, the values do not."""
        for name, value in values.items():
            if math.isfinite(value):
                self._events.add_scalar(name, value, step)
        record = {"step": step, **values, "timing": timing}
        append_text(self._path, json.dumps(record) + "\n")

    def close(self) -> None:
        """Writes out what is buffered."""
        self._events.close()
        self._written.close()


def _is_draft(path: Path) -> bool:
    """What a start that was killed before it wrote run.json may have left."""
    return path.name.startswith(".run.json.") or path.name == "lock"
