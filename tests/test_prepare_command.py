"""The command line of `python -m data.prepare`, and that TensorFlow stays out of training."""

import os
import pkgutil
import subprocess
import sys

import pytest
from conftest import ROOT

import data
from data import prepare
from data.command import config_of
from data.errors import DataError
from data.tasks import TASKS


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], ["TASK", "--help"]),
        (["wmt_ende2"], ["'wmt_ende2'", "wmt_ende,", "imdb"]),
        (["wmt_ende", "--dataset=wmt"], ["'wmt'", "wmt_t2t_translate", "docs_ende"]),
        (["wmt_ende", "--datset=wmt"], ["--datset=wmt", "--help"]),
        (["wmt_ende", "--data=x"], ["--data=x"]),
        (["wmt_ende", "--vocab_size=many"], ["--vocab_size", "many"]),
        (["wmt_ende", "--scale=big"], ["big", "paper, small, tiny"]),
        (["wmt_ende", "--manual_dir=nowhere"], ["--manual_dir=nowhere"]),
    ],
)
def test_mistakes_are_told_before_anything_is_done(argv, words):
    with pytest.raises(DataError) as error:
        prepare.main(argv)
    for word in words:
        assert word in str(error.value)


def command(*argv: str, **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "data.prepare", *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        **kwargs,
    )


def test_a_mistake_costs_one_line_and_status_2():
    found = command("wmt_ende", "--dataset=wmt")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("data.prepare: task wmt_ende has no data set 'wmt'")
    assert found.stderr.count("\n") == 1


def test_help():
    found = command("--help")
    assert (found.returncode, found.stderr) == (0, "")
    assert "--manual_dir" in found.stdout
    assert "requirements-prepare.txt" in found.stdout


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_a_vocabulary_size_for_its_own_data(task):
    assert config_of(task, "paper").data.vocab_size >= 256


def test_a_mixture_is_prepared_as_its_parts_and_stand_ins_only_by_name():
    task = TASKS["glue"]
    chosen = prepare._chosen(task, None)
    assert [dataset.name for dataset in chosen] == ["glue"]
    names = [leaf.tfds_name for leaf in prepare._leaves(chosen)]
    assert len(names) == len(set(names)) == 8
    assert [dataset.name for dataset in prepare._chosen(task, "movie_sentiment")] == [
        "movie_sentiment"
    ]


_IMPORT_ALL = """
import importlib, sys
for name in {names!r}:
    importlib.import_module(name)
from data.sources import open_split
from data.tasks import get_task
dataset = get_task("wmt_ende").dataset("docs_ende")
assert open_split(dataset, "test", data_dir={data_dir!r}).__getitems__([0])
sys.exit("tensorflow" in sys.modules)
"""


def test_training_and_evaluation_do_not_import_tensorflow(tmp_path, data_dir):
    """In an interpreter in which `import tensorflow` works."""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text("__version__ = '2.99'\n")
    modules = pkgutil.walk_packages(data.__path__, "data.")
    names = [module.name for module in modules if not module.name.startswith("data.corpora")]
    names += ["synth.training", "synth.evaluation", "synth.describe", "synth.results"]
    script = _IMPORT_ALL.format(names=names, data_dir=data_dir)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    found = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
