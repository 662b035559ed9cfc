"""The paper's tables with our figures beside them.

A table is a declaration: which rows of `results/paper.json`, and for each column a function from
a row to a cell. Only runs of the paper's own set-up count: scale `paper`, no overrides, and the
real data sets.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from synth.results.figures import (
    NONE,
    NOT_RUN,
    Table,
    mean_std,
    millions,
    provenance,
    seed_values,
)
from synth.results.store import Record

# tensor2tensor's decoding defaults; the paper gives none of its own.
DEFAULT_DECODING = {"beam": 4, "alpha": 0.6}
# At scale=paper, Vaswani et al.'s limit on the length of a translation, too.
PAPER_DECODING = DEFAULT_DECODING | {"extra_length": 50}


@dataclass(frozen=True)
class Source:
    """The runs of ours that may stand in a column; `settings` must be among a record's."""

    task: str
    dataset: str
    split: str = "test"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def has(self, record: Record) -> bool:
        return (record.task, record.dataset, record.split) == (
            self.task,
            self.dataset,
            self.split,
        ) and self.settings.items() <= record.settings.items()


@dataclass(frozen=True)
class Row:
    """A row of the paper, the row its ratios are taken against, and our runs."""

    paper: Mapping[str, Any]
    baseline: Mapping[str, Any]
    mark: str  # after every figure of the paper: how sure the reading of it is
    repeated: bool  # whether our runs of this variant belong beside this row
    runs: Sequence[Record]

    def ours(self, source: Source) -> list[Record]:
        return _one_setup(self.runs, source, self.paper["variant"]) if self.repeated else []

    def our_baseline(self, source: Source) -> list[Record]:
        return _one_setup(self.runs, source, self.baseline["variant"])


def _one_setup(runs: Sequence[Record], source: Source, variant: str) -> list[Record]:
    """Runs that may be averaged: those at the furthest step, and scored as the newest of them.

    Figures of an earlier step, another copy of the test set or other decoding settings stay out.
    """
    found = [run for run in runs if run.row == variant and source.has(run)]
    lead = max(found, key=lambda run: (run.step, run.when), default=None)
    return [run for run in found if lead and _setup(run) == _setup(lead)]


def _setup(run: Record) -> tuple[object, ...]:
    return run.step, run.test_set_sha256, run.settings


Cell = Callable[[Row], str]


def paper_figure(key: str, digits: int = 2) -> Cell:
    def cell(row: Row) -> str:
        value = row.paper[key]
        return NONE if value is None else f"{value:.{digits}f}{row.mark}"

    return cell


def our_figure(source: Source, metric: str) -> Cell:
    def cell(row: Row) -> str:
        values = seed_values(row.ours(source), metric)
        if not values:
            return NOT_RUN if row.repeated else NONE
        return f"{mean_std(values)} (n={len(values)})"

    return cell


def difference(key: str, source: Source, metric: str) -> Cell:
    """Ours minus the paper's."""

    def cell(row: Row) -> str:
        values, paper = seed_values(row.ours(source), metric), row.paper[key]
        return f"{fmean(values) - paper:+.2f}" if values and paper is not None else NONE

    return cell


def our_params(*sources: Source) -> Cell:
    return lambda row: millions((run.params for s in sources for run in row.ours(s)), digits=1)


def paper_log_ratio(key: str) -> Cell:
    """log ppl of a row over that of the baseline: the same whether per token or per word."""

    def cell(row: Row) -> str:
        value, base = row.paper[key], row.baseline[key]
        return NONE if value is None else f"{math.log(value) / math.log(base):.3f}{row.mark}"

    return cell


def our_log_ratio(source: Source, metric: str) -> Cell:
    def cell(row: Row) -> str:
        ours = [math.log(v) for v in seed_values(row.ours(source), metric)]
        base = [math.log(v) for v in seed_values(row.our_baseline(source), metric)]
        return f"{fmean(ours) / fmean(base):.3f}" if ours and base else NONE

    return cell


@dataclass(frozen=True)
class PaperTable:
    """What makes a table: `rows` names one of paper.json, `columns` fill it.

    `beside` is the label of the row that ratios are taken against; where the paper has several
    rows of that variant, our runs stand beside this one only.
    """

    title: str
    intro: str
    rows: str
    columns: Mapping[str, Cell]
    sources: Sequence[Source]
    beside: str

    def build(self, paper: Mapping[str, Any], records: Sequence[Record]) -> Table:
        runs = [r for r in records if r.scale == "paper" and not r.overrides]
        rows = self._rows(paper[self.rows], runs)
        cells = [[row.paper["label"], *(c(row) for c in self.columns.values())] for row in rows]
        used = [run for source in self.sources for row in rows for run in row.ours(source)]
        notes = [*provenance(used), *self._left_out(records, used)]
        notes += self._notes(paper, rows[0].mark)
        return Table(self.title, self.intro, ["Model", *self.columns], cells, notes)

    def _rows(self, table: Mapping[str, Any], runs: Sequence[Record]) -> list[Row]:
        mark = "" if table["confidence"] == "H" else f" ({table['confidence']})"
        baseline = next(row for row in table["rows"] if row["label"] == self.beside)
        return [
            Row(row, baseline, mark, self._is_repeated(row, baseline), runs)
            for row in table["rows"]
        ]

    def _is_repeated(self, row: Mapping[str, Any], baseline: Mapping[str, Any]) -> bool:
        return row["variant"] != baseline["variant"] or row["label"] == self.beside

    def _left_out(self, records: Sequence[Record], used: Sequence[Record]) -> list[str]:
        tasks = {source.task for source in self.sources}
        known = {id(run) for run in used}
        left = [r for r in records if r.scale == "paper" and r.task in tasks and id(r) not in known]
        why = "overrides, or another row, data set, step or decoding"
        return [f"Not shown of scale=paper: {len(left)} figures ({why})."] if left else []

    def _notes(self, paper: Mapping[str, Any], mark: str) -> list[str]:
        meaning = paper["_about"]["confidence"]
        text = (
            f"Our vanilla runs stand beside “{self.beside}”, not beside other rows of that variant"
        )
        notes = [f"{text}; `{NONE}`: no figure."]
        if mark:
            notes.append(f"{mark.strip()}: {meaning[mark.strip(' ()')]}.")
        if note := paper[self.rows].get("note"):
            notes.append(f"On the paper's figures: {note}")
        return notes


ENDE = Source("wmt_ende", "wmt_t2t_translate", settings=PAPER_DECODING)
ENFR = Source("wmt_enfr", "wmt14_translate", settings=PAPER_DECODING)
LM1B = Source("lm1b", "lm1b")
THEIR_RUN = "Transformer (their run)"

WMT = PaperTable(
    title="WMT'14 (the paper's Table 2, left half)",
    intro=(
        "Paper beside ours, on newstest2014. `intl` equals tensor2tensor's `t2t-bleu` (cased) and "
        "is what we set against the paper (Δ = ours - paper); `13a` is sacreBLEU's default. "
        "Which script the authors ran is not known: compare differences between rows first. "
        "Ours: mean ± sample standard deviation over n seeds."
    ),
    rows="wmt_lm1b",
    columns={
        "Params, paper (M)": paper_figure("nmt_params_m", 0),
        "Params, ours (M)": our_params(ENDE, ENFR),
        "En-De, paper": paper_figure("wmt_ende_bleu"),
        "En-De intl, ours": our_figure(ENDE, "bleu_intl"),
        "En-De Δ": difference("wmt_ende_bleu", ENDE, "bleu_intl"),
        "En-De 13a, ours": our_figure(ENDE, "bleu"),
        "En-Fr, paper": paper_figure("wmt_enfr_bleu"),
        "En-Fr intl, ours": our_figure(ENFR, "bleu_intl"),
        "En-Fr Δ": difference("wmt_enfr_bleu", ENFR, "bleu_intl"),
        "En-Fr 13a, ours": our_figure(ENFR, "bleu"),
    },
    sources=(ENDE, ENFR),
    beside=THEIR_RUN,
)
LANGUAGE_MODEL = PaperTable(
    title="LM1B (the paper's Table 2, right half)",
    intro=(
        "Paper beside ours. The paper does not say whether its perplexity is per token or per "
        "word, so both of ours are set against it. The log ratio, log ppl of a row over log ppl of "
        "the Transformer, is the same under either reading: compare it first. Ours are scored on a "
        "sample of all heldout shards, tensor2tensor's on shard 00000."
    ),
    rows="wmt_lm1b",
    columns={
        "Params, paper (M)": paper_figure("lm_params_m", 0),
        "Params, ours (M)": our_params(LM1B),
        "Ppl, paper": paper_figure("lm1b_ppl"),
        "Ppl/token, ours": our_figure(LM1B, "ppl_token"),
        "Δ/token": difference("lm1b_ppl", LM1B, "ppl_token"),
        "Ppl/word, ours": our_figure(LM1B, "ppl_word"),
        "Δ/word": difference("lm1b_ppl", LM1B, "ppl_word"),
        "Log ratio, paper": paper_log_ratio("lm1b_ppl"),
        "Log ratio, ours": our_log_ratio(LM1B, "ppl_token"),
    },
    sources=(LM1B,),
    beside=THEIR_RUN,
)
