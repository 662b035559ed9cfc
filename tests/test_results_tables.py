"""The tables of WMT and LM1B: every figure is checked by hand."""

import json
import math
from functools import partial

import pytest
from result_records import LM1B, ROOT, WMT14, cells, make, paper_rows, render_pages, row

from data.tasks import TASKS, get_task
from synth.results import small_tables
from synth.results.pages import PAPER_PAGES, SMALL_PAGES


@pytest.fixture
def pages(tmp_path):
    """Renders records: name of a page -> its text."""
    return partial(render_pages, tmp_path)


# The paper's table


def test_sources_are_data_sets_that_exist():
    tables = [table for _, tables in PAPER_PAGES.values() for table in tables]
    assert len(tables) == 9
    for table in tables:
        for source in table.sources:
            for task, name in source.datasets.items():
                dataset = get_task(task).dataset(name)
                assert not dataset.stand_in and source.split in dataset.split_of
    for task in TASKS:
        datasets = {dataset.name for dataset in get_task(task).datasets}
        assert task in small_tables.TASKS
        assert task == "agnews" or datasets & small_tables.TEXTS.keys()
    on_pages = [task for _, tasks in SMALL_PAGES.values() for task in tasks]
    assert sorted(on_pages) == sorted(TASKS)


def test_every_table_of_the_paper_has_one():
    paper = json.loads((ROOT / "results" / "paper.json").read_text("utf-8"))
    names = {table.rows for _, tables in PAPER_PAGES.values() for table in tables}
    assert names == paper.keys() - {"_about"}


def test_without_runs_the_paper_stands_alone(pages):
    text = pages()
    rows = cells(text["wmt_lm1b.md"])
    labels = [row["label"] for row in paper_rows("wmt_lm1b")]
    assert [row[0] for row in rows] == 2 * ["Model", rows[1][0], *labels]
    assert row(text["wmt_lm1b.md"], "Synthesizer (Random)") == [
        "Synthesizer (Random)", "67", "-",
        "27.27", "not run", "-", "not run", "not run", "41.12", "not run", "-", "not run",
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
    why = "2 of another step, set-up or copy of the test set than those shown"
    assert f"Not shown of scale=paper: 2 figures ({why})." in text


def test_rows_scored_on_different_copies_of_the_test_set_are_told(pages):
    ours = {**WMT14, "metric": "bleu_intl"}
    same = pages(make(**ours), make(**ours, variant="vanilla"))["wmt_lm1b.md"]
    assert "Not one test set" not in same
    other = make(**ours, variant="dense", test_set_sha256="2737")
    assert (
        "**Not one test set: the copies of `wmt_t2t_translate` differ**"
        in pages(other)["wmt_lm1b.md"]
    )


def test_rows_scored_in_different_ways_are_told(pages):
    ours = {**WMT14, "metric": "bleu_intl"}
    text = pages(make(**ours), make(**ours, variant="vanilla", signature="version:1"))
    told = "**Not one signature: figures of `bleu_intl` of `wmt_t2t_translate` differ in it**"
    assert told in text["wmt_lm1b.md"]


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
    paper = json.loads((ROOT / "results" / "paper.json").read_text("utf-8"))
    paper["wmt_lm1b"]["confidence"] = "M"
    (tmp_path / "paper.json").write_text(json.dumps(paper))
    text = pages()["wmt_lm1b.md"]
    assert row(text, "Synthesizer (Random)")[3] == "27.27 (M)"
    assert "(M): second-hand, corroborated." in text
