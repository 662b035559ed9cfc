"""p-values against vanilla from saved lines: those of the tests themselves, and only once."""

import dataclasses
import shutil
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import evaluate_one

from data import tasks
from synth import evaluation, records, report, results
from synth.metrics.significance import compare_bleu, compare_lines
from synth.results import ResultsError
from synth.rundir import RunDir
from synth.scoring import all_results


@pytest.fixture
def scored_twice(trained_ende, tmp_path, short_text, monkeypatch):
    """(results directory, outputs by row): a row and vanilla, scored on the same lines."""
    said = {
        "vanilla": [f"Die Seite {n} drucken." for n in range(23)],
        "random+vanilla": [f"Das Fenster {n % 5} wird geöffnet." for n in range(23)],
    }
    made = []
    for row, outputs in said.items():
        run = RunDir(shutil.copytree(trained_ende.path, tmp_path / "runs" / row))
        shutil.rmtree(run.eval, ignore_errors=True)
        monkeypatch.setattr(evaluation, "write_outputs", lambda *a, said=outputs, **k: said)
        scored = evaluate_one(run, split="test", beam=2, alpha=0.0)
        found = records.make_records(run, scored, f"python eval.py --workdir={run.path}")
        made += [dataclasses.replace(record, variant=row) for record in found]
    results.append(tmp_path / "runs.jsonl", made)
    return tmp_path, said


def p_values(directory):
    found = results.load(directory / "runs.jsonl")
    return {r.metric: r for r in found if r.metric.endswith("_p_vs_vanilla")}


@pytest.fixture
def on_short_text(trained_ende, short_text, monkeypatch):
    """The references are those of the lines that were scored."""
    from synth import comparison
    from synth.trained import load_trained

    experiment = load_trained(trained_ende, "last")[0]
    text = evaluation.open_split(experiment, "test")
    examples = text.__getitems__(range(len(text)))
    monkeypatch.setattr(comparison, "_open_examples", lambda *names: examples)
    return [example["targets"] for example in examples]


def test_p_values_are_those_of_the_tests_and_are_stored_once(scored_twice, on_short_text, capfd):
    directory, said = scored_twice
    report.compare(directory, "python eval.py --compare")
    found = p_values(directory)
    lines = [said["vanilla"], said["random+vanilla"], on_short_text]
    for form in ("bleu", "bleu_intl", "bleu_intl_uncased"):
        record = found[f"{form}_p_vs_vanilla"]
        assert record.value == compare_bleu(*lines, form=form).p_value
        assert record.row == "random+vanilla" and record.eval_command == "python eval.py --compare"
    # The two runs are copies: the same nats, so no difference at all.
    assert found["log_ppl_token_p_vs_vanilla"].value == 1.0
    assert compare_lines([1.0, 2.0], [1.0, 2.0]).p_value == 1.0
    before = (directory / "runs.jsonl").read_bytes()
    report.compare(directory, "python eval.py --compare")
    assert (directory / "runs.jsonl").read_bytes() == before
    assert f"0 new p-values, {len(found)} known" in capfd.readouterr().err


def test_lines_that_are_not_those_of_the_figure_are_refused(scored_twice, on_short_text):
    directory, _ = scored_twice
    (path,) = (directory / "runs" / "vanilla" / "eval").glob("*.txt")
    path.write_text("etwas anderes\n" * 23, encoding="utf-8")
    with pytest.raises(ResultsError, match="score the run again"):
        report.compare(directory, "python eval.py --compare")


def test_lines_that_are_gone_are_said(scored_twice, on_short_text, capfd):
    directory, _ = scored_twice
    shutil.rmtree(directory / "runs" / "vanilla")
    report.compare(directory, "python eval.py --compare")
    assert p_values(directory) == {}
    told, counts = capfd.readouterr().err.splitlines()
    assert told == (
        "wmt_ende, scale=tiny, random+vanilla: 7 figures not tested, no lines of "
        f"vanilla in {directory}/runs/vanilla/eval"
    )
    assert counts == "0 new p-values, 0 known, 7 figures not tested"


@pytest.mark.parametrize(
    ("task", "metric", "inputs", "targets", "outputs"),
    [
        ("cnn_dailymail", "rouge1", "Text.", ["a cat sat", "a dog ran"], ["a cat ran", "it ran"]),
        ("glue", "accuracy", "sst2 sentence: good", ["negative", "positive"], ["negative"] * 2),
        ("cnn_dailymail", "no_mean", "Text.", ["a", "b"], ["a", "b"]),
    ],
)
def test_means_over_lines_are_compared_line_by_line(
    task, metric, inputs, targets, outputs, tmp_path, monkeypatch
):
    from synth import comparison

    examples = [
        {"inputs": inputs, "targets": target, "label": number}
        for number, target in enumerate(targets)
    ]
    monkeypatch.setattr(comparison, "_read_examples", lambda *names: examples)
    said = {"vanilla": targets, "random": outputs}
    for name, lines in said.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    figure: Any = SimpleNamespace(
        task=task, dataset="any", split="validation", metric=metric, settings={"beam": 1}, sums={}
    )
    test: Any = comparison._test_of(figure)
    found = test(figure, tmp_path / "vanilla", tmp_path / "random")
    if metric == "no_mean":
        assert found is None
        return
    expected: list[Any] = [
        all_results(tasks.get_task(task), "validation", examples, lines)[metric]
        for lines in said.values()
    ]
    assert found.system == pytest.approx(expected[1].value)
    assert found.baseline == pytest.approx(100.0) and found.system < 100.0
    assert found.p_value == compare_lines(expected[0].lines, expected[1].lines).p_value
