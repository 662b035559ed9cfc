"""Columns of the paper's tables: functions from a row to a cell."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from synth.results import significance
from synth.results.figures import EMPTY, NOT_RUN, Cell, millions, summary
from synth.results.sources import Quantity, Runs, Source


@dataclass(frozen=True)
class Row:
    """A row of the paper, the row its ratios are taken against, and our runs of both."""

    paper: Mapping[str, Any]
    baseline: Mapping[str, Any]
    marks: Mapping[str, str]  # column of the paper -> how sure the reading of it is
    repeated: bool  # whether we have runs of this variant, or could have, beside this row
    ours: Runs
    our_baseline: Runs
    anchor: str

    def figure(self, key: str, text: str) -> Cell:
        return Cell(text, mark=self.marks.get(key, ""))


Column = Callable[[Row], Cell]


def paper_figure(key: str, digits: int = 2) -> Column:
    def cell(row: Row) -> Cell:
        value = row.paper[key]
        return EMPTY if value is None else row.figure(key, f"{value:.{digits}f}")

    return cell


def our_figure(quantity: Quantity) -> Column:
    def cell(row: Row) -> Cell:
        values = row.ours.values(quantity)
        if not values:
            found = any(row.ours.figures(metric) for metric in quantity.metrics)
            return Cell(NOT_RUN) if row.repeated and not found else EMPTY
        tests = row.ours.p_values(quantity.metrics[0]) if len(quantity.metrics) == 1 else {}
        dagger = significance.mark(values, tests)
        shown = list(values.values())
        return summary(shown, quantity.digits, n=len(values), mark=dagger, anchor=row.anchor)

    return cell


def difference(quantity: Quantity) -> Column:
    """Ours minus the paper's."""

    def cell(row: Row) -> Cell:
        values, paper = list(row.ours.values(quantity).values()), row.paper[quantity.key]
        if not values or paper is None:
            return EMPTY
        # Adding 0.0 makes a rounded -0.0 positive.
        return Cell(f"{round(fmean(values) - paper, quantity.digits) + 0.0:+.{quantity.digits}f}")

    return cell


def our_params(*sources: Source, digits: int = 1) -> Column:
    return lambda row: Cell(
        millions((run.params for s in sources for run in row.ours.of(s)), digits)
    )


def our_speed(source: Source) -> Column:
    """Steps a second, compilation and validation included."""

    def cell(row: Row) -> Cell:
        runs = [r for r in row.ours.of(source) if r.train_seconds]
        rates = {run.seed: run.step / (run.train_seconds or math.inf) for run in runs}
        return Cell(f"{fmean(rates.values()):.2f}") if rates else EMPTY

    return cell


def nothing(row: Row) -> Cell:
    """For what we do not measure."""
    del row
    return EMPTY


def paper_log_ratio(key: str) -> Column:
    """log ppl of a row over that of the baseline: the same whether per token or per word."""

    def cell(row: Row) -> Cell:
        value, base = row.paper[key], row.baseline[key]
        if value is None:
            return EMPTY
        return row.figure(key, f"{math.log(value) / math.log(base):.3f}")

    return cell


def our_log_ratio(quantity: Quantity) -> Column:
    def cell(row: Row) -> Cell:
        ours, base = (
            [math.log(value) for value in runs.values(quantity).values()]
            for runs in (row.ours, row.our_baseline)
        )
        return Cell(f"{fmean(ours) / fmean(base):.3f}") if ours and base else EMPTY

    return cell


# A column of a table whose rows come in lines: the paper's, ours, and the difference.
Trio = tuple[Column, Column, Column]


def trio(quantity: Quantity) -> Trio:
    paper = paper_figure(quantity.key, quantity.paper_digits)
    return paper, our_figure(quantity), difference(quantity)


def trios(quantities: Mapping[str, Quantity]) -> dict[str, Trio]:
    return {name: trio(quantity) for name, quantity in quantities.items()}
