"""A table of the paper as a declaration, and how it is filled from the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from synth.results import significance
from synth.results.columns import Column, Row, Trio
from synth.results.figures import (
    NONE,
    Cell,
    Commands,
    Table,
    assignments,
    command_lines,
    provenance,
)
from synth.results.sources import (
    Family,
    Metric,
    Quantity,
    Runs,
    Source,
    choose,
    left_out,
    row_names,
)
from synth.results.store import Record
from synth.variants import VARIANTS


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """What makes a table.

    Attributes:
      name: of its files.
      rows: names the table of paper.json.
      quantities: the figures that it is about.
      columns: its columns; or else
      lines: its columns, each as three lines: paper, ours and, where there are runs, difference.
      families: the tasks that fill it.
      mixes: what the paper's `a+b` is of ours, the preferred one first.
      beside: label of the row that ratios are taken against; where the paper has several rows of
        that variant, our runs stand beside this one only.
      weak: (variant, key) -> another confidence than that of the table.
      remarks: further notes.
    """

    name: str
    title: str
    intro: str
    rows: str
    quantities: Sequence[Quantity]
    columns: Mapping[str, Column] = field(default_factory=dict)
    lines: Mapping[str, Trio] = field(default_factory=dict)
    families: Sequence[Family]
    mixes: Sequence[str] = ("softmax",)
    beside: str
    weak: Mapping[tuple[str, str], str] = field(default_factory=dict)
    remarks: Sequence[str] = ()

    def build(self, paper: Mapping[str, Any], records: Sequence[Record]) -> Table:
        rows = self._rows(paper[self.rows], records)
        header = ["Model", "" if self.lines else None, *(self.lines or self.columns)]
        cells = [line for row in rows for line in self._cells(row)]
        commands = {row.anchor: self._commands(row) for row in rows if self._used(row)}
        used = [record for row in rows for record in self._used(row)]
        notes = [
            *provenance(used),
            *self._settings(used),
            *self._starts(rows),
            *significance.notes(self._tests(rows), self._stored_tests(records)),
            *self._left_out(records, used, rows),
            *self._notes(paper, rows),
            *self.remarks,
        ]
        return Table(
            self.name,
            self.title,
            self.intro,
            [name for name in header if name is not None],
            cells,
            notes,
            commands,
        )

    @property
    def metrics(self) -> list[Metric]:
        return [metric for quantity in self.quantities for metric in quantity.metrics]

    @property
    def sources(self) -> list[Source]:
        return [metric.source for metric in self.metrics]

    def _rows(self, table: Mapping[str, Any], records: Sequence[Record]) -> list[Row]:
        runs = [record for record in records if record.scale == "paper"]
        baseline = next(row for row in table["rows"] if row["label"] == self.beside)

        def ours(variant: str) -> list[Record]:
            return choose(runs, variant, self.families, self.mixes, self._has_column)

        vanilla, none = ours(baseline["variant"]), Runs((), ())
        found = []
        for number, row in enumerate(table["rows"], start=1):
            beside = row["variant"] != baseline["variant"] or row["label"] == self.beside
            runs_of_row = Runs(ours(row["variant"]), vanilla) if beside else none
            found.append(
                Row(
                    paper=row,
                    baseline=baseline,
                    marks={key: self._mark(table, row, key) for key in table["columns"]},
                    repeated=beside and is_ours(row["variant"]),
                    ours=runs_of_row,
                    our_baseline=Runs(vanilla, vanilla),
                    anchor=f"{self.name}-{number}",
                )
            )
        return found

    def _has_column(self, record: Record) -> bool:
        name = record.metric.removesuffix(significance.SUFFIX)
        return any(m.name == name and m.source.has(record) for m in self.metrics)

    def _mark(self, table: Mapping[str, Any], row: Mapping[str, Any], key: str) -> str:
        confidence = self.weak.get((row["variant"], key), table["confidence"])
        return "" if confidence == "H" else f"({confidence})"

    def _cells(self, row: Row) -> list[list[Cell]]:
        label = Cell(row.paper["label"])
        if not self.lines:
            return [[label, *(column(row) for column in self.columns.values())]]
        names = ("paper", "ours", "Δ") if self._used(row) else ("paper", "ours")
        return [
            [label, Cell(name), *(columns[number](row) for columns in self.lines.values())]
            for number, name in enumerate(names)
        ]

    def _used(self, row: Row) -> list[Record]:
        """The figures behind the cells of a row."""
        found = (record for m in self.metrics for record in row.ours.figures(m).values())
        return list({id(record): record for record in found}.values())

    def _commands(self, row: Row) -> Commands:
        return Commands(row.paper["label"], command_lines(self._used(row)))

    def _tests(self, rows: Sequence[Row]) -> list[Record]:
        single = [q.metrics[0] for q in self.quantities if len(q.metrics) == 1]
        found = (test for row in rows for m in single for test in row.ours.p_values(m).values())
        return list({id(test): test for test in found}.values())

    def _stored_tests(self, records: Sequence[Record]) -> list[Record]:
        return [r for r in records if r.scale == "paper" and self._has_column(r)]

    def _settings(self, used: Sequence[Record]) -> list[str]:
        settings = (", ".join(assignments(record.settings)) for record in used if record.settings)
        return [f"Scored with {text}." for text in dict.fromkeys(settings)]

    def _starts(self, rows: Sequence[Row]) -> list[str]:
        """Which kind of run fills a row, where there is a choice."""
        found = []
        for row in rows:
            for record in self._used(row):
                family = next(f for f in self.families if record.task in f.tasks)
                start = record.overrides.get(significance.INIT_FROM)
                origin = f"starts from the run `{start}`" if start else "starts from scratch"
                if family.fine_tuned:
                    named = f"{row.paper['label']}, task `{record.task}`, row `{record.row}`"
                    found.append(f"{named}: {origin}.")
        return list(dict.fromkeys(found))

    def _left_out(
        self, records: Sequence[Record], used: Sequence[Record], rows: Sequence[Row]
    ) -> list[str]:
        return left_out(
            records,
            used,
            tasks=[task for family in self.families for task in family.tasks],
            names=[metric.name for metric in self.metrics],
            rows=[name for r in rows for name in row_names(r.paper["variant"], self.mixes)],
            sources=self.sources,
        )

    def _notes(self, paper: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
        same = [row for row in rows if row.paper["variant"] == rows[0].baseline["variant"]]
        beside = f"Our vanilla runs stand beside “{self.beside}”, not beside other rows of that "
        notes = [f"{f'{beside}variant; ' if len(same) > 1 else ''}`{NONE}`: no figure."]
        other = [row.paper["label"] for row in rows if not is_ours(row.paper["variant"])]
        if other:
            notes.append(f"Models that are not implemented here: {', '.join(other)}.")
        marks = sorted({mark for row in rows for mark in row.marks.values() if mark})
        meaning = paper["_about"]["confidence"]
        notes += [f"{mark}: {meaning[mark.strip('()')]}." for mark in marks]
        if note := paper[self.rows].get("note"):
            notes.append(f"On the paper's figures: {note}")
        return notes


def is_ours(variant: str) -> bool:
    """Whether a row of the paper is of functions that are implemented here."""
    return all(name in VARIANTS for name in variant.partition(";")[0].split("+"))
