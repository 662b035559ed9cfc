"""`--set config.KEY=VALUE,VALUE`: values of a key of the config, each of which makes a run."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from synth import configuration
from synth.configuration import Config
from synth.errors import UserError

_ROW_KEYS = {
    "seed": "--seeds",
    "scale": "--scale",
    "data.task": "--configs",
    "model.attention.variant": "--variants",
    "model.attention.mix": "--variants",
}


@dataclasses.dataclass(frozen=True)
class Assignment:
    """A key of the config and the values it is to take, still as text."""

    key: str
    values: tuple[str, ...]


def parse(texts: Sequence[str]) -> list[Assignment]:
    """Reads the values of --set.

    Raises:
      UserError: for what is no `config.KEY=VALUES`, a key given twice, or one that the row decides.
    """
    found: dict[str, Assignment] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not key.startswith("config.") or not equals:
            raise UserError(
                f"--set {text} must be config.KEY=VALUE[,VALUE...], as "
                "config.optimizer.learning_rate=0.5,1.0"
            )
        key = key.removeprefix("config.")
        if key in _ROW_KEYS:
            raise UserError(f"--set config.{key}: the row decides that; use {_ROW_KEYS[key]}")
        if key in found:
            raise UserError(f"--set config.{key} is given twice; name all values in one list")
        found[key] = Assignment(key, tuple(_split(values)))
    return list(found.values())


def _split(text: str) -> list[str]:
    """Splits at the commas outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        depth += not quote and (letter in "([") - (letter in ")]")
        if letter == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def products(assignments: Sequence[Assignment], config: Config) -> Iterator[dict[str, Any]]:
    """All combinations of the values, as overrides of a named config: what it has is left out.

    Raises:
      UserError: for a key that the config lacks, or a value of another type than its own.
    """
    for assignment in assignments:
        configuration.check_key(assignment.key, config)
    leaves = configuration.flatten(config)
    choices = [
        [(a.key, _value(a.key, text, leaves[a.key])) for text in a.values] for a in assignments
    ]
    for chosen in itertools.product(*choices):
        yield {key: value for key, value in chosen if value != leaves[key]}


def _value(key: str, text: str, old: Any) -> Any:
    """`text` as a value of the type of `old`."""
    try:
        return _READERS[type(old)](text, old)
    except (ValueError, SyntaxError, KeyError) as error:
        hint = " (a tuple stands in brackets)" if isinstance(old, tuple) else ""
        raise UserError(
            f"--set config.{key}={text} must be of type {type(old).__name__}, as {old!r}{hint}"
        ) from error


def _bool(text: str, old: bool) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _tuple(text: str, old: tuple[Any, ...]) -> tuple[Any, ...]:
    value = ast.literal_eval(text)
    if not isinstance(value, tuple) or any(type(x) is not type(old[0]) for x in value):
        raise ValueError
    return value


def _str(text: str, old: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


_READERS = {
    bool: _bool,
    int: lambda text, old: int(text),
    float: lambda text, old: float(text),
    str: _str,
    tuple: _tuple,
}
