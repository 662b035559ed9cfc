"""A run of a sweep: its name, and the commands that train and score it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synth import configuration
from synth.configuration import Config
from synth.results import row_key

TRAIN, EVAL = "train", "eval"
_ROOT = Path(__file__).parents[2]
_LONGEST = 120  # characters of a name; file systems take 255 bytes, with what is added to it
_HASH = 8


@dataclasses.dataclass(frozen=True)
class Run:
    """A config, as the command line names it.

    Attributes:
      task: names the config file.
      row: variant, and mix unless it is the default, as in the tables: `random+vanilla;mix=sum`.
      scale, seed: of the row.
      overrides: dotted key -> value, where it differs from the named config.
    """

    task: str
    row: str
    scale: str
    seed: int
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def config_name(self) -> str:
        """What --config takes."""
        variant, _, mix = self.row.partition(";")
        parts = [f"configs/{self.task}.py:{variant}", f"scale={self.scale}"]
        parts += [mix] if mix else []
        parts += [f"seed={self.seed}"] if self.seed else []
        return ",".join(parts)

    @property
    def name(self) -> str:
        """A readable part and a hash of all that makes the run; the same wherever it is made."""
        parts = [self.task, self.row.replace(";mix=", "-"), self.scale, f"seed{self.seed}"]
        parts += [
            f"{key.rpartition('.')[2]}={as_flag(value).strip('(,)')}"
            for key, value in sorted(self.overrides.items())
            if "/" not in str(value)  # a path says little and is long
        ]
        readable = re.sub(r"[^A-Za-z0-9.+_=-]", "_", "-".join(parts))
        return f"{readable[:_LONGEST]}-{self.hash}"

    @property
    def hash(self) -> str:
        """Hex digits of the config file's name, the row and the overrides."""
        made_of = [f"configs/{self.task}.py", self.row, self.scale, self.seed, self.overrides]
        text = json.dumps(made_of, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_HASH]

    def config(self) -> Config:
        """The config with its overrides."""
        config = configuration.canonical(configuration.load(self.config_name))
        config.update_from_flattened_dict(dict(self.overrides))
        return config

    @property
    def flags(self) -> list[str]:
        """--config and the overrides, as train.py takes them."""
        named = [f"--config.{key}={as_flag(v)}" for key, v in sorted(self.overrides.items())]
        return [f"--config={self.config_name}", *named]

    @classmethod
    def make(
        cls, task: str, variant: str, mix: str, scale: str, seed: int, overrides: Mapping[str, Any]
    ) -> Run:
        """The run of a config's values; mixes of one term are all one run."""
        return cls(task, row_key(variant, mix), scale, seed, dict(overrides))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Run:
        """Reads what `dataclasses.asdict` and JSON made of a run."""
        overrides = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in values["overrides"].items()
        }
        return cls(**{**values, "overrides": overrides})


def as_flag(value: Any) -> str:
    """A value as a flag takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"({','.join(map(repr, value))}{',' * (len(value) == 1)})"
    return str(value)


@dataclasses.dataclass(frozen=True)
class Commands:
    """The commands of a run, to be started in the directory that holds `configs`.

    Attributes:
      folder: of the sweep.
      results: directory of the run store.
      flags: further flags of both commands.
    """

    folder: Path
    results: str = "results"
    flags: Sequence[str] = ()

    def __call__(self, run: Run, phase: str) -> list[str]:
        """The command of a phase, for this machine's Python."""
        script, *flags = self.shown(run, phase)[1:]
        return [sys.executable, str(_ROOT / script), *flags]

    def shown(self, run: Run, phase: str) -> list[str]:
        """The command of a phase, as people type it."""
        workdir = f"--workdir={self.folder / run.name}"
        if phase == TRAIN:
            return ["python", "train.py", *run.flags, workdir, *self.flags]
        return ["python", "eval.py", workdir, f"--results={self.results}", *self.flags]
