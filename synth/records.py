"""From an evaluation to the records of the run store, with what is needed to repeat them."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

import jax

from data.tokenizer import Tokenizer
from synth import configuration
from synth.configuration import Config
from synth.evaluation import Scored
from synth.results import Record
from synth.rundir import RunDir, RunInfo

# What a figure may depend on.
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "grain", "sentencepiece", "sacrebleu", "numpy")

# Keys that say where and how often, not what; and those that a record has fields of their own for.
_NO_OVERRIDE = (
    "data.data_dir",
    "train.log_every",
    "train.eval_every",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "decode.",
    "sharding.",
    "seed",
    "model.remat",
    "model.attention.variant",
    "model.attention.mix",
)


def make_records(run: RunDir, scored: Scored, eval_command: str) -> list[Record]:
    """One record per figure of an evaluation."""
    info = run.info()
    return _records(
        info.config,
        scored,
        run=info.config_hash,
        overrides=recorded_overrides(info, scored.step),
        params=scored.params,
        versions=versions() | {"vocabulary": Tokenizer.load(run.vocabulary).hash},
        train_seconds=train_seconds(run, scored.step),
        command=info.command,
        eval_command=eval_command,
    )


def make_outside_records(
    path: Path,
    config: Config,
    overrides: dict[str, Any],
    scored: Scored,
    system: str,
    eval_command: str,
) -> list[Record]:
    """Records of the outputs in `path`; the name of the system that made them keeps its row apart
    from ours."""
    return _records(
        config,
        scored,
        run=hashlib.sha256(path.read_bytes()).hexdigest()[:12],
        overrides=overrides | {"system": system},
        params=None,
        versions=versions(),
        train_seconds=None,
        command=eval_command,
        eval_command=eval_command,
    )


def _records(config: Config, scored: Scored, **common: Any) -> list[Record]:
    commit, dirty = git_state()
    common |= dict(
        task=config.data.task,
        variant=config.model.attention.variant,
        mix=config.model.attention.mix,
        scale=config.scale,
        seed=config.seed,
        step=scored.step,
        dataset=scored.dataset,
        split=scored.split,
        n_items=scored.n_items,
        test_set_sha256=scored.sha256,
        commit=commit,
        dirty=dirty,
        device=device(),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        eval_seconds=round(scored.seconds, 1),
    )
    return [
        Record(
            metric=figure.metric,
            value=figure.value,
            signature=figure.signature,
            settings=figure.settings,
            sums=figure.sums,
            empty_outputs=figure.empty_outputs,
            **common,
        )
        for figure in scored.figures
    ]


def recorded_overrides(info: RunInfo, step: int) -> dict[str, Any]:
    """Overrides that make the run another one than its name says.

    A run scored before its end is the same as one with that many steps, and is recorded as such:
    it never stands in a table as the named run.
    """
    overrides = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in info.overrides.items()
        if not key.startswith(_NO_OVERRIDE)
    }
    if step != info.config.train.num_steps:
        overrides["train.num_steps"] = step
    return overrides


def versions() -> dict[str, str]:
    """Versions of Python and of the packages a figure may depend on."""
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), **found}


def device() -> str:
    """Kind and number of the devices, with the processor's architecture for a CPU."""
    first = jax.devices()[0]
    kind = f"cpu {platform.machine()}" if first.platform == "cpu" else first.device_kind
    return f"{jax.device_count()} x {kind}"


def git_state() -> tuple[str, bool]:
    """(commit, whether files that git tracks differ from it) of the code that runs.

    Generated results do not count: an evaluation writes them itself. Outside of a git checkout the
    commit is 'unknown'.
    """
    root = Path(configuration.__file__).parents[1]

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        ).stdout

    try:
        commit = git("rev-parse", "HEAD").strip()
        changed = git(
            "status", "--porcelain", "--untracked-files=no", "--", ".", ":!results", ":!README.md"
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown", True
    return commit, bool(changed.strip())


def train_seconds(run: RunDir, step: int) -> float | None:
    """Seconds of training up to a step, over all the times the run was started."""
    seconds = [
        record["timing"]["seconds"]
        for record in run.read_metrics()
        if record["step"] <= step and "seconds" in record["timing"]
    ]
    return round(max(seconds), 1) if seconds else None
