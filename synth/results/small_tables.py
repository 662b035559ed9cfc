"""Tables of small runs, one per task and test set: what a fresh machine can repeat in minutes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean
from typing import Any

from synth.results import significance
from synth.results.figures import (
    EMPTY,
    NONE,
    Cell,
    Commands,
    Table,
    assignments,
    command_lines,
    distinct,
    millions,
    provenance,
    seed_values,
    summary,
)
from synth.results.paper_tables import DEFAULT_DECODING
from synth.results.store import Record, canonical, row_key


@dataclass(frozen=True)
class Metric:
    """A column; one that is not `always` there stands where some run has the figure."""

    name: str
    digits: int = 2
    always: bool = False


BLEU = {
    "BLEU 13a": Metric("bleu", always=True),
    "BLEU intl": Metric("bleu_intl", always=True),
    "BLEU intl, uncased": Metric("bleu_intl_uncased", always=True),
    "BLEU tok+atat": Metric("bleu_tok_atat"),
}
PERPLEXITY = {
    "ppl/token": Metric("ppl_token", always=True),
    "ppl/word": Metric("ppl_word", always=True),
    "bits/byte": Metric("bits_per_byte", 3, always=True),
}
LIKELIHOOD = {"ppl/token": Metric("ppl_token")}
SPANS = {
    "log ppl/token": Metric("log_ppl_token", 3, always=True),
    "ppl/token": Metric("ppl_token", always=True),
}
ROUGE = {
    "R-1": Metric("rouge1"),
    "R-2": Metric("rouge2"),
    "R-Lsum": Metric("rougeLsum"),
}
DIALOGUE = {
    **{f"BLEU-{n}": Metric(f"dialogue_bleu{n}") for n in (1, 2, 3, 4)},
    "ROUGE-L": Metric("dialogue_rougeL"),
    "METEOR": Metric("meteor"),
    "CIDEr": Metric("cider"),
    "Emb average": Metric("embedding_average"),
    "Emb extrema": Metric("embedding_extrema"),
    "Emb greedy": Metric("embedding_greedy"),
}
ACCURACY = {"Accuracy": Metric("accuracy", always=True)}
UNDERSTANDING = {
    "Accuracy": Metric("accuracy"),
    "Matthews": Metric("matthews"),
    "F1": Metric("f1"),
    "Macro-F1": Metric("f1_macro"),
    "F1a": Metric("f1a"),
    "EM": Metric("em"),
    "Pearson": Metric("pearson"),
    "Spearman": Metric("spearman"),
}
TASKS = {
    "wmt_ende": BLEU,
    "wmt_enfr": BLEU,
    "lm1b": PERPLEXITY,
    "cnn_dailymail": ROUGE | LIKELIHOOD,
    "personachat": DIALOGUE | LIKELIHOOD,
    "c4": SPANS,
    "glue": UNDERSTANDING | LIKELIHOOD,
    "superglue": UNDERSTANDING | LIKELIHOOD,
    "en_mix": UNDERSTANDING | LIKELIHOOD,
    "agnews": ACCURACY,
    "imdb": ACCURACY,
}
# Of a task that is not the paper's, whatever it has.
ANY = {
    name: replace(metric, always=False)
    for name, metric in (BLEU | ROUGE | DIALOGUE | UNDERSTANDING | PERPLEXITY).items()
}
TEXTS = {
    "docs_ende": "software handbooks and help pages, English to German",
    "docs_enfr": "software handbooks and help pages, English to French",
    "web_lm": "a Bible in modern English, in the public domain",
    "help_summaries": "help pages with their one-line descriptions",
    "chitchat": "turns of real chats between two people",
    "movie_sentiment": "sentences of film reviews",
    "wordnet_wic": "pairs of WordNet's example sentences",
    "sentiment_and_wic": "movie_sentiment and wordnet_wic as one",
}


def small_tables(records: Iterable[Record], variants: Sequence[str]) -> dict[str, list[Table]]:
    """Task -> a table per test set of the runs at scale=small, rows in order of `variants`.

    Runs with overrides, another mix, other decoding settings or another step are rows of their own.
    """
    small = [r for r in records if r.scale == "small" and _has_column(r)]
    small.sort(key=lambda r: (*_test_set(r), *_row_order(r, variants), r.seed))
    tables: dict[str, list[Table]] = {}
    for (_, task, *_), group in groupby(small, key=_test_set):
        tables.setdefault(task, []).append(_table(list(group), small))
    return tables


def _has_column(record: Record) -> bool:
    name = record.metric.removesuffix(significance.SUFFIX)
    return name in {metric.name for metric in _columns(record.task).values()}


def _columns(task: str) -> Mapping[str, Metric]:
    return TASKS.get(task, ANY)


def _test_set(record: Record) -> tuple[int, str, str, str, str]:
    order = list(TASKS).index(record.task) if record.task in TASKS else len(TASKS)
    return order, record.task, record.dataset, record.split, record.test_set_sha256


def _row_order(record: Record, variants: Sequence[str]) -> tuple[object, ...]:
    name = row_key(record.variant, None)  # every mix stands next to the default one
    place = variants.index(name) if name in variants else len(variants)
    other = not DEFAULT_DECODING.items() <= record.settings.items()
    return place, record.row, canonical(record.overrides), record.step, other, _decoding(record)


def _decoding(record: Record) -> str:
    return canonical(record.settings)


def _row(record: Record) -> tuple[object, ...]:
    return record.row, canonical(record.overrides), record.step, _decoding(record)


def _table(records: list[Record], small: Sequence[Record]) -> Table:
    first = records[0]
    figures = _of_one_kind([r for r in records if not significance.is_p_value(r)])
    found = {record.metric for record in figures}
    columns = {
        name: metric
        for name, metric in _columns(first.task).items()
        if metric.always or metric.name in found
    }
    copies = {r.test_set_sha256 for r in small if _test_set(r)[:-1] == _test_set(first)[:-1]}
    copy = f"_{first.test_set_sha256:.8}" if len(copies) > 1 else ""
    name = f"small_{first.task}_{first.dataset}_{first.split}{copy}"
    varying = _varying([record.settings for record in figures])
    rows, commands, tests = [], {}, []
    for number, (_, group) in enumerate(groupby(figures, key=_row), start=1):
        row = list(group)
        label, anchor = _label(row[0], varying), f"{name}-{number}"
        proof = {m.name: _p_values(row, records, m.name) for m in columns.values()}
        tests += [test for by_seed in proof.values() for test in by_seed.values()]
        rows.append([Cell(label), *_cells(row, columns, proof, anchor)])
        commands[anchor] = Commands(label, command_lines(row))
    text = f"`{first.dataset}`"
    if first.dataset in TEXTS:
        text += f" ({TEXTS[first.dataset]})"
    return Table(
        name=name,
        title=f"{first.task}, scale=small, on {first.dataset} ({first.split})",
        intro=f"Small models trained and scored on {text}: **not comparable with the paper's "
        "figures**. Mean ± sample standard deviation over the seeds.",
        header=["Variant", *columns, "Params (M)", "Steps", "Seeds", "Train min", "Device"],
        rows=rows,
        notes=[
            *provenance(figures),
            *_settings_note(figures, varying),
            *significance.notes(tests, records),
        ],
        commands=commands,
    )


def _of_one_kind(figures: list[Record]) -> list[Record]:
    """Where text was decoded, its scores: likelihoods depend on no decoding, and are left out."""
    likelihoods = {metric.name for metric in (PERPLEXITY | SPANS).values()}
    return [r for r in figures if r.metric not in likelihoods] or figures


def _p_values(row: Sequence[Record], records: Iterable[Record], metric: str) -> dict[int, Record]:
    """Of the seeds of a row; their vanilla is one of the same test set."""
    figures = {r.seed: r for r in row if r.metric == metric}
    pairs = significance.comparisons([r for r in records if r.metric == metric])
    bases = {base.seed: base for record, base in pairs if record in figures.values()}
    tests = [r for r in records if _row(r) == _row(row[0])]
    return significance.p_values(figures, tests, bases)


def _cells(
    records: list[Record],
    columns: Mapping[str, Metric],
    tests: Mapping[str, Mapping[int, Record]],
    anchor: str,
) -> list[Cell]:
    seeds = {record.seed for record in records}
    minutes = {r.seed: r.train_seconds / 60 for r in records if r.train_seconds is not None}
    figures = (
        _figure(records, metric, len(seeds), tests[metric.name], anchor)
        for metric in columns.values()
    )
    about = (
        millions((record.params for record in records), digits=2),
        f"{records[0].step:,}",
        str(len(seeds)),
        f"{fmean(minutes.values()):.1f}" if minutes else NONE,
        distinct(record.device for record in records),
    )
    return [*figures, *map(Cell, about)]


def _figure(
    records: list[Record], metric: Metric, seeds: int, tests: Mapping[int, Record], anchor: str
) -> Cell:
    values = seed_values(records, metric.name)
    if not values:
        return EMPTY
    found = {record.seed: record for record in records if record.metric == metric.name}
    # A metric that some seed lacks is not passed off as the mean of all of them.
    count = None if len(values) == seeds else len(values)
    mark = significance.mark(found, tests)
    return summary(values, metric.digits, n=count, mark=mark, anchor=anchor)


def _label(record: Record, varying: set[str]) -> str:
    """The row's name, then what makes it differ from the named config at default decoding."""
    decoding = {key: record.settings.get(key) for key in varying}
    other = {k: v for k, v in decoding.items() if (k, v) not in DEFAULT_DECODING.items()}
    extra = [*assignments(record.overrides), *assignments(other)]
    return f"{record.row} ({'; '.join(extra)})" if extra else record.row


def _varying(settings: Sequence[Mapping[str, Any]]) -> set[str]:
    keys = {key for one in settings for key in one}
    return {key for key in keys if len({canonical(one.get(key)) for one in settings}) > 1}


def _settings_note(records: Sequence[Record], varying: set[str]) -> list[str]:
    common = {key: v for key, v in records[0].settings.items() if key not in varying}
    defaults = {key: v for key, v in DEFAULT_DECODING.items() if key in varying}
    shown = assignments(common | defaults)
    return [f"Settings, unless a row says otherwise: {', '.join(shown)}."] if shown else []
