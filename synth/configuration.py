"""Reading a config: by name, from the command line, and from a run directory."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict, config_flags

from synth.errors import UserError
from synth.files import local
from synth.variants import check_mix, parse_variant

# A ConfigDict. Its leaves have the types that the config files give them, which a type checker
# cannot know.
Config = Any


def load(name: str) -> Config:
    """The config a name such as `configs/wmt_ende.py:random+vanilla,scale=small` stands for.

    Raises:
      UserError: if there is no such file, or the row after the colon is not one.
    """
    path_name, _, arg = name.partition(":")
    path = Path(path_name)
    if not path.is_file():
        known = sorted(
            str(p) for p in Path("configs").glob("*.py") if p.stem not in ("__init__", "common")
        )
        raise UserError(f"no config file {path_name!r}; known here: {', '.join(known) or 'none'}")
    module = runpy.run_path(str(path))
    if "get_config" not in module:
        raise UserError(f"{path_name} is no config file: it defines no get_config")
    try:
        config = module["get_config"](arg)
    except ValueError as error:
        raise UserError(f"--config={name}: {error}") from error
    return config


def canonical(config: Config) -> Config:
    """Checks the attention and puts its terms in the order of the tables, in place.

    Raises:
      UserError: for an unknown variant or mix.
    """
    attention = config.model.attention
    try:
        names = parse_variant(attention.variant)
        check_mix(attention.mix, len(names))
    except ValueError as error:
        raise UserError(str(error)) from error
    attention.variant = "+".join(names)
    return config


class Flag:
    """`--config=FILE:ROW` with overrides `--config.section.key=value`, as absl flags."""

    def __init__(self):
        self.name = ""
        self.overrides: dict[str, Any] = {}
        self._holder = None
        self._named: Config = None

    def define(self, argv: Sequence[str]) -> list[str]:
        """Loads the config named in `argv` and defines a flag for each of its leaves.

        Returns:
          argv without `--config` itself.

        Raises:
          UserError: for a missing or wrong config, or an override of a key that it lacks.
        """
        rest, names = _take_config(argv)
        rest = [arg.replace("-", "--", 1) if arg.startswith("-config.") else arg for arg in rest]
        if not names:
            if any(arg.startswith("--config.") for arg in argv):
                raise UserError("--config.KEY=VALUE needs --config=FILE:ROW")
            return rest
        self.name = names[-1]
        self._named = canonical(load(self.name))
        for arg in rest:
            if arg.startswith("--config."):
                check_key(arg.removeprefix("--config.").partition("=")[0], self._named)
        self._holder = config_flags.DEFINE_config_dict("config", load(self.name), sys_argv=rest)
        return rest

    def value(self) -> Config:
        """The config after the overrides; raises UserError if none was named."""
        if self._holder is None:
            raise UserError(
                "name a config: --config=configs/TASK.py:VARIANT[,scale=small], for example "
                "--config=configs/wmt_ende.py:random+vanilla,scale=small"
            )
        config = canonical(self._holder.value)
        if config.scale != self._named.scale:
            raise UserError(
                f"--config.scale={config.scale} does not change the scale; name it in the row: "
                f"--config=FILE:VARIANT,scale={config.scale}"
            )
        self.overrides = difference(self._named, config)
        _check_tuples(self._named, self.overrides)
        return config


def _take_config(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    rest, names = [], []
    arguments = iter(argv)
    for arg in arguments:
        if arg in ("--config", "-config"):
            names.append(next(arguments, ""))
        elif arg.startswith(("--config=", "-config=")):
            names.append(arg.partition("=")[2])
        else:
            rest.append(arg)
    return rest, names


def check_key(key: str, config: Config) -> None:
    """Raises UserError, with the keys near it, unless a dotted key is a leaf of the config."""
    leaves = flatten(config)
    if key in leaves:
        return
    if inside := [leaf for leaf in leaves if leaf.startswith(f"{key}.")]:
        raise UserError(f"{key!r} is a section of the config; set its keys: {', '.join(inside)}")
    section = key.rpartition(".")[0]
    near = [leaf for leaf in leaves if leaf.startswith(f"{section}.")] if section else []
    raise UserError(
        f"the config has no key {key!r}; known{f' in {section}' if near else ''}: "
        f"{', '.join(near or leaves)}"
    )


def _check_tuples(named: Config, overrides: dict[str, Any]) -> None:
    """The flags library takes a tuple of anything for a tuple of numbers."""
    before = flatten(named)
    for key, value in overrides.items():
        old = before[key]
        if isinstance(old, tuple) and not all(isinstance(x, type(old[0])) for x in value):
            raise UserError(f"--config.{key}={value} must hold {type(old[0]).__name__}s, as {old}")


def flatten(config: Config, prefix: str = "") -> dict[str, Any]:
    """Dotted key -> leaf."""
    leaves = {}
    for key in config:
        value = config[key]
        if isinstance(value, ConfigDict | dict):
            leaves.update(flatten(value, f"{prefix}{key}."))
        else:
            leaves[prefix + key] = tuple(value) if isinstance(value, list) else value
    return leaves


def difference(old: Config, new: Config) -> dict[str, Any]:
    """The leaves of `new` that differ from those of `old`, by dotted key."""
    before = flatten(old)
    return {key: value for key, value in flatten(new).items() if before.get(key) != value}


def from_dict(values: dict[str, object]) -> Config:
    """The config whose `to_dict` was stored as JSON: lists become tuples again."""

    def tuples(value):
        if isinstance(value, dict):
            return {key: tuples(item) for key, item in value.items()}
        return tuple(value) if isinstance(value, list) else value

    return ConfigDict(tuples(values))


def check_settings(config: Config) -> None:
    """Raises UserError unless the numbers of the train and decode sections can be used."""
    least = {
        "train.num_steps": 1,
        "train.accumulate_steps": 1,
        "train.loss_tokens": 0,
        "train.log_every": 1,
        "train.eval_every": 1,
        "train.checkpoint_every": 1,
        "train.keep_checkpoints": 1,
        "decode.beam": 1,
        "decode.alpha": 0.0,
        "decode.extra_length": 0,
        "decode.batch_tokens": 1,
    }
    values = flatten(config)
    local("data.data_dir", values["data.data_dir"])
    for key, smallest in least.items():
        if not values[key] >= smallest:
            raise UserError(f"{key}={values[key]} must be at least {smallest}")
    if not 0.0 <= config.train.label_smoothing < 1.0:
        raise UserError(
            f"train.label_smoothing={config.train.label_smoothing} must be at least 0 and below 1"
        )
