"""Tables of small runs, one per task and test set: what a fresh machine can repeat in minutes."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

from synth.results.figures import (
    NONE,
    Table,
    assignments,
    commands,
    distinct,
    mean_std,
    millions,
    provenance,
    seed_values,
)
from synth.results.paper_tables import DEFAULT_DECODING
from synth.results.store import Record, canonical, row_key

# header -> metric, digits
BLEU = {
    "BLEU 13a": ("bleu", 2),
    "BLEU intl": ("bleu_intl", 2),
    "BLEU intl, uncased": ("bleu_intl_uncased", 2),
}
PERPLEXITY = {
    "ppl/token": ("ppl_token", 2),
    "ppl/word": ("ppl_word", 2),
    "bits/byte": ("bits_per_byte", 3),
}
TASKS = {"wmt_ende": BLEU, "wmt_enfr": BLEU, "lm1b": PERPLEXITY}
TEXTS = {
    "docs_ende": "software handbooks and help pages, English to German",
    "docs_enfr": "software handbooks and help pages, English to French",
    "web_lm": "a Bible in modern English, in the public domain",
}


def small_tables(records: Iterable[Record], variants: Sequence[str]) -> list[Table]:
    """One table per task and test set of the runs at scale=small, rows in order of `variants`.

    Runs with overrides, another mix, other decoding settings or another step are rows of their own.
    """
    small = [r for r in records if r.scale == "small" and _has_column(r)]
    small.sort(key=lambda r: (*_test_set(r), *_row_order(r, variants), r.seed))
    return [_table(list(group)) for _, group in groupby(small, key=_test_set)]


def _has_column(record: Record) -> bool:
    """Translations have likelihoods in the store, too; their table shows BLEU only."""
    return record.metric in {metric for metric, _ in TASKS.get(record.task, {}).values()}


def _test_set(record: Record) -> tuple[int, str, str, str]:
    task = list(TASKS).index(record.task)
    return task, record.dataset, record.split, record.test_set_sha256


def _row_order(record: Record, variants: Sequence[str]) -> tuple[object, ...]:
    name = row_key(record.variant, None)  # every mix stands next to the default one
    place = variants.index(name) if name in variants else len(variants)
    other = not DEFAULT_DECODING.items() <= record.settings.items()
    return place, record.row, canonical(record.overrides), record.step, other, _decoding(record)


def _decoding(record: Record) -> str:
    return canonical(record.settings)


def _row(record: Record) -> tuple[object, ...]:
    return record.row, canonical(record.overrides), record.step, _decoding(record)


def _table(records: list[Record]) -> Table:
    first = records[0]
    metrics = TASKS[first.task]
    varying = _varying([record.settings for record in records])
    rows = [_cells(list(group), metrics, varying) for _, group in groupby(records, key=_row)]
    text = f"`{first.dataset}`"
    if first.dataset in TEXTS:
        text += f" ({TEXTS[first.dataset]})"
    return Table(
        title=f"{first.task}, scale=small, on {first.dataset} ({first.split})",
        intro=f"Small models trained and scored on {text}: **not comparable with the paper's "
        "figures**. Mean ± sample standard deviation over the seeds.",
        header=["Variant", *metrics, "Params (M)", "Steps", "Seeds", "Train min", "Device"],
        rows=rows,
        notes=[*provenance(records), *_settings_note(records, varying)],
        commands=commands(records),
    )


def _cells(
    records: list[Record], metrics: Mapping[str, tuple[str, int]], varying: set[str]
) -> list[str]:
    seeds = {record.seed for record in records}
    minutes = {r.seed: r.train_seconds / 60 for r in records if r.train_seconds is not None}
    return [
        _label(records[0], varying),
        *(_figure(records, metric, digits, len(seeds)) for metric, digits in metrics.values()),
        millions((record.params for record in records), digits=2),
        f"{records[0].step:,}",
        str(len(seeds)),
        f"{fmean(minutes.values()):.1f}" if minutes else NONE,
        distinct(record.device for record in records),
    ]


def _figure(records: list[Record], metric: str, digits: int, seeds: int) -> str:
    values = seed_values(records, metric)
    if not values:
        return NONE
    # A metric that some seed lacks is not passed off as the mean of all of them.
    return mean_std(values, digits) + ("" if len(values) == seeds else f" (n={len(values)})")


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
