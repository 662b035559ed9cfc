"""Scores depend on the run and the text alone, and each can be recomputed from what is written."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import sacrebleu
from conftest import as_it_is, cut_text, evaluate_one

from data import sources
from data.tokenizer import EOS_ID, Tokenizer
from synth import evaluation, likelihood, report
from synth.decoding import Search
from synth.errors import UserError
from synth.outputs import write_outputs
from synth.rundir import RunDir
from synth.trained import load_trained

LINES = 23


def likelihoods(experiment, params, fixed, text):
    return likelihood.line_likelihoods(experiment, params, fixed, list(sources.read_all(text)))


@pytest.fixture(autouse=True)
def short(short_text):
    """Every split has 23 lines or 300."""


def lines_of(run: RunDir, split: str = "validation") -> list[dict[str, str]]:
    experiment = load_trained(run, "last")[0]
    return evaluation.open_split(experiment, split).__getitems__(range(LINES))


def read_jsonl(path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def scored_ende(trained_ende):
    """(greedy, beam of 3) scores of the validation split."""
    with cut_text():
        greedy = evaluate_one(trained_ende, split="validation", beam=1)
        beam = evaluate_one(trained_ende, split="validation", beam=3, alpha=0.6)
    return greedy, beam


@pytest.fixture(scope="module")
def scored_lm(trained_lm):
    with cut_text():
        return evaluate_one(trained_lm, split="validation")


# --- Likelihood -----------------------------------------------------------------------------------


def test_likelihoods_do_not_depend_on_the_batch(trained):
    """1, 7 and all 23 lines at a time give the same figures, in the order of the lines."""
    experiment, _, params, fixed = load_trained(trained, "last")
    text = evaluation.open_split(experiment, "validation")
    found = []
    for batch_tokens, multiple, buckets in (
        (512, 8, (64,)),
        (2048, 8, (64,)),
        (1024, 16, (32, 64)),
    ):
        data = experiment.config.data
        data.update(batch_tokens=batch_tokens, batch_multiple=multiple, bucket_lengths=buckets)
        found.append(likelihoods(experiment, params, fixed, text))
    for nll_N, tokens_N, scored in found[1:]:
        np.testing.assert_allclose(nll_N, found[0][0], rtol=1e-5)
        np.testing.assert_array_equal(tokens_N, found[0][1])
        assert scored == found[0][2]
    backwards = sources.TextSplit(
        text.__getitems__(range(LINES))[::-1],
        as_it_is,
        identity="backwards",
    )
    nll_N, tokens_N, scored = likelihoods(experiment, params, fixed, backwards)
    np.testing.assert_allclose(nll_N[::-1], found[0][0], rtol=1e-5)
    np.testing.assert_array_equal(tokens_N[::-1], found[0][1])
    assert scored[::-1] == found[0][2]


def test_likelihoods_are_those_of_single_unpadded_lines(trained):
    """Recomputed in float64 from the model's logits, one line at a time, without padding."""
    experiment, _, params, fixed = load_trained(trained, "last")
    text = evaluation.open_split(experiment, "validation")
    nll_N, tokens_N, _ = likelihoods(experiment, params, fixed, text)
    lines = text.__getitems__(range(LINES))
    params, fixed = jax.device_get((params, fixed))
    logits_of = jax.jit(lambda batch: experiment.model(params, fixed)(batch))
    short = [n for n in range(LINES) if tokens_N[n] < 40][:2]
    for number in short:
        batch = {}
        for side, line in lines[number].items():
            ids = [*experiment.tokenizer.encode([line])[0], EOS_ID]
            batch[side] = np.array([ids], np.int32)
        logits_LV = np.asarray(logits_of(batch)[0], np.float64)
        targets_L = batch["targets"][0]
        assert tokens_N[number] == len(targets_L)
        log_sum_L = np.log(np.exp(logits_LV - logits_LV.max()).sum(-1)) + logits_LV.max()
        expected = (log_sum_L - logits_LV[np.arange(len(targets_L)), targets_L]).sum()
        assert math.isclose(nll_N[number], expected, rel_tol=1e-5)


def test_a_line_that_is_too_long_is_scored_and_counted_as_far_as_it_is_read(trained_lm, capfd):
    experiment, _, params, fixed = load_trained(trained_lm, "last")
    long = "In the beginning God created the heaven and the earth. " * 4
    rows = [{"targets": "And God said"}, {"targets": long}]
    text = sources.TextSplit(rows, as_it_is, identity="two")
    nll_N, tokens_N, scored = likelihoods(experiment, params, fixed, text)
    assert tokens_N[1] == 64 > tokens_N[0] + 10
    assert scored[0] == rows[0]["targets"]
    assert long.startswith(scored[1]) and 20 < len(scored[1]) < len(long)
    assert (nll_N > 0).all()
    assert (
        "1 of 2 examples (50.0%) are longer than the model takes (max_length=64)"
        in capfd.readouterr().err
    )


def test_perplexities_follow_from_the_saved_lines(scored_lm, trained_lm):
    (path,) = scored_lm.files
    lines, records = lines_of(trained_lm), read_jsonl(path)
    assert len(records) == LINES == scored_lm.n_items
    figures = {figure.metric: figure for figure in scored_lm.figures}
    nll = math.fsum(record["nll"] for record in records)
    tokens = sum(record["tokens"] for record in records)
    assert math.isclose(figures["ppl_token"].value, math.exp(nll / tokens))
    assert math.isclose(figures["log_ppl_token"].value, nll / tokens)
    sums = figures["ppl_word"].sums
    assert (sums["tokens"], sums["lines"]) == (tokens, LINES)
    assert math.isclose(figures["ppl_word"].value, math.exp(nll / sums["words"]))
    assert math.isclose(figures["bits_per_byte"].value, nll / math.log(2) / sums["bytes"])
    # Lines that were not cut are counted whole.
    whole = [n for n in range(LINES) if records[n]["tokens"] < 64]
    words = sum(len(lines[n]["targets"].split()) + 1 for n in whole)
    size = sum(len(lines[n]["targets"].encode()) + 1 for n in whole)
    assert words <= sums["words"] and size <= sums["bytes"]
    if len(whole) == LINES:
        assert (words, size) == (sums["words"], sums["bytes"])


def test_the_validation_loss_of_training_is_the_evaluations(trained, request):
    name = "scored_lm" if trained.info().config.data.task == "lm1b" else "scored_ende"
    scored = request.getfixturevalue(name)
    scored = scored if isinstance(scored, evaluation.Scored) else scored[0]
    figure = next(f for f in scored.figures if f.metric == "log_ppl_token")
    (logged,) = [r for r in trained.read_metrics() if r["step"] == 4 and "validation/loss" in r]
    assert math.isclose(figure.value, logged["validation/loss"], rel_tol=1e-5)


def test_a_language_model_is_not_translated(scored_lm):
    assert scored_lm.samples == []
    assert {f.metric for f in scored_lm.figures} == {
        "ppl_token", "ppl_word", "bits_per_byte", "log_ppl_token"
    }  # fmt: skip
    assert all(figure.settings == {} for figure in scored_lm.figures)


# --- Translation ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def babbler(trained_ende):
    """(experiment, params, fixed) of a translator that says something else about each line."""
    experiment = load_trained(trained_ende, "last")[0]
    state = experiment.init_state()
    # Untrained, and looking hard at single tokens of the source.
    cross = state.params["decoder"]["blocks"][0]["cross_attention"]
    cross["score"]["key_DHK"] *= 30.0
    cross["output_HKD"] *= 5.0
    return experiment, state.params, state.fixed


@pytest.mark.parametrize("beam", [1, 3])
def test_translations_do_not_depend_on_the_batch(babbler, beam):
    experiment, params, fixed = babbler
    text = evaluation.open_split(experiment, "validation")
    settings: dict[str, Any] = {"beam": beam, "alpha": 0.6, "extra_length": 8}

    def translate(text, batch_tokens: int) -> list[str]:
        return write_outputs(
            experiment,
            params,
            fixed,
            list(sources.read_all(text)),
            Search(**settings),
            batch_tokens=batch_tokens,
        )

    found = translate(text, 512)
    assert len(found) == LINES
    assert len(set(found)) > LINES // 2
    assert translate(text, 1024) == found
    # Each translation is that of the line at its place.
    lines = text.__getitems__([17, 2, 11])
    some = sources.TextSplit(lines, as_it_is, identity="some")
    assert translate(some, 512) == [found[17], found[2], found[11]]


def hypotheses_of(scored: evaluation.Scored) -> list[str]:
    (path,) = [path for path in scored.files if path.suffix == ".txt"]
    *lines, nothing = path.read_text("utf-8").split("\n")
    assert nothing == ""
    return lines


def test_the_file_has_a_line_for_each_line_in_order(trained_ende, monkeypatch):
    """Also for those a model says nothing about."""
    said = [f"{n} Seiten drucken" if n % 3 else "" for n in range(LINES)]
    monkeypatch.setattr(evaluation, "write_outputs", lambda *args, **kwargs: said)
    scored = evaluate_one(trained_ende, split="test", beam=2, alpha=0.0)
    assert hypotheses_of(scored) == said
    references = [line["targets"] for line in lines_of(trained_ende, "test")]
    bleu = next(figure for figure in scored.figures if figure.metric == "bleu")
    assert bleu.empty_outputs == 8
    expected = sacrebleu.corpus_bleu(said, [references], force=True).score
    assert math.isclose(bleu.value, expected, abs_tol=1e-9)


def test_line_ends_inside_of_a_translation_make_no_line(trained_ende, monkeypatch):
    decode = Tokenizer.decode
    monkeypatch.setattr(
        Tokenizer, "decode", lambda *args: [f"{line}\nund\u2028so" for line in decode(*args)]
    )
    scored = evaluate_one(trained_ende, split="test", beam=1)
    lines = hypotheses_of(scored)
    assert len(lines) == LINES
    assert all(line.endswith(" und so") for line in lines)


def test_translations_do_not_see_the_references(trained_ende, babbler):
    experiment, params, fixed = babbler
    lines = lines_of(trained_ende)[:8]
    rows = [lines, [{**line, "targets": "ganz etwas anderes " * n} for n, line in enumerate(lines)]]
    found = [
        write_outputs(
            experiment,
            params,
            fixed,
            part,
            Search(extra_length=8),
            batch_tokens=512,
        )
        for part in rows
    ]
    assert found[0] == found[1]


def test_bleu_is_that_of_the_written_file_and_the_raw_references(scored_ende, trained_ende):
    references = [line["targets"] for line in lines_of(trained_ende)]
    for scored in scored_ende:
        hypotheses = hypotheses_of(scored)
        assert len(hypotheses) == LINES == scored.n_items
        figures = {figure.metric: figure for figure in scored.figures}
        for metric, tokenize in (("bleu", "13a"), ("bleu_intl", "intl")):
            expected = sacrebleu.corpus_bleu(
                hypotheses, [references], force=True, tokenize=tokenize
            )
            assert math.isclose(figures[metric].value, expected.score, abs_tol=1e-9)
        assert "tok:13a" in figures["bleu"].signature
        assert "tok:intl" in figures["bleu_intl"].signature
        empty = sum(not line.strip() for line in hypotheses)
        assert figures["bleu"].empty_outputs == empty


def test_settings_tell_how_it_was_decoded(scored_ende):
    greedy, beam = (
        {figure.metric: figure.settings for figure in scored.figures} for scored in scored_ende
    )
    assert greedy["bleu"] == {"beam": 1, "extra_length": 8}
    assert beam["bleu"] == {"beam": 3, "extra_length": 8, "alpha": 0.6}
    assert greedy["ppl_token"] == beam["ppl_token"] == {}


def test_files_of_different_decoding_lie_beside_each_other(scored_ende, trained_ende):
    names = {path.name for scored in scored_ende for path in scored.files}
    assert names == {
        "validation-step4-nll.jsonl",
        "validation-step4-beam1-alpha0.6.txt",
        "validation-step4-beam3-alpha0.6.txt",
    }
    assert all((trained_ende.eval / name).is_file() for name in names)


def test_samples_are_lines_of_the_split_beside_their_translation(scored_ende, trained_ende):
    scored, lines = scored_ende[0], lines_of(trained_ende)
    hypotheses = hypotheses_of(scored)
    assert len(scored.samples) == 5
    places = [[line["inputs"] for line in lines].index(sample[0]) for sample in scored.samples]
    assert places == sorted(places) and len(set(places)) == 5
    for place, (_, reference, hypothesis) in zip(places, scored.samples, strict=True):
        assert reference == lines[place]["targets"]
        assert " ".join(hypothesis.splitlines()) == hypotheses[place]


def test_the_report_shows_every_figure(scored_ende, trained_ende):
    text = report.scored_text("a run", scored_ende[1], Path("runs.jsonl"))
    for figure in scored_ende[1].figures:
        assert figure.metric in text
        assert f"{figure.value:.3f}" in text
    assert scored_ende[1].samples[0][0] in text


# --- The run directory is enough ------------------------------------------------------------------


def test_a_run_can_be_moved(trained_lm, scored_lm, tmp_path):
    moved = RunDir(shutil.copytree(trained_lm.path, tmp_path / "moved"))
    shutil.rmtree(moved.eval, ignore_errors=True)
    again = evaluate_one(moved, split="validation")
    assert again.figures == scored_lm.figures
    assert again.sha256 == scored_lm.sha256


def test_a_checkpoint_can_be_chosen(trained_lm, scored_lm):
    early = evaluate_one(trained_lm, split="validation", checkpoint="2")
    best = evaluate_one(trained_lm, split="validation", checkpoint="best")
    losses = {r["step"]: r["validation/loss"] for r in trained_lm.read_metrics() if len(r) == 4}
    values = {s.step: s.figures[3].value for s in (early, scored_lm)}
    assert {step: round(value, 4) for step, value in values.items()} == {
        step: round(loss, 4) for step, loss in losses.items()
    }
    assert best.step == min(losses, key=losses.__getitem__)
    assert early.figures[0].settings == {"checkpoint": "2"}
    assert best.figures[0].settings == {"checkpoint": "best"}


def test_another_vocabulary_than_the_checkpoints_is_refused(trained_lm, trained_ende, tmp_path):
    mixed = RunDir(shutil.copytree(trained_lm.path, tmp_path / "mixed"))
    shutil.copy(trained_ende.vocabulary, mixed.vocabulary)
    with pytest.raises(UserError, match="trained with the vocabulary"):
        load_trained(mixed, "last")


@pytest.mark.parametrize(
    ("settings", "told"), [({"beam": 0}, "beam=0"), ({"alpha": -0.5}, "alpha=-0.5")]
)
def test_settings_that_cannot_be_are_named(trained_ende, settings, told):
    with pytest.raises(UserError, match=told):
        evaluate_one(trained_ende, split="validation", **settings)
