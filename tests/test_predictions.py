"""Outputs of other systems: scored like ours, kept apart from ours, refused if they do not fit."""

import shutil
import unicodedata

import pytest
from conftest import ROOT

from data import sources, tasks
from synth import configuration, predictions, results
from synth.errors import UserError


@pytest.fixture
def config(data_dir):
    found = configuration.load(f"{ROOT}/configs/wmt_ende.py:random+vanilla,scale=tiny")
    found.data.data_dir = data_dir
    return configuration.canonical(found)


def references(config) -> list[str]:
    dataset = tasks.get_task(config.data.task).dataset(config.data.dataset)
    text = sources.open_split(dataset, "test", data_dir=config.data.data_dir)
    return [example["targets"] for example in sources.read_all(text)]


def test_perfect_outputs_of_any_form_score_100(config, tmp_path):
    """Decomposed, with end marks and padding: what they say is the reference."""
    path = tmp_path / "hyp.txt"
    lines = [unicodedata.normalize("NFD", line) + "</s> <pad>" for line in references(config)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    scored = predictions.score_predictions(path, config, split=None)
    figures = {figure.metric: figure for figure in scored.figures}
    assert figures["bleu"].value == pytest.approx(100)
    assert figures["bleu"].settings == {"beam": 4, "alpha": 0.6, "extra_length": 8}
    assert (scored.split, scored.n_items, scored.step) == ("test", 1543, 0)


def test_another_number_of_lines_is_refused(config, tmp_path):
    path = tmp_path / "hyp.txt"
    path.write_text("eine Zeile\n", encoding="utf-8")
    with pytest.raises(UserError, match="has 1 lines, but test of docs_ende has 1,543"):
        predictions.score_predictions(path, config, split="test")
    path.write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=r"--predictions=.*hyp.txt is empty"):
        predictions.score_predictions(path, config, split="test")
    with pytest.raises(UserError, match=r"--predictions=.*none.* cannot be read"):
        predictions.score_predictions(tmp_path / "none", config, split="test")
    path.write_bytes(b"\xff\n")
    with pytest.raises(UserError, match="cannot be read"):
        predictions.score_predictions(path, config, split="test")


def test_what_writes_nothing_or_is_a_mixture_is_refused(data_dir, tmp_path):
    path = tmp_path / "hyp.txt"
    for row, told in (("lm1b:random", "write nothing"), ("en_mix:random", "name a part")):
        name, _, variant = row.partition(":")
        config = configuration.load(f"{ROOT}/configs/{name}.py:{variant},scale=tiny")
        config.data.data_dir = data_dir
        path.write_text("\n" * 2556, encoding="utf-8")
        with pytest.raises(UserError, match=told):
            predictions.score_predictions(path, config, split=None)


def test_labels_are_named(data_dir, tmp_path):
    config = configuration.load(f"{ROOT}/configs/imdb.py:random,scale=tiny")
    config.data.data_dir = data_dir
    path = tmp_path / "hyp.txt"
    path.write_text("positive\n" * 874, encoding="utf-8")
    (figure,) = predictions.score_predictions(path, config, split=None).figures
    assert (figure.metric, figure.value) == ("accuracy", 50.0)


def test_a_system_has_a_row_of_its_own(config, start, tmp_path, data_dir):
    path = tmp_path / "hyp.txt"
    path.write_text("\n".join(references(config)) + "\n", encoding="utf-8")
    shutil.copy(ROOT / "results" / "paper.json", tmp_path)
    arguments = [
        f"--predictions={path}",
        "--config=configs/wmt_ende.py:vanilla,scale=small",
        f"--config.data.data_dir={data_dir}",
        f"--results={tmp_path}",
    ]
    nobody = start("eval.py", *arguments).wait()
    assert nobody.status == 2 and "needs --system=NAME: who made these outputs" in nobody.err
    running = start("eval.py", *arguments, "--system=oracle").wait()
    assert running.status == 0, running.err
    assert f"{path} by oracle, docs_ende, test: 1,543 lines" in running.out
    assert running.out.endswith(f"Written:\n  {tmp_path}/runs.jsonl\n")
    found = results.load(tmp_path / "runs.jsonl")
    assert {record.metric for record in found} >= {"bleu", "bleu_intl", "bleu_tok_atat"}
    for record in found:
        assert record.overrides == {"system": "oracle"} and record.row == "vanilla"
        assert record.params is None and "--system=oracle" in record.eval_command
    assert "oracle" in (tmp_path / "small_wmt_lm1b.md").read_text("utf-8")
