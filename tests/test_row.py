"""A row of a table with one command, and what evaluation can do beside the usual."""

import dataclasses
import html
import json
import re
import shutil

import jax
import numpy as np
import pytest
from conftest import ROOT, cut_text, evaluate_one

from data import sources
from synth import evaluation, report, row, training
from synth import outputs as outputs_module
from synth.decoding import Search
from synth.errors import UserError
from synth.rundir import RunDir
from synth.trained import load_trained

pytestmark = pytest.mark.usefixtures("in_root")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("wmt_ende", "--row=wmt_ende must be TASK/VARIANT"),
        ("wmt/random", "no config file 'configs/wmt.py'"),
        ("wmt_ende/rand", "rand"),
        ("agnews/random", "AG's news has no embedded text"),
    ],
)
def test_names_that_are_no_row_are_told(name, told):
    with pytest.raises(UserError, match=re.escape(told)):
        row.find(name, scale="tiny", seed=0, workdir="")


def test_a_row_has_a_place_of_its_own():
    found = row.find("lm1b/vanilla+random", scale="tiny", seed=3, workdir="")
    assert str(found.run.path) == "runs/lm1b-random+vanilla-tiny-seed3"
    assert found.info.name == "configs/lm1b.py:vanilla+random,scale=tiny,seed=3"
    assert (found.done, found.steps) == (0, 20)
    assert found.info.command == (
        f"python train.py --config={found.info.name} --workdir={found.run.path}"
    )


@pytest.mark.parametrize(
    ("checkpoint", "average", "told"),
    [
        ("last", 3, None),
        ("best", 1, None),
        ("16", 3, None),
        ("10", 1, "--checkpoint=10: .* will have its checkpoints 15, 16, 20 .and the best."),
        ("7", 1, "--checkpoint=7: .* will have its checkpoints 15, 16, 20 .and the best."),
        ("first", 1, "--checkpoint=first: .* name one of them, last or best"),
        ("last", 4, "--average=4: .* will have 3 checkpoints, 15, 16, 20; train it by train.py"),
        ("last", 0, "--average=0: .* will have 3 checkpoints"),
    ],
)
def test_checkpoints_that_a_row_will_not_have(checkpoint, average, told):
    found = row.find("lm1b/random", scale="tiny", seed=0, workdir="")
    found.info.config.train.update(eval_every=5, checkpoint_every=8)
    if told is None:
        row.check_checkpoints(found, checkpoint, average)
        return
    with pytest.raises(UserError, match=told):
        row.check_checkpoints(found, checkpoint, average)


def test_checkpoints_of_a_trained_row_are_left_to_evaluation():
    found = row.find("lm1b/random", scale="tiny", seed=0, workdir="")
    row.check_checkpoints(dataclasses.replace(found, done=20), "7", 9)


def test_a_row_is_trained_once_and_its_plan_told_first(tmp_path, data_dir, capfd, monkeypatch):
    found = row.find("lm1b/random", scale="tiny", seed=0, workdir=str(tmp_path / "run"))
    found.info.config.update_from_flattened_dict(
        {"data.data_dir": data_dir, "data.window": 512, "train.num_steps": 2}
    )
    with cut_text():
        row.tell(found)
        told = capfd.readouterr().err
        assert "2 steps in" in told and "0 steps are done, 2 are left" in told
        assert re.search(r"s a step \(.* GFLOP/s at most\): about \d+:\d\d:\d\d", told)
        row.train(found)
    again = row.Row(found.info, found.run, training.latest_step(found.run) or 0)
    assert (again.done, again.steps) == (2, 0)
    row.tell(again)
    assert "it is trained already; it will be scored" in capfd.readouterr().err


def test_an_average_is_the_mean_of_the_last_checkpoints(trained_lm):
    steps = sorted(int(p.name) for p in trained_lm.checkpoints.iterdir() if p.name.isdecimal())
    assert steps == [2, 4]
    parts = [load_trained(trained_lm, str(step))[2] for step in steps]
    _, step, params, _ = load_trained(trained_lm, "last", 2)
    assert step == 4
    jax.tree.map(
        lambda mean, a, b: np.testing.assert_allclose(mean, (a + b) / 2, atol=1e-6),
        params,
        *parts,
    )
    for average in (0, 3):
        with pytest.raises(UserError, match=rf"--average={average}: .* keeps 2 up to step 4"):
            load_trained(trained_lm, "last", average)


def test_an_average_is_a_figure_of_its_own(trained_lm, short_text):
    scored = evaluate_one(trained_lm, split="validation", average=2)
    assert scored.figures[0].settings == {"average": 2}
    assert scored.files[0].name == "validation-step4-average2-nll.jsonl"


def test_interrupted_decoding_goes_on_after_what_is_there(trained_ende, short_text, tmp_path):
    experiment, _, params, fixed = load_trained(trained_ende, "last")
    text = list(sources.read_all(evaluation.open_split(experiment, "validation")))
    search = Search(beam=1, extra_length=8)

    def write(part=None, text=text):
        model = (experiment, params, fixed)
        return outputs_module.write_outputs(*model, text, search, batch_tokens=512, part=part)

    whole = write()
    part = tmp_path / "outputs.part"
    assert write(part) == whole
    lines = part.read_text("utf-8").splitlines(keepends=True)
    assert len(lines) == len(text) == 23
    # Killed in the middle of a line; what is there is taken as it is, the rest is made.
    first = json.loads(lines[0])
    kept = [json.dumps({"index": first["index"], "output": "kept"}) + "\n", *lines[1:9]]
    part.write_text("".join(kept) + lines[9][:12], encoding="utf-8")
    expected = list(whole)
    expected[first["index"]] = "kept"
    assert write(part) == expected
    assert len(part.read_text("utf-8").splitlines()) == 23
    # With nothing left to do, nothing is decoded.
    assert write(part) == expected


def test_a_mixture_is_scored_part_by_part(tiny, short_text, tmp_path):
    """GLUE's and SuperGLUE's stand-ins, each by the rules of the task whose form it has."""
    run = RunDir(tmp_path / "run")
    steps = {f"train.{k}": 2 for k in ("num_steps", "log_every", "eval_every", "checkpoint_every")}
    training.train(tiny("en_mix:dense", steps), run)
    scored = evaluation.evaluate(run, beam=1)
    assert [(s.dataset, s.split) for s in scored] == [
        ("movie_sentiment", "test"),
        ("wordnet_wic", "test"),
    ]
    for part in scored:
        assert [figure.metric for figure in part.figures] == ["accuracy"]
        (path,) = part.files
        assert path.name.startswith(f"{part.dataset}-test-step2-beam1")
        written = path.read_text("utf-8").splitlines()
        with cut_text():
            experiment = load_trained(run, "last")[0]
        dataset = experiment.task.dataset(part.dataset)
        whole = sources.open_split(dataset, "test", data_dir=experiment.config.data.data_dir)
        targets = [e["targets"] for e in whole.__getitems__(range(23))]
        right = sum(a == b for a, b in zip(written, targets, strict=True))
        assert part.figures[0].value == pytest.approx(100 * right / 23)


def test_a_page_shows_tables_curves_and_samples_of_the_runs(trained_ende, tmp_path, short_text):
    for name in ("paper.json", "runs.jsonl"):
        shutil.copy(ROOT / "results" / name, tmp_path)
    run = RunDir(shutil.copytree(trained_ende.path, tmp_path / "runs" / "ende"))
    (tmp_path / "runs" / "no-run").mkdir()
    with cut_text():
        experiment = load_trained(run, "last")[0]
    dataset = experiment.dataset
    whole = sources.open_split(dataset, "test", data_dir=experiment.config.data.data_dir)
    run.eval.mkdir(exist_ok=True)
    outputs = [f"Ausgabe {n}" for n in range(len(whole))]
    (run.eval / "test-step4-beam4-alpha0.6.txt").write_text("\n".join(outputs) + "\n", "utf-8")
    page = tmp_path / "new" / "page.html"
    report.write_page(tmp_path, page, tmp_path / "runs")
    text = page.read_text("utf-8")
    first = html.escape(whole.__getitems__([0])[0]["targets"])
    for part in ("<svg", "random+vanilla", "Ausgabe 0", first, "27.67"):
        assert part in text
    report.write_page(tmp_path, page, tmp_path / "none")
