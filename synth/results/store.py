"""The run store: one JSON line per figure, appended by any number of processes at once.

A figure is identified by what was trained (task, row, scale, overrides, seed), at which step, and
how it was scored (data set, split, metric, decoding settings). The store only grows; a figure that
was measured again, on another machine or at a later step, replaces the older one when it is read.
"""

import fcntl
import json
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from synth.errors import UserError
from synth.results import values
from synth.variants import MIXES, in_order

SCALES = ("paper", "small", "tiny")
DEFAULT_MIX = "softmax"


class ResultsError(UserError):
    """A figure, a store or a page that cannot be read or used; says where."""


def row_key(variant: str, mix: str | None) -> str:
    """The name of a table row: terms in the paper's order, and the mix unless it is the default.

    `random+vanilla` with `sum` is `random+vanilla;mix=sum`. One term alone has nothing to mix.
    """
    name = "+".join(in_order(variant.split("+")))
    if "+" not in name or mix in (None, DEFAULT_MIX):
        return name
    return f"{name};mix={mix}"


@dataclass(frozen=True, kw_only=True)
class Record:
    """One figure and everything needed to trust it, repeat it and place it in a table.

    Checked when made: a wrong type, a value that is not finite, out of its metric's range or not
    what its sums give, or a date that is not UTC is a ResultsError that names the field. `settings`
    are choices (beam, alpha) and part of the identity; `sums` are what the value was computed from
    (nll, tokens, words, bytes) and are not.
    """

    run: str  # hash of the config
    task: str
    variant: str
    mix: str | None
    scale: str
    overrides: dict[str, Any]  # dotted config key -> value, where it differs from the named config
    seed: int
    step: int
    dataset: str
    split: str
    n_items: int
    test_set_sha256: str
    metric: str
    value: float
    signature: str
    settings: dict[str, Any]
    sums: dict[str, Any]
    empty_outputs: int | None
    params: int | None
    versions: dict[str, Any]
    commit: str
    dirty: bool
    device: str
    date: str  # ISO 8601, UTC
    train_seconds: float | None
    eval_seconds: float | None
    command: str | list[str]
    eval_command: str | list[str]

    def __post_init__(self):
        for name, kind in _KINDS.items():
            _check_type(name, getattr(self, name), kind)
        _check_choice("scale", self.scale, SCALES)
        _check_choice("mix", self.mix, (None, *MIXES))
        _parse_date(self.date)
        if problem := values.problem(self.metric, self.value, self.sums):
            raise ResultsError(problem)
        self.to_json()

    @property
    def row(self) -> str:
        """The table row this figure belongs to."""
        return row_key(self.variant, self.mix)

    @property
    def identity(self) -> str:
        """What the figure is of, without the step: two of these never stand in one table."""
        scored = (self.dataset, self.split, self.metric, self.settings)
        return canonical([self.task, self.row, self.scale, self.overrides, self.seed, *scored])

    @property
    def when(self) -> datetime:
        return _parse_date(self.date)

    def to_json(self) -> str:
        """One line of the store, without its newline."""
        try:
            return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ResultsError(f"not storable as JSON: {error}") from error

    @classmethod
    def from_json(cls, line: str) -> "Record":
        """Reads what `to_json` wrote; unknown or missing fields are named in the ResultsError."""
        try:
            values = json.loads(line, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            raise ResultsError(f"not JSON: {error}") from error
        if not isinstance(values, dict):
            raise ResultsError(f"not a JSON object: {line:.60}")
        missing, unknown = _KINDS.keys() - values.keys(), values.keys() - _KINDS.keys()
        if missing or unknown:
            raise ResultsError(f"missing fields {sorted(missing)}, unknown {sorted(unknown)}")
        return cls(**values)


def _classes(hint: Any) -> tuple[type, ...]:
    """`list[str] | None` -> (list, NoneType): what isinstance takes."""
    parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return tuple(get_origin(part) or part for part in parts)


_KINDS = {name: _classes(hint) for name, hint in get_type_hints(Record).items()}


def _check_type(name: str, value: object, kinds: tuple[type, ...]):
    allowed = (*kinds, int) if float in kinds else kinds
    # bool is an int to isinstance, and a seed `true` is a mistake.
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(k.__name__ for k in kinds)
        raise ResultsError(f"{name} must be {wanted}, got {type(value).__name__} {value!r:.60}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ResultsError(f"{name} must be finite, got {value!r}")


def _check_choice(name: str, value: object, choices: tuple[object, ...]):
    if value not in choices:
        raise ResultsError(f"{name} must be one of {choices}, got {value!r}")


def _parse_date(text: str) -> datetime:
    try:
        date = datetime.fromisoformat(text)
    except ValueError as error:
        raise ResultsError(f"date must be ISO 8601, got {text!r}") from error
    if date.utcoffset() != UTC.utcoffset(None):
        raise ResultsError(f"date must be in UTC (end in Z or +00:00), got {text!r}")
    return date


def _refuse_constant(name: str):
    raise ResultsError(f"{name} is not a number to average")


def canonical(value: object) -> str:
    """Equal JSON values give equal strings, whatever the order of their keys."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def load(path: Path) -> list[Record]:
    """The figures that count: of each identity the newest date, the later line if dates are equal.

    In order of identity, whatever the order of the lines. No file is an empty store. All bad lines
    are reported together, each as `path:line: reason`, in one ResultsError.
    """
    newest = _newest((r for _, r in load_lines(path)), lambda record: record.identity)
    return [newest[identity] for identity in sorted(newest)]


def load_lines(path: Path) -> list[tuple[int, Record]]:
    """Every line that the store holds, with its number from 1; bad lines as `load` tells them."""
    return _parse(path, _read(path))


def last_line(path: Path) -> int:
    """The number of the store's last line; 0 if it has none."""
    return _read(path).count(b"\n")


def _read(path: Path) -> bytes:
    if not path.exists():
        return b""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # a writer may be half-way through a line
        return file.read()


def _newest(records: Iterable[Record], key: Callable[[Record], Any]) -> dict[Any, Record]:
    newest: dict[Any, Record] = {}
    for record in records:
        held = newest.get(key(record))
        if held is None or record.when >= held.when:
            newest[key(record)] = record
    return newest


def append(path: Path, records: Iterable[Record]) -> int:
    """Adds records and returns how many; what the store already says is not said twice.

    A figure that equals the newest one of its identity and step is left out, so repeating a run
    that gives the same figures changes nothing. Safe under concurrent writers: the file is locked
    while it is read and written, the new lines go in one write, and reach the disk before return.
    A store with bad lines is left as it is (ResultsError).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file closes
        file.seek(0)
        data = file.readall()
        lines = _new_lines((record for _, record in _parse(path, data)), records)
        if lines:
            gap = b"\n" if data and not data.endswith(b"\n") else b""
            _write(file, gap + b"".join(line.encode("utf-8") + b"\n" for line in lines), len(data))
    return len(lines)


def _new_lines(stored: Iterable[Record], records: Iterable[Record]) -> list[str]:
    newest = _newest(stored, _measurement)
    lines = []
    for record in records:
        held = newest.get(_measurement(record))
        if held is None or _finding(held) != _finding(record):
            newest[_measurement(record)] = record
            lines.append(record.to_json())
    return lines


def _measurement(record: Record) -> tuple[str, int]:
    return record.identity, record.step


def _finding(record: Record) -> tuple[object, ...]:
    """What was found, and on which text: the same value on another test set is news."""
    return record.value, record.signature, record.n_items, record.test_set_sha256


def _write(file: Any, data: bytes, size: int):
    """Appends all of `data` or nothing: a half line would spoil the store for everyone."""
    if file.write(data) != len(data):
        file.truncate(size)
        raise OSError(f"{file.name}: could not write {len(data)} bytes; left as it was")
    os.fsync(file.fileno())


def _parse(path: Path, data: bytes) -> list[tuple[int, Record]]:
    records, problems = [], []
    # Not splitlines(): it also splits at characters that JSON strings may hold.
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            records.append((number, Record.from_json(line.decode("utf-8"))))
        except (ResultsError, UnicodeDecodeError) as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        raise ResultsError("\n".join(problems))
    return records
