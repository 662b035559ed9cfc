"""Tables of fine-tuning and of the other tasks: which runs fill them, and T5's averages."""

from functools import partial
from typing import Any

import pytest
from result_records import make, paper_rows, render_pages, row

# Column of paper.json -> (data set, metric, split), as evaluation records them.
GLUE = {
    "cola": ("cola", "matthews", "validation"),
    "sst2": ("sst2", "accuracy", "validation"),
    "mrpc_f1": ("mrpc", "f1", "validation"),
    "mrpc_acc": ("mrpc", "accuracy", "validation"),
    "stsb_pearson": ("stsb", "pearson", "validation"),
    "stsb_spearman": ("stsb", "spearman", "validation"),
    "qqp_f1": ("qqp", "f1", "validation"),
    "qqp_acc": ("qqp", "accuracy", "validation"),
    "mnli_m": ("mnli", "accuracy", "validation"),
    "mnli_mm": ("mnli", "accuracy", "validation_mismatched"),
    "qnli": ("qnli", "accuracy", "validation"),
    "rte": ("rte", "accuracy", "validation"),
}
SUPERGLUE = {
    "boolq": ("boolq", "accuracy", "validation"),
    "cb_f1": ("cb", "f1_macro", "validation"),
    "cb_acc": ("cb", "accuracy", "validation"),
    "copa": ("copa", "accuracy", "validation"),
    "multirc_f1a": ("multirc", "f1a", "validation"),
    "multirc_em": ("multirc", "em", "validation"),
    "record_f1": ("record", "f1", "validation"),
    "record_em": ("record", "em", "validation"),
    "rte": ("superglue_rte", "accuracy", "validation"),
    "wic": ("wic", "accuracy", "validation"),
    "wsc": ("wsc", "accuracy", "validation"),
}
LABELS = {row["variant"]: row["label"] for row in paper_rows("glue")}


@pytest.fixture
def pages(tmp_path):
    """Renders records: name of a page -> its text."""
    return partial(render_pages, tmp_path)


def scored(table: str, variant: str, task: str = "en_mix", plus: float = 0.0, **changes: Any):
    """Records of a run whose figures are the paper's of that row, and `plus` more."""
    parts = GLUE if table == "glue" else SUPERGLUE
    (figures,) = [row for row in paper_rows(table) if row["variant"] == variant]
    settings: dict[str, Any] = {"scale": "paper", "step": 262_144, "settings": {"beam": 1}}
    return [
        make(
            task=task,
            variant=variant,
            dataset="rte" if (task, dataset) == ("superglue", "superglue_rte") else dataset,
            metric=metric,
            split=split,
            value=figures[key] + plus,
            test_set_sha256=dataset + split,
            signature=f"{dataset} {metric}",
            **{**settings, **changes},
        )
        for key, (dataset, metric, split) in parts.items()
    ]


# By hand, from the paper's figures: vanilla's GLUE is (53.1 + 92.2 + 90.35 + 89.0 + 89.7 + 84.85 +
# 91.7 + 76.9) / 8 = 667.8 / 8 = 83.475.
@pytest.mark.parametrize(
    ("table", "variant", "average", "delta"),
    [
        ("glue", "random", "75.14", "+0.04"),  # 601.1 / 8 = 75.1375
        ("glue", "dense", "71.99", "-0.01"),  # 575.9 / 8 = 71.9875
        ("superglue", "vanilla", "70.30", "+0.00"),  # 562.4 / 8 = 70.3
        ("superglue", "dense", "58.49", "-0.01"),  # 467.9 / 8 = 58.4875
    ],
)
def test_averages_are_t5s(pages, table, variant, average, delta):
    text = pages(*scored(table, variant))[f"{table}.md"]
    label = LABELS[variant]
    assert row(text, label, "ours")[2] == f"{average} (n=1)"
    assert row(text, label, "Δ")[2] == delta
    (figures,) = [row for row in paper_rows(table) if row["variant"] == variant]
    keys = GLUE if table == "glue" else SUPERGLUE
    assert row(text, label, "paper")[3:] == [f"{figures[key]:.1f}" for key in keys]
    assert row(text, label, "ours")[3:] == [f"{figures[key]:.2f} (n=1)" for key in keys]
    assert set(row(text, label, "Δ")[3:]) == {"+0.00"}


@pytest.mark.parametrize("missing", range(12))
def test_no_average_unless_every_part_is_there(pages, missing):
    records = scored("glue", "random")
    gone = records.pop(missing)
    text = pages(*records)["glue.md"]
    assert row(text, "Synthesizer (R)", "ours")[2] == "-"
    assert row(text, "Synthesizer (R)", "ours")[3 + missing] == "not run", gone.dataset
    assert row(text, "Synthesizer (D)", "ours")[2] == "not run"


def test_no_average_of_parts_of_different_runs(pages):
    records = scored("glue", "random")
    other = make(**{**vars(records[0]), "run": "beef"})
    assert row(pages(other, *records[1:])["glue.md"], "Synthesizer (R)", "ours")[2] == "-"


def test_averages_over_seeds(pages):
    text = pages(
        *scored("glue", "random"),
        *scored("glue", "random", seed=1, plus=1.0),
        *scored("glue", "random", seed=2, plus=5.0)[1:],  # without CoLA: no average of this seed
    )["glue.md"]
    # 75.1375 and 76.1375; sst2 91.2, 92.2, 96.2: mean 93.2, deviation sqrt(14 / 2) = 2.6458.
    ours = row(text, "Synthesizer (R)", "ours")
    assert ours[2] == "75.64 ± 0.71 (n=2)"
    assert ours[4] == "93.20 ± 2.65 (n=3)"


@pytest.mark.parametrize("task", ["superglue", "en_mix"])
def test_either_task_fills_the_table(pages, task):
    text = pages(*scored("superglue", "dense", task=task))["superglue.md"]
    assert row(text, "Synthesizer (D)", "ours")[2] == "58.49 (n=1)"
    assert f"Synthesizer (D), task `{task}`, row `dense`: starts from scratch." in text


def test_one_kind_of_run_fills_a_row(pages):
    """Both benchmarks at once as the paper does, if there are such runs; never some of each."""
    text = pages(
        *scored("glue", "random", plus=1.0)[:-1],
        *scored("glue", "random", task="glue"),
    )["glue.md"]
    ours = row(text, "Synthesizer (R)", "ours")
    assert ours[3] == "42.20 (n=1)" and ours[2] == "-" and ours[-1] == "not run"
    assert "Not shown of scale=paper: 12 figures" in text


def test_runs_that_start_from_c4_are_the_row_and_said_to_be(pages):
    started = {"train.init_from": "runs/c4-random"}
    text = pages(
        *scored("glue", "random", overrides=started),
        *scored("glue", "random", seed=1, plus=2.0),  # from scratch: not averaged with it
        *scored("glue", "dense", overrides=started | {"model.num_layers": 2}),
    )["glue.md"]
    assert row(text, "Synthesizer (R)", "ours")[2] == "75.14 (n=1)"
    assert row(text, "Synthesizer (D)", "ours")[2] == "not run"
    note = "Synthesizer (R), task `en_mix`, row `random`: starts from the run `runs/c4-random`."
    assert note in text
    assert "12 of runs with overrides" in text


def test_a_seed_never_counts_twice(pages):
    """The same seed from two C4 runs has two identities in the store."""
    old, new = ({"train.init_from": f"runs/c4-{n}"} for n in (1, 2))
    text = pages(
        *scored("glue", "random", overrides=old, date="2025-01-01T00:00:00Z", plus=3.0),
        *scored("glue", "random", overrides=new, date="2025-01-02T00:00:00Z"),
    )["glue.md"]
    assert row(text, "Synthesizer (R)", "ours")[2] == "75.14 (n=1)"
    assert "Not shown of scale=paper: 12 figures" in text


def test_sums_stand_for_the_papers_mixtures_of_c4(pages):
    c4 = {"task": "c4", "dataset": "c4", "scale": "paper", "settings": {}, "step": 524_288}
    ours = {**c4, "variant": "random+vanilla", "metric": "log_ppl_token"}
    text = pages(
        make(**ours, mix="sum", value=1.8512, train_seconds=262_144.0, params=292_400_000),
        make(**ours, mix="softmax", value=1.7),
        make(**ours, mix="sigmoid", value=1.9),
        make(**{**ours, "variant": "random"}, value=2.0),
    )
    assert row(text["c4.md"], "Synthesizer (R+V)") == [
        "Synthesizer (R+V)", "1.849 (M)", "1.851 (n=1)", "+0.002",
        "292 (M)", "292.4", "3.79 (M)", "2.00", "4.03 (L)",
    ]  # fmt: skip
    assert "Not shown of scale=paper: 2 figures (2 of another row)." in text["c4.md"]
    narang = text["narang.md"]
    assert row(narang, "random plus", "ours")[5] == "1.851 (n=1)"
    assert row(narang, "random plus", "Δ")[5] == "+0.009"
    assert row(narang, "random plus alpha", "ours")[5] == "1.900 (n=1)"
    assert row(narang, "random", "ours")[5] == "2.000 (n=1)"
    assert row(narang, "factorized", "ours")[2:] == ["-"] * 8
    assert row(narang, "dense", "ours")[2:] == [
        "-", "-", "-", "not run", "not run", "-", "-", "-",
    ]  # fmt: skip


def test_narang_takes_superglue_alone(pages):
    mixed = pages(*scored("superglue", "dense"))["narang.md"]
    assert row(mixed, "dense", "ours")[6] == "not run"
    alone = pages(*scored("superglue", "dense", task="superglue"))["narang.md"]
    assert row(alone, "dense", "ours")[6] == "58.49 (n=1)"
    assert row(alone, "dense", "Δ")[6] == "-2.54"  # 58.4875 - 61.03


def test_summaries_and_replies(pages):
    news = {"task": "cnn_dailymail", "dataset": "cnn_dailymail", "scale": "paper"}
    chat = {"task": "personachat", "dataset": "convai2", "scale": "paper"}
    text = pages(
        make(**news, metric="rougeLsum", value=33.5),
        make(**news, metric="rougeL", value=27.0),
        *(make(**chat, metric="dialogue_bleu1", seed=n, value=15.0 + n) for n in (0, 1)),
        make(**chat, metric="embedding_average", value=84.0),
        make(**{**chat, "dataset": "self_original"}, metric="meteor", value=7.0),
    )["generation.md"]
    assert row(text, "Synthesizer (R)", "paper")[2:] == ["35.47", "14.92", "33.10"]
    assert row(text, "Synthesizer (R)", "ours")[2:] == ["not run", "not run", "33.50 (n=1)"]
    assert row(text, "Synthesizer (R)", "Δ")[2:] == ["-", "-", "+0.40"]
    replies = text.split("### PersonaChat")[1]
    assert row(replies, "Synthesizer (R)", "ours")[2:] == [
        "15.50 ± 0.71 (n=2)", "not run", "not run", "not run", "not run", "84.00 (n=1)",
    ]  # fmt: skip
    assert row(replies, "Synthesizer (R)", "Δ")[2:] == ["+0.86", "-", "-", "-", "-", "-0.50"]
    assert "1 of another data set or split" in replies


def test_every_figure_of_the_encoder_only_table_is_marked_weak(pages):
    news = {"task": "agnews", "dataset": "ag_news_subset", "scale": "paper", "settings": {}}
    text = pages(
        make(**news, variant="factorized_random", metric="accuracy", value=87.0),
        make(**news, variant="linformer", metric="accuracy", value=85.0),
    )["encoder_only.md"]
    assert row(text, "Synthesizer (FR)")[1:] == [
        "86.53 (L)", "87.00 (n=1)", "+0.47", "83.39 (L)", "not run", "-",
    ]  # fmt: skip
    # Not a model of ours, but figures of it may come from elsewhere.
    assert row(text, "Linformer")[1:4] == ["86.50 (L)", "85.00 (n=1)", "-1.50"]
    assert "(L): weak: print only with a mark." in text
    assert "Models that are not implemented here: Linformer." in text
