"""Stores that disagree with themselves are told of; p-values mark what they are of."""

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from result_records import BASE, LM1B, ROOT, WMT14, cells, make, render_pages, row

from synth import report, results
from synth.metrics.significance import Comparison
from synth.results import Record, ResultsError, append, load, significance


@pytest.fixture
def store(tmp_path) -> Path:
    (tmp_path / "paper.json").write_bytes((ROOT / "results" / "paper.json").read_bytes())
    return tmp_path / "runs.jsonl"


@pytest.fixture
def pages(tmp_path):
    """Renders records: name of a page -> its text."""
    return partial(render_pages, tmp_path)


def write(store: Path, *records: Record) -> None:
    """By hand: `append` would leave out what is said twice."""
    store.write_text("".join(record.to_json() + "\n" for record in records))


# --- Values that cannot be ------------------------------------------------------------------------

SUMS = {"nll": 300.0, "tokens": 100, "words": 60, "bytes": 400}


@pytest.mark.parametrize(
    ("metric", "value", "sums"),
    [
        ("ppl_token", math.exp(3.0), SUMS),
        ("ppl_word", math.exp(5.0), SUMS),
        ("log_ppl_token", 3.0, SUMS),
        ("bits_per_byte", 0.75 / math.log(2), SUMS),
        ("accuracy", 75.0, {"right": 3, "examples": 4}),
        ("accuracy", 75.0, {}),
        ("matthews", -5.0, {}),
        ("cider", 120.0, {}),
        ("bleu_p_vs_vanilla", 1.0, {}),
        ("something_else", -1e6, {}),
    ],
)
def test_values_that_can_be(metric, value, sums):
    assert make(metric=metric, value=value, sums=sums).value == value


@pytest.mark.parametrize(
    ("metric", "value", "sums", "reason"),
    [
        ("ppl_token", 20.0, SUMS, "ppl_token is 20.0, but its own sums give 20.08"),
        ("ppl_word", math.exp(3.0), SUMS, "its own sums give 148.4"),
        ("log_ppl_token", 3.1, SUMS, "its own sums give 3.0"),
        ("bits_per_byte", 1.0, SUMS, "its own sums give 1.08"),
        ("accuracy", 76.0, {"right": 3, "examples": 4}, "its own sums give 75.0"),
        ("bleu", 100.1, {}, "bleu must be from 0 to 100, got 100.1"),
        ("rouge1", -0.1, {}, "rouge1 must be from 0 to 100"),
        ("ppl_token", 0.5, {}, "ppl_token must be from 1 to inf"),
        ("bleu_p_vs_vanilla", 1.5, {}, "must be from 0 to 1"),
    ],
)
def test_values_that_cannot_be_are_told_with_their_line(store, metric, value, sums, reason):
    changes = {"metric": metric, "value": value, "sums": sums}
    with pytest.raises(ResultsError, match=reason):
        make(**changes)
    line = json.dumps(json.loads(BASE.to_json()) | changes)
    store.write_text(f"{BASE.to_json()}\n\n{line}\n")
    with pytest.raises(ResultsError, match=rf"runs.jsonl:3: .*{reason}"):
        results.check(store.parent)


# --- What is odd ----------------------------------------------------------------------------------


def test_a_sound_store_has_no_findings(store):
    lm = {**LM1B, "variant": "vanilla"}
    append(store, [BASE, make(seed=1), make(step=4000), make(**lm, metric="log_ppl_token")])
    append(store, [make(**WMT14, variant="linformer"), make(variant="vanilla+dense+random")])
    assert results.check(store.parent) == []


def test_the_committed_store_is_sound():
    """Figures may have been measured again; it has no unknown rows and no second test sets."""
    assert [line for line in results.check(ROOT / "results") if "more than once" not in line] == []


def test_a_figure_said_twice_is_told(store):
    write(store, BASE, make(seed=1), make(date="2025-02-01T00:00:00Z"))
    (line,) = results.check(store.parent)
    assert line == (
        f"{store}: wmt_ende, random, scale=small, seed 0, step 2000: 1 figure stands more than "
        "once (lines 1, 3; 2025-01-02T03:04:05+00:00, 2025-02-01T00:00:00Z), with the same value"
    )


def test_a_figure_that_changed_is_told(store):
    write(store, BASE, make(value=12.5, date="2025-02-01T00:00:00Z"))
    (line,) = results.check(store.parent)
    assert line.endswith(", 1 with another value; the latest date counts")


def test_figures_said_twice_are_told_once_for_a_run_and_when_they_are_written(store):
    metrics = ("bleu", "bleu_intl", "rouge1")
    old = [make(metric=metric, seed=seed) for seed in (0, 1) for metric in metrics]
    new = [make(metric=m, value=9.0 if m == "bleu" else 10.0, seed=1) for m in metrics]
    write(store, *old, *new, make(variant="vanilla"))
    (line,) = results.check(store.parent)
    assert "random, scale=small, seed 1, step 2000: 3 figures stand more than once" in line
    assert "(lines 4-9; " in line and ", 1 with another value" in line
    assert results.check(store.parent, since=6) == [line]
    assert "1 figure stands" in results.check(store.parent, since=8)[0]
    assert results.last_line(store) == 10
    assert results.check(store.parent, since=9) == []


def test_rows_without_a_name_are_told(store):
    append(store, [make(variant="randum+vanilla"), make(variant="randum+vanilla", seed=1)])
    (line,) = results.check(store.parent)
    assert line == (
        "row 'randum+vanilla' of task wmt_ende is no variant and no row of the paper: 2 figures "
        "stand in no table of the paper"
    )


def test_copies_of_a_test_set_are_told(store):
    append(store, [BASE, make(variant="vanilla"), make(seed=1, test_set_sha256="f00d")])
    (line,) = results.check(store.parent)
    assert line == (
        "wmt_ende at scale=small: 2 copies of docs_ende, split test: 7a7fb12d368ccdc1 "
        "(random, vanilla), f00d (random); their figures are never averaged"
    )
    write(store, BASE, make(test_set_sha256="f00d", date="2025-02-01T00:00:00Z"))
    (line,) = results.check(store.parent)
    assert ", of 2 copies of the test set, with the same value" in line


def test_findings_are_printed_when_tables_are_rendered(store, capsys):
    write(store, BASE, BASE)
    report.render(store.parent)
    assert "(lines 1-2; " in capsys.readouterr().err
    report.render(store.parent, since=2)
    assert "note:" not in capsys.readouterr().err


@pytest.mark.parametrize("text", [None, "{"])
def test_a_directory_without_the_papers_figures_is_told(tmp_path, text):
    if text:
        (tmp_path / "paper.json").write_text(text)
    with pytest.raises(ResultsError, match=r"copy results/paper\.json of this repository there"):
        results.check(tmp_path)


# --- p-values -------------------------------------------------------------------------------------


def compared(p: float, figure: Record, vanilla: Record) -> Comparison:
    return Comparison(vanilla.value, figure.value, p, "paired bootstrap|samples:1000")


def with_p(records: list[Record], *ps: float) -> list[Record]:
    """The records, and p-values in the order of those that are not vanilla's."""
    left = list(ps)
    tests = results.p_records(
        records, lambda f, v: compared(left.pop(0), f, v), eval_command="python eval.py --p"
    )
    return [*records, *tests]


def two_rows(**changes: Any) -> list[Record]:
    settings: Any = {"metric": "bleu_intl", **changes}
    return [
        make(variant="vanilla", **settings, value=20.0),
        make(**settings, value=27.0),
        make(**settings, value=27.0, seed=1),
    ]


def test_the_record_of_a_p_value():
    vanilla, figure, _ = two_rows()
    (test, _) = with_p([vanilla, figure, make(seed=1, metric="bleu_intl")], 0.01, 0.2)[3:]
    assert (test.metric, test.value) == ("bleu_intl_p_vs_vanilla", 0.01)
    assert test.signature == "paired bootstrap|samples:1000"
    assert test.sums == {
        "value": 27.0, "vanilla_value": 20.0, "vanilla_seed": 0, "vanilla_run": "c0ffee",
    }  # fmt: skip
    assert test.eval_command == "python eval.py --p"
    for name in ("task", "row", "scale", "seed", "step", "dataset", "split", "settings", "run"):
        assert getattr(test, name) == getattr(figure, name)


@pytest.mark.parametrize(
    "change",
    [{"task": "wmt_enfr"}, {"scale": "tiny"}, {"step": 1}, {"split": "validation"}, {"seed": 5},
     {"test_set_sha256": "f00d"}, {"settings": {"beam": 1}}, {"overrides": {"model.R": 8}},
     {"metric": "bleu_intl"}, {"overrides": {"train.init_from": "runs/c4"}}],
)  # fmt: skip
def test_only_like_is_compared_with_like(change):
    pairs = significance.comparisons([make(variant="vanilla"), make(**change)])
    may_differ = change.keys() <= {"seed"} or "train.init_from" in change.get("overrides", {})
    assert len(pairs) == may_differ


def test_vanilla_of_the_same_seed_is_preferred():
    vanilla = [make(variant="vanilla", seed=n) for n in (2, 1)]
    pairs = significance.comparisons([*vanilla, make(seed=2), make(seed=3)])
    assert [(figure.seed, base.seed) for figure, base in pairs] == [(2, 2), (3, 1)]


@pytest.mark.parametrize(("ps", "mark"), [((0.01, 0.049), " †"), ((0.01, 0.05), "")])
@pytest.mark.parametrize("scale", ["paper", "small"])
def test_a_dagger_needs_every_seed(pages, ps, mark, scale):
    changes = WMT14 if scale == "paper" else {}
    text = pages(*with_p(two_rows(**changes), *ps))
    if scale == "paper":
        page = text["wmt_lm1b.md"]
        assert row(page, "Synthesizer (Random)")[4] == f"27.00 ± 0.00 (n=2){mark}"
        assert row(page, "Transformer (their run)")[4] == "20.00 (n=1)"
    else:
        page = text["small_wmt_lm1b.md"]
        assert row(page, "random")[2] == f"27.00 ± 0.00{mark}"
        assert len(cells(page)) == 4  # p-values make no rows
    each = f"random seed 0 `bleu_intl` 0.010, random seed 1 `bleu_intl` {ps[1]:.3f}"
    assert f"†: differs from our vanilla at p &lt; 0.05 in every seed. p: {each}." in page
    assert "Test behind p: `paired bootstrap|samples:1000`." in page


@pytest.mark.parametrize("variant", ["vanilla", "random"])
def test_a_p_value_of_figures_that_changed_is_left_out(pages, variant):
    records = with_p(two_rows(**WMT14), 0.01, 0.01)
    again = make(**{**WMT14, "variant": variant}, metric="bleu_intl", value=25.0,
                 date="2025-03-01T00:00:00Z")  # fmt: skip
    page = pages(*records, again)["wmt_lm1b.md"]
    assert "†" not in row(page, "Synthesizer (Random)")[4]
    assert "p-values of figures that are not these, left out: random seed 0" in page


def test_lines_of_another_figure_are_an_error(store):
    append(store, two_rows())
    wrong = Comparison(20.0, 26.0, 0.01, "test")
    with pytest.raises(ResultsError, match=r"random, seed 0: the saved lines give bleu_intl 26"):
        results.p_records(load(store), lambda f, v: wrong, eval_command="x")
    assert results.p_records(load(store), lambda f, v: None, eval_command="x") == []


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python eval.py --workdir=runs/a --beam=1", "runs/a"),
        ("python eval.py --workdir 'runs/a b'", "runs/a b"),
        (["python", "eval.py", "--workdir", "runs/a"], "runs/a"),
        ("python eval.py --predictions=x", None),
    ],
)
def test_the_run_directory_of_a_record(command, found):
    assert significance.workdir(make(command="python train.py", eval_command=command)) == found
