"""Is a row really another than vanilla? p-values, which stand in the store beside the figures.

A p-value is a record like any other, so that tables are made of the store alone. It is the record
of its figure (same row, seed, step, test set and settings) but for:

metric      the figure's and `_p_vs_vanilla`, as in `bleu_intl_p_vs_vanilla`
value       p, from 0 to 1
signature   the test: its name, number of samples, seed and library
sums        `value`, `vanilla_value`: the two figures compared; `vanilla_seed`, `vanilla_run`

`sums` tie it to its figures: one that was measured again makes the p-value stale, and it is left
out until it is computed again. `p_records` makes such records, with the tests of
`synth.metrics.significance` on lines saved in run directories, which only its caller reads.
"""

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from synth.results.store import Record, ResultsError, canonical
from synth.results.values import P_VALUE

SUFFIX = P_VALUE
LEVEL = 0.05
DAGGER = "†"
# Where a run started from is no choice of its row: each variant has a run of its own.
INIT_FROM = "train.init_from"


def is_p_value(record: Record) -> bool:
    return record.metric.endswith(SUFFIX)


def comparisons(records: Iterable[Record]) -> list[tuple[Record, Record]]:
    """(figure, vanilla's figure) for all that can be tested: of one set-up and one test set.

    Vanilla of the same seed if there is one, otherwise of the lowest seed.
    """
    figures = [record for record in records if not is_p_value(record)]
    vanilla: dict[str, dict[int, Record]] = {}
    for record in figures:
        if record.row == "vanilla":
            vanilla.setdefault(_setup(record), {})[record.seed] = record
    found = []
    for record in figures:
        seeds = vanilla.get(_setup(record), {})
        if record.row != "vanilla" and seeds:
            found.append((record, seeds.get(record.seed, seeds[min(seeds)])))
    return found


def _setup(record: Record) -> str:
    overrides = {k: v for k, v in record.overrides.items() if k != INIT_FROM}
    scored = (record.dataset, record.split, record.metric, record.settings, record.test_set_sha256)
    return canonical([record.task, record.scale, overrides, record.step, *scored])


def p_record(
    figure: Record, vanilla: Record, p: float, *, test: str, eval_command: str | list[str]
) -> Record:
    """The record of a p-value; `test` says how it was computed, with its seed and library."""
    return replace(
        figure,
        metric=figure.metric + SUFFIX,
        value=float(p),
        signature=test,
        sums={
            "value": figure.value,
            "vanilla_value": vanilla.value,
            "vanilla_seed": vanilla.seed,
            "vanilla_run": vanilla.run,
        },
        empty_outputs=None,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        eval_command=eval_command,
    )


class Comparison(Protocol):
    """What is needed of `synth.metrics.significance.Comparison`."""

    @property
    def baseline(self) -> float: ...
    @property
    def system(self) -> float: ...
    @property
    def p_value(self) -> float: ...
    @property
    def signature(self) -> str: ...


def p_records(
    records: Iterable[Record],
    compare: Callable[[Record, Record], Comparison | None],
    *,
    eval_command: str | list[str],
) -> list[Record]:
    """p-values of all figures that can be tested.

    Args:
      records: the store's.
      compare: (figure, vanilla's figure) -> the test on their lines, None where lines are missing.
      eval_command: the command that computes them.

    Raises:
      ResultsError: where lines give another figure than the store has (likelihoods aside, whose
        test compares nats a line), so that they are not the lines of that figure.
    """
    made = []
    for figure, vanilla in comparisons(records):
        found = compare(figure, vanilla)
        if found is None:
            continue
        if "nll" not in figure.sums:
            _check_same(figure, found.system)
            _check_same(vanilla, found.baseline)
        made.append(
            p_record(
                figure, vanilla, found.p_value, test=found.signature, eval_command=eval_command
            )
        )
    return made


def _check_same(figure: Record, value: float):
    if not math.isclose(figure.value, value, rel_tol=1e-6, abs_tol=1e-6):
        raise ResultsError(
            f"{figure.row}, seed {figure.seed}: the saved lines give {figure.metric} {value!r}, "
            f"the store has {figure.value!r}; score the run again"
        )


def workdir(record: Record) -> str | None:
    """The run directory that a record's commands name; None if they name none."""
    for command in (record.eval_command, record.command):
        words = shlex.split(command) if isinstance(command, str) else command
        for word, following in zip(words, [*words[1:], ""], strict=True):
            name, equals, value = word.partition("=")
            if name in ("--workdir", "-workdir"):
                return value if equals else following
    return None


def p_values(
    figures: Mapping[int, Record], tests: Iterable[Record], vanilla: Mapping[int, Record]
) -> dict[int, Record]:
    """Seed -> its p-value, of those that are about these very figures (each by its seed)."""

    def is_about(test: Record) -> bool:
        figure = figures.get(test.seed)
        base = vanilla.get(test.sums.get("vanilla_seed", test.seed))
        return (
            figure is not None
            and base is not None
            and test.metric == figure.metric + SUFFIX
            and test.step == figure.step
            and test.test_set_sha256 == figure.test_set_sha256
            and test.settings == figure.settings
            and test.sums.get("value") == figure.value
            and test.sums.get("vanilla_value") == base.value
        )

    return {test.seed: test for test in tests if is_about(test)}


def mark(figures: Mapping[int, Any], tests: Mapping[int, Record]) -> str:
    """A dagger if every seed differs from vanilla."""
    proven = [seed for seed in figures if seed in tests and tests[seed].value < LEVEL]
    return DAGGER if figures and len(proven) == len(figures) else ""


def notes(tests: Sequence[Record], stored: Iterable[Record]) -> list[str]:
    """Lines under a table: what the dagger means, every p-value, and which ones are stale."""
    shown = {id(test) for test in tests}
    stale = [test for test in stored if is_p_value(test) and id(test) not in shown]
    lines = []
    if tests:
        each = ", ".join(
            f"{t.row} seed {t.seed} `{t.metric.removesuffix(SUFFIX)}` {_number(t.value)}"
            for t in tests
        )
        lines.append(f"{DAGGER}: differs from our vanilla at p < {LEVEL} in every seed. p: {each}.")
        how = ", ".join(f"`{signature}`" for signature in dict.fromkeys(t.signature for t in tests))
        lines.append(f"Test behind p: {how}.")
    if stale:
        names = ", ".join(f"{t.row} seed {t.seed} `{t.metric}`" for t in stale)
        lines.append(f"p-values of figures that are not these, left out: {names}.")
    return lines


def _number(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"
