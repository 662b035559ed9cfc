"""The commands for GKE."""

import re
import shlex

import pytest
from sweep_fakes import fake_sweep

from synth.errors import UserError
from synth.sweeps import xpk
from synth.sweeps.execution import Sweep
from synth.sweeps.folder import Folder
from synth.sweeps.runs import Run

pytestmark = pytest.mark.usefixtures("in_root")

SETTINGS = ["cluster=pods,tpu-type=v5litepod-16", "docker-image=gcr.io/p/synth:1", "spot"]


def test_golden(tmp_path, monkeypatch):
    runs = [
        Run("wmt_ende", "random+vanilla", "paper", 0),
        Run("c4", "random+vanilla;mix=sum", "paper", 1, {"train.num_steps": 100}),
    ]
    folder = Folder(tmp_path.relative_to(tmp_path.anchor))  # as a path on the cluster
    sweep = Sweep(folder, runs, lambda run, phase: [])
    first, second = xpk.commands(sweep, SETTINGS, ["--results=/data/results"])
    assert first == (
        "xpk workload create --workload=wmt-ende-random-vanilla-paper-s-b83a4c7d --cluster=pods "
        "--tpu-type=v5litepod-16 --docker-image=gcr.io/p/synth:1 --spot "
        f"--command='python sweep.py --launcher=pod --folder={folder.path} --configs=wmt_ende "
        "--variants=random+vanilla --scale=paper --seeds=0 --results=/data/results'"
    )
    # A shell takes it apart again, and the shell in the container what is left.
    *_, command = shlex.split(second)
    assert shlex.split(command.removeprefix("--command=")) == [
        "python",
        "sweep.py",
        "--launcher=pod",
        f"--folder={folder.path}",
        "--configs=c4",
        "--variants=random+vanilla;mix=sum",
        "--scale=paper",
        "--seeds=1",
        "--set=config.train.num_steps=100",
        "--results=/data/results",
    ]


@pytest.mark.parametrize("row", ["random", "factorized_random+factorized_dense+vanilla;mix=sum"])
def test_names_are_what_xpk_takes(row):
    names = {xpk.workload(Run("cnn_dailymail", row, "paper", seed)) for seed in range(3)}
    assert len(names) == 3
    for name in names:
        assert re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", name) and len(name) <= 40


def test_finished_runs_are_left_out(tmp_path):
    from synth.sweeps import local

    sweep = fake_sweep(tmp_path)
    sweep.commands.tell(sweep.runs[1], "eval", "fail")
    local.launch(sweep, 3)
    (left,) = xpk.commands(sweep, SETTINGS, [])
    assert "--variants=dense" in left


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ([], "--xpk cluster=NAME,tpu-type=v5litepod-16"),
        (["cluster=c"], "--xpk cluster=NAME,tpu-type=v5litepod-16"),
        (["cluster=c,tpu_type=v4-8"], "--xpk tpu_type=v4-8 is no setting; known: cluster=, tpu-"),
        (["cluster=c,tpu-type=v4-8,command=ls"], "--xpk command=ls is no setting"),
        (["cluster=c,tpu-type=v4-8,spot=yes"], "--xpk spot=yes is no setting"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, settings, told):
    with pytest.raises(UserError, match=re.escape(told)):
        xpk.commands(fake_sweep(tmp_path), settings, [])
