"""The run store under rough handling, and tables whose every figure is checked by hand."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from data.tasks import get_task
from synth import results
from synth.results import Record, ResultsError, append, load, paper_tables, row_key, small_tables
from synth.variants import VARIANTS

ROOT = Path(__file__).parents[1]
BASE = Record(
    run="c0ffee", task="wmt_ende", variant="random", mix=None, scale="small", overrides={},
    seed=0, step=2000, dataset="docs_ende", split="test", n_items=1543,
    test_set_sha256="7a7fb12d368ccdc12439b510", metric="bleu", value=10.0,
    signature="tok:13a|version:2.6.0", settings={"beam": 4, "alpha": 0.6}, sums={},
    empty_outputs=0, params=3_456_000, versions={"jax": "0.10.2"}, commit="abc", dirty=False,
    device="cpu", date="2025-01-02T03:04:05+00:00", train_seconds=600.0, eval_seconds=9.0,
    command=["python", "train.py", "--config=a b"], eval_command="python eval.py --seed=0",
)  # fmt: skip
WMT14 = {
    "scale": "paper",
    "dataset": "wmt_t2t_translate",
    "n_items": 3003,
    "step": 250_000,
    "settings": {"beam": 4, "alpha": 0.6, "extra_length": 50},
}
LM1B = {"task": "lm1b", "dataset": "lm1b", "scale": "paper", "settings": {}, "n_items": 6075}


def make(**changes: Any) -> Record:
    return replace(BASE, **changes)


@pytest.fixture
def store(tmp_path) -> Path:
    return tmp_path / "runs.jsonl"


@pytest.fixture
def pages(tmp_path):
    """Renders records: name of a page -> its text."""
    (tmp_path / "paper.json").write_bytes((ROOT / "results" / "paper.json").read_bytes())

    def write(*records: Record) -> dict[str, str]:
        append(tmp_path / "runs.jsonl", records)
        results.render(tmp_path)
        return {page.name: page.read_text("utf-8") for page in tmp_path.glob("*.md")}

    return write


def cells(page: str) -> list[list[str]]:
    """The rows of all tables of a page, headers and rules included."""
    rows = [line for line in page.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row[1:-1].split("|")] for row in rows]


def row(page: str, label: str) -> list[str]:
    found = [cell for cell in cells(page) if cell[0] == label]
    assert found, f"no row {label!r}"
    return found[0]


# Names of rows


@pytest.mark.parametrize(
    ("variant", "mix", "expected"),
    [
        ("vanilla", None, "vanilla"),
        ("dense", "softmax", "dense"),
        ("random+vanilla", "softmax", "random+vanilla"),
        ("random+vanilla", None, "random+vanilla"),
        ("vanilla+random", "sum", "random+vanilla;mix=sum"),
        ("dense+vanilla", "sigmoid", "dense+vanilla;mix=sigmoid"),
        ("vanilla+unheard_of", None, "unheard_of+vanilla"),
    ],
)
def test_row_key(variant, mix, expected):
    assert row_key(variant, mix) == expected


def test_row_key_orders_terms_as_the_model_does():
    assert row_key("+".join(reversed(VARIANTS)), None) == "+".join(VARIANTS)


def test_row_key_finds_every_row_of_the_paper():
    paper = json.loads((ROOT / "results" / "paper.json").read_text("utf-8"))
    for table in ("wmt_lm1b", "narang", "encoder_only"):
        for name in (row["variant"] for row in paper[table]["rows"]):
            variant, _, mix = name.partition(";mix=")
            assert row_key(variant, mix or None) == name


# The store


def test_round_trip(store):
    records = [make(seed=n, device="a\u2028b") for n in range(3)]
    assert append(store, records) == 3
    assert load(store) == records


def test_no_file_is_an_empty_store(store):
    assert load(store) == []


def test_repeating_a_run_adds_nothing(store):
    assert append(store, [BASE, BASE]) == 1
    again = make(date="2025-02-01T00:00:00Z", commit="def", settings={"alpha": 0.6, "beam": 4})
    assert append(store, [again]) == 0
    assert load(store) == [BASE]


@pytest.mark.parametrize(
    "change",
    [{"value": 10.5}, {"test_set_sha256": "other"}, {"signature": "other"}, {"step": 4000}],
)
def test_newest_replaces_and_never_counts_twice(store, change):
    newer = make(date="2025-02-01T00:00:00Z", device="gpu", **change)
    assert append(store, [newer]) == 1
    assert append(store, [BASE]) == 1
    assert load(store) == [newer]
    assert len(store.read_bytes().splitlines()) == 2


def test_going_back_to_an_old_value_is_news(store):
    dates = ["2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z", "2025-01-03T00:00:00Z"]
    for value, date in zip((1.0, 2.0, 1.0), dates, strict=True):
        append(store, [make(value=value, date=date)])
    assert [record.date for record in load(store)] == dates[2:]


def test_sums_are_no_part_of_the_identity(store):
    append(store, [make(sums={"nll": 1.0})])
    append(store, [make(sums={"nll": 1.1}, value=11.0)])
    assert [record.value for record in load(store)] == [11.0]


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from synth.results import append
from tests.test_results import BASE
for seed in range(20):
    record = replace(BASE, task=f"task{sys.argv[1]}", seed=seed, device="x" * 5000)
    append(Path(sys.argv[2]), [record, replace(BASE, seed=seed)])
"""


def test_concurrent_writers_lose_nothing(store):
    command = [sys.executable, "-c", WRITER]
    writers = [subprocess.Popen([*command, str(n), str(store)], cwd=ROOT) for n in range(4)]
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    records = load(store)
    assert len(records) == 4 * 20 + 20
    assert len(store.read_bytes().splitlines()) == len(records)  # the shared ones written once


def test_append_after_a_line_without_newline(store):
    store.write_text(BASE.to_json())
    append(store, [make(seed=1)])
    assert len(load(store)) == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"task": "wmt', "not JSON"),
        ("[1]", "not a JSON object"),
        (BASE.to_json().replace('"value": 10.0', '"value": NaN'), "NaN"),
        (
            BASE.to_json().replace('"value": 10.0', '"value": "10.0"'),
            "value must be float, got str",
        ),
        (BASE.to_json().replace('"value": 10.0', '"value": 1e999'), "value must be finite"),
        (BASE.to_json().replace('"seed": 0', '"seed": true'), "seed must be int, got bool"),
        (BASE.to_json().replace('"seed": 0, ', ""), r"missing fields \['seed'\]"),
        (BASE.to_json().replace('"seed"', '"sead"'), r"unknown \['sead'\]"),
        (BASE.to_json().replace('"scale": "small"', '"scale": "big"'), "scale must be one of"),
        (BASE.to_json().replace("+00:00", ""), "date must be in UTC"),
        (BASE.to_json().replace("+00:00", "+02:00"), "date must be in UTC"),
        ("<<<<<<< HEAD", "not JSON"),
    ],
)
def test_a_bad_line_is_named_and_the_store_left_alone(store, line, reason):
    text = f"{BASE.to_json()}\n{line}\n"
    store.write_text(text)
    with pytest.raises(ResultsError, match=rf"runs.jsonl:2: .*{reason}"):
        load(store)
    with pytest.raises(ResultsError, match=r"runs.jsonl:2: "):
        append(store, [make(seed=5)])
    assert store.read_text() == text


def test_all_bad_lines_are_told_at_once(store):
    store.write_bytes(b"{\n\n\xff\n")
    with pytest.raises(ResultsError, match=r"(?s):1: .*:3: "):
        load(store)


@pytest.mark.parametrize(
    "change",
    [{"value": math.nan}, {"value": math.inf}, {"seed": 1.0}, {"mix": "mean"}, {"date": "today"},
     {"settings": {"x": math.nan}}, {"settings": {"x": object()}}, {"overrides": None}],
)  # fmt: skip
def test_a_bad_record_cannot_be_made(change):
    with pytest.raises(ResultsError):
        make(**change)


# The paper's table


def test_sources_are_data_sets_that_exist():
    for source in (paper_tables.ENDE, paper_tables.ENFR, paper_tables.LM1B):
        dataset = get_task(source.task).dataset(source.dataset)
        assert not dataset.stand_in and source.split in dataset.split_of
    for task in small_tables.TASKS:
        assert any(dataset.name in small_tables.TEXTS for dataset in get_task(task).datasets)


def test_without_runs_the_paper_stands_alone(pages):
    text = pages()
    rows = cells(text["wmt_lm1b.md"])
    paper = json.loads((ROOT / "results" / "paper.json").read_text("utf-8"))["wmt_lm1b"]["rows"]
    labels = [row["label"] for row in paper]
    assert [row[0] for row in rows] == 2 * ["Model", rows[1][0], *labels]
    assert row(text["wmt_lm1b.md"], "Synthesizer (Random)") == [
        "Synthesizer (Random)", "67", "-",
        "27.27", "not run", "-", "not run", "41.12", "not run", "-", "not run",
    ]  # fmt: skip
    control = [cells for cells in rows if cells[0] == "Transformer (control, wider)"]
    assert control[1] == [control[0][0], *["-"] * 9]  # on LM1B the paper has no figure either
    assert "No run is in the store yet" in text["small_wmt_lm1b.md"]


def test_seeds_are_averaged_beside_the_paper(pages):
    values = (27.41, 27.12, 27.66)  # mean 27.396667, sample standard deviation 0.270247
    records = [make(**WMT14, metric="bleu_intl", seed=n, value=v) for n, v in enumerate(values)]
    records.append(make(**WMT14, value=26.9, seed=1, params=67_400_000))
    text = pages(*records)["wmt_lm1b.md"]
    assert row(text, "Synthesizer (Random)")[2:7] == [
        "3.5 / 67.4", "27.27", "27.40 ± 0.27 (n=3)", "+0.13", "26.90 (n=1)",
    ]  # fmt: skip
    assert "Test set: `wmt_t2t_translate`, split test: 3,003 lines" in text
    assert "Not shown" not in text


def test_our_vanilla_stands_beside_their_run_only(pages):
    text = pages(make(**WMT14, variant="vanilla", metric="bleu_intl", value=27.0))["wmt_lm1b.md"]
    assert row(text, "Transformer (their run)")[4:6] == ["27.00 (n=1)", "-0.67"]
    for label in ("Transformer (Vaswani et al., 2017)", "Transformer (control, wider)"):
        assert row(text, label)[4:7] == ["-", "-", "-"]


@pytest.mark.parametrize(
    "change",
    [
        {"scale": "small"},
        {"scale": "tiny"},
        {"overrides": {"model.num_layers": 2}},
        {"dataset": "docs_ende"},
        {"split": "validation"},
        {"settings": {"beam": 1, "alpha": 0.6}},
        {"variant": "random+vanilla", "mix": "sum"},
    ],
)
def test_other_set_ups_never_stand_beside_the_paper(pages, change):
    text = pages(make(**{**WMT14, "metric": "bleu_intl", "value": 99.0, **change}))["wmt_lm1b.md"]
    assert "99.00" not in text
    assert ("Not shown of scale=paper: 1 figures" in text) == ("scale" not in change)


def test_unfinished_runs_and_other_test_sets_are_not_averaged_in(pages):
    ours = {**WMT14, "metric": "bleu_intl", "value": 27.0}
    text = pages(
        make(**ours),
        make(**{**ours, "step": 100_000, "value": 20.0, "seed": 1, "date": "2025-06-01T00:00:00Z"}),
        make(**{**ours, "test_set_sha256": "2737", "seed": 2, "date": "2024-06-01T00:00:00Z"}),
    )["wmt_lm1b.md"]
    assert row(text, "Synthesizer (Random)")[4] == "27.00 (n=1)"
    assert "Not shown of scale=paper: 2 figures" in text


def test_language_model_both_readings_and_the_log_ratio(pages):
    def figures(variant, token, word):
        changes = {**LM1B, "variant": variant, "empty_outputs": None}
        return [
            make(**changes, metric="ppl_token", value=token, signature="nats"),
            make(**changes, metric="ppl_word", value=word, signature="nats"),
        ]

    text = pages(*figures("vanilla", math.exp(3.0), 28.0), *figures("random", math.exp(3.3), 40.0))
    ours = [cell for cell in cells(text["wmt_lm1b.md"]) if cell[0] == "Synthesizer (Random)"][1]
    # Paper: ln 40.6 / ln 38.21 = 3.70377 / 3.64310 = 1.01665. Ours: exp(3.3) = 27.1126.
    assert ours[1:] == [
        "58", "3.5", "40.60", "27.11 (n=1)", "-13.49", "40.00 (n=1)", "-0.60", "1.017", "1.100",
    ]  # fmt: skip


def test_doubtful_figures_of_the_paper_are_marked(tmp_path, pages):
    paper = json.loads((tmp_path / "paper.json").read_text("utf-8"))
    paper["wmt_lm1b"]["confidence"] = "M"
    (tmp_path / "paper.json").write_text(json.dumps(paper))
    text = pages()["wmt_lm1b.md"]
    assert row(text, "Synthesizer (Random)")[3] == "27.27 (M)"
    assert "(M): second-hand, corroborated." in text


# Small tables


def test_small_table(pages):
    records = [
        make(metric=metric, seed=seed, value=value + seed, signature=f"tok:{metric}")
        for metric, value in (("bleu", 10.0), ("bleu_intl", 11.0), ("bleu_intl_uncased", 12.0))
        for seed in (0, 1)
    ]
    records += [
        make(variant="vanilla", value=9.0, train_seconds=None, params=None, empty_outputs=7),
        make(variant="random+vanilla", mix="sum", value=8.0, overrides={"model.R": 8}),
        make(settings={"beam": 1, "alpha": 0.6}, value=7.0),
        make(scale="tiny", value=99.0),
    ]
    text = pages(*records)["small_wmt_lm1b.md"]
    assert cells(text)[0] == [
        "Variant", "BLEU 13a", "BLEU intl", "BLEU intl, uncased",
        "Params (M)", "Steps", "Seeds", "Train min", "Device",
    ]  # fmt: skip
    rest = ["3.46", "2,000", "1", "10.0", "cpu"]
    assert cells(text)[2:] == [
        ["vanilla", "9.00", "-", "-", "-", "2,000", "1", "-", "cpu"],
        ["random", "10.50 ± 0.71", "11.50 ± 0.71", "12.50 ± 0.71", "3.46", "2,000", "2", "10.0",
         "cpu"],
        ["random (beam=1)", "7.00", "-", "-", *rest],
        ["random+vanilla;mix=sum (model.R=8)", "8.00", "-", "-", *rest],
    ]  # fmt: skip
    assert "not comparable with the paper's figures" in text
    assert "- Test set: `docs_ende`, split test: 1,543 lines, sha256 `7a7fb12d368ccdc1`." in text
    assert "- Signature of `bleu_intl`: `tok:bleu_intl`." in text
    assert "- Settings, unless a row says otherwise: alpha=0.6, beam=4." in text
    assert "- Empty outputs: vanilla seed 0: 7 of 1,543." in text
    assert text.count("python train.py '--config=a b'\npython eval.py --seed=0\n") == 1


def test_a_metric_that_a_seed_lacks_says_so(pages):
    records = [make(seed=0), make(seed=1), make(seed=1, metric="bleu_intl", value=11.0)]
    assert row(pages(*records)["small_wmt_lm1b.md"], "random")[2] == "11.00 (n=1)"


def test_each_test_set_is_a_table_of_its_own(pages):
    lm = {"task": "lm1b", "dataset": "web_lm", "metric": "bits_per_byte", "settings": {}}
    text = pages(make(test_set_sha256="old"), make(seed=1), make(**lm, value=1.23456))
    tables = text["small_wmt_lm1b.md"].split("### ")[1:]
    assert [len(cells(table)) for table in tables] == [3, 3, 3]
    assert row(tables[2], "random")[1:4] == ["-", "-", "1.235"]


def test_steps_are_rows_of_their_own(pages):
    text = pages(make(seed=0), make(seed=1, step=500, value=1.0))["small_wmt_lm1b.md"]
    assert [cell[1] for cell in cells(text)[2:]] == ["1.00", "10.00"]


def test_pipes_do_not_break_the_table(pages):
    text = pages(make(device="a|b"))["small_wmt_lm1b.md"]
    assert r"a\|b" in text


# Files


def test_nothing_is_written_twice_and_line_order_is_no_matter(tmp_path, pages, store):
    first = pages(*(make(seed=n, value=float(n)) for n in range(4)))
    assert results.render(tmp_path) == []
    store.write_text("\n".join(reversed(store.read_text().splitlines())))
    assert results.render(tmp_path) == []
    assert pages() == first
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        ["paper.json", "runs.jsonl", "small_wmt_lm1b.md", "wmt_lm1b.md"]
    )


def test_readme_between_its_markers(tmp_path, pages):
    readme = tmp_path / "README"
    readme.write_text("above\n<!-- results:begin -->old<!-- results:end -->\nbelow\n")
    pages(BASE)
    assert results.render(tmp_path, readme) == [readme]
    text = readme.read_text("utf-8")
    assert text.startswith("above\n<!-- results:begin -->\n\n### wmt_ende, scale=small")
    assert text.endswith("\n<!-- results:end -->\nbelow\n") and "old" not in text
    assert row(text, "Synthesizer (Dense)")[3] == "27.43"
    assert results.render(tmp_path, readme) == []


@pytest.mark.parametrize(
    "text", ["", "<!-- results:begin -->", "<!-- results:end --><!-- results:begin -->"]
)
def test_readme_without_markers(tmp_path, pages, text):
    readme = tmp_path / "README"
    readme.write_text(text)
    pages()
    with pytest.raises(ResultsError, match="needs one <!-- results:begin -->"):
        results.render(tmp_path, readme)
    assert readme.read_text() == text
