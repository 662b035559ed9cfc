"""Tables of small runs: every figure is checked by hand."""

from functools import partial

import pytest
from result_records import cells, make, render_pages, row


@pytest.fixture
def pages(tmp_path):
    """Renders records: name of a page -> its text."""
    return partial(render_pages, tmp_path)


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
    assert text.count("python train.py '--config=a b'\npython eval.py --seed=0\n") == 4  # a row


def test_scores_of_every_task_have_a_table(pages):
    def figure(task, dataset, metric, value, **changes):
        return make(task=task, dataset=dataset, metric=metric, value=value, **changes)

    text = pages(
        figure("cnn_dailymail", "help_summaries", "rouge1", 30.0),
        figure("cnn_dailymail", "help_summaries", "rougeLsum", 20.5),
        figure("personachat", "chitchat", "dialogue_bleu1", 12.0),
        figure("personachat", "chitchat", "embedding_average", 80.0),
        figure("glue", "movie_sentiment", "accuracy", 75.0),
        figure("superglue", "wordnet_wic", "accuracy", 55.0),
        figure("en_mix", "wordnet_wic", "accuracy", 56.0),
        figure("c4", "web_lm", "log_ppl_token", 3.25, settings={}),
        figure("imdb", "movie_sentiment", "accuracy", 70.0, settings={}),
        figure("questions", "ours", "bits_per_byte", 1.5, settings={}),
    )
    told = {
        "small_generation.md": [
            (["R-1", "R-Lsum"], ["30.00", "20.50"]),
            (["BLEU-1", "Emb average"], ["12.00", "80.00"]),
        ],
        "small_understanding.md": [(["Accuracy"], [f"{n}.00"]) for n in (75, 55, 56)],
        "small_c4.md": [(["log ppl/token", "ppl/token"], ["3.250", "-"])],
        "small_encoder_only.md": [(["Accuracy"], ["70.00"])],
        "small_other.md": [(["bits/byte"], ["1.500"])],
    }
    for name, tables in told.items():
        found = cells(text[name])
        assert [row[1:-5] for row in found[::3]] == [header for header, _ in tables], name
        assert [row[1:-5] for row in found[2::3]] == [figures for _, figures in tables], name


def test_likelihoods_of_decoded_text_make_no_rows_of_their_own(pages):
    task = {"task": "glue", "dataset": "movie_sentiment"}
    text = pages(
        make(**task, metric="accuracy", value=75.0),
        make(**task, metric="ppl_token", value=5.0, settings={}),
    )["small_understanding.md"]
    assert [row[:2] for row in cells(text)[2:]] == [["random", "75.00"]]


def test_a_run_that_starts_from_another_says_so(pages):
    text = pages(
        make(task="glue", dataset="movie_sentiment", metric="accuracy",
             overrides={"train.init_from": "runs/c4"})
    )["small_understanding.md"]  # fmt: skip
    assert cells(text)[2][0] == "random (train.init_from=runs/c4)"


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
