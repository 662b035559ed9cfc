"""What is told of a sweep: before it begins, on the way, at the end."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from result_records import make

from synth import describe
from synth.results import append
from synth.rundir import RunDir, RunInfo
from synth.sweeps import plan, status
from synth.sweeps.execution import Sweep
from synth.sweeps.folder import Folder
from synth.sweeps.runs import Commands, Run
from synth.sweeps.states import State

pytestmark = pytest.mark.usefixtures("in_root")

TRAINING, DONE, FAILED, WAITING = (
    Run("lm1b", variant, "tiny", 0) for variant in ("random", "dense", "vanilla", "dense+vanilla")
)
RUNS = [TRAINING, DONE, FAILED, WAITING]


def begun(folder: Folder, run: Run, *metrics: tuple[int, float]) -> RunInfo:
    """A run directory with a line of metrics for each (step, seconds)."""
    info = RunInfo(run.config_name, {}, run.config(), "python train.py")
    workdir = RunDir(folder.workdir(run))
    workdir.begin(info)
    lines = [{"step": step, "timing": {"seconds": seconds}} for step, seconds in metrics]
    lines.append({"step": metrics[-1][0], "validation/loss": 1.0, "timing": {}})
    workdir.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return info


def _made_from(workdir: Path, info: RunInfo) -> dict[str, Any]:
    """Of the records of a scoring."""
    command = f"python eval.py --workdir={workdir}"
    settings = {"beam": 4, "alpha": 0.6}
    common = {"run": info.config_hash, "task": "lm1b", "step": info.config.train.num_steps}
    return common | {"settings": settings, "command": "", "eval_command": command}


@pytest.fixture
def folder(tmp_path):
    """A sweep of four runs, one in each state."""
    folder = Folder(tmp_path / "sweep")
    folder.path.mkdir()
    folder.add_runs(RUNS)
    begun(folder, TRAINING, (5, 100.0), (10, 120.0))
    folder.set_state(TRAINING, State("running", "train", host="here", started="then"))
    info = begun(folder, DONE, (20, 60.0))
    folder.set_state(DONE, State("done", "eval", status=0))
    begun(folder, FAILED, (5, 10.0))
    folder.set_state(FAILED, State("failed", "train", reason="train.py: no disk", status=2))
    folder.add_jobs({WAITING.name: "17_3"})
    figures = [("ppl_token", 42.553), ("ppl_word", 284.63), ("bits_per_byte", 1.5861)]
    records = [
        make(**_made_from(folder.workdir(DONE), info), metric=metric, value=value)
        for metric, value in figures
    ]
    other = make(run="another", task="lm1b", metric="ppl_token", value=1.0)
    append(tmp_path / "results" / "runs.jsonl", [*records, other])
    return folder


def test_the_table_tells_state_progress_scores_and_reasons(folder, tmp_path):
    with folder.hold_run(TRAINING):
        table = status.table(status.entries(folder, folder.runs(), tmp_path / "results"))
    header, _, *rows, _, summary = table.splitlines()
    assert re.split(r"\s{2,}", header) == [
        "run", "state", "step", "steps/s", "left", "scores", "note"
    ]  # fmt: skip
    cells = [re.split(r"\s{2,}", row.strip()) for row in rows]
    # The last five steps took 20 s.
    assert cells[0] == [TRAINING.name, "running (train)", "10/20", "0.25", "0:00:40"]
    assert cells[1][:3] == [DONE.name, "done", "20/20"]
    assert cells[1][-1] == "ppl/token 42.55, ppl/word 284.63, bits/byte 1.586"
    assert cells[2][:3] == [FAILED.name, "failed", "5/20"]
    assert cells[2][-1] == "train.py: no disk"
    assert cells[3] == [WAITING.name, "waiting", "job 17_3"]
    assert summary == "1 done, 1 failed, 1 running, 1 waiting"


def test_scores_are_of_this_directory_or_equal_to_its_own(folder, tmp_path):
    """The same run may have been made elsewhere, before or after this one."""
    store = tmp_path / "results"
    info = begun(folder, TRAINING, (20, 60.0))
    made = _made_from(tmp_path / "elsewhere", info) | {"metric": "ppl_token"}
    dates = [f"2025-01-02T03:0{minute}:00+00:00" for minute in range(5)]
    append(
        store / "runs.jsonl",
        [
            make(**made, value=3.0, date=dates[0]),
            make(**made | {"settings": {"beam": 1}}, value=4.0, date=dates[1]),
            make(**made | {"step": 5}, value=5.0, date=dates[1]),
            make(**made, value=6.0, date=dates[3]),
        ],
    )

    def scores(state):
        folder.set_state(TRAINING, state)
        return [score["value"] for score in status.entries(folder, [TRAINING], store)[0]["scores"]]

    assert scores(State("trained", "train", ended=dates[4])) == []
    # It is scored: what it has not added to the store was there.
    assert scores(State("done", "eval", ended=dates[2])) == [3.0]
    relative = os.path.relpath(folder.workdir(TRAINING))
    made["eval_command"] = f"python eval.py --workdir {relative}"
    append(store / "runs.jsonl", [make(**made, value=7.0, date=dates[2])])
    assert scores(State("done", "eval", ended=dates[4])) == [7.0]


def test_a_run_whose_process_is_gone_is_not_called_running(folder, tmp_path):
    entry = status.entries(folder, [TRAINING], tmp_path / "results")[0]
    assert (entry["state"], entry["reason"]) == ("waiting", "cut off; the same command goes on")
    assert json.loads(json.dumps(entry))["step"] == 10


def test_watching_ends_with_the_last_run(folder, tmp_path, capsys, monkeypatch):
    def finish(seconds):
        for run in RUNS:
            begun(folder, run, (20, 60.0))
            folder.set_state(run, State("done", "eval"))

    monkeypatch.setattr(time, "sleep", finish)
    status.watch(folder, tmp_path / "results")
    told = capsys.readouterr().out
    assert told.count("steps/s") == 2 and "4 done" in told
    assert "\x1b" not in told  # not a terminal


def test_the_plan_tells_commands_size_cost_and_state(folder):
    commands = Commands(folder.path)
    runs = [*RUNS, Run("lm1b", "random", "tiny", 7)]
    found = plan.entries(Sweep(folder, runs, commands), commands, 1e12)
    config = TRAINING.config()
    described = describe.describe(config)
    a_token = described["operations_per_token"]["training_step"]
    assert found[0]["parameters"] == described["trainable"]
    assert found[0]["flop"] == a_token * config.data.batch_tokens * config.train.num_steps
    assert found[0]["seconds"] == found[0]["flop"] / 1e12
    assert (found[4]["flop"], found[4]["parameters"]) == (found[0]["flop"], found[0]["parameters"])
    assert found[0]["commands"] == [
        f"python train.py --config={TRAINING.config_name} --workdir={folder.path}/{TRAINING.name}",
        f"python eval.py --workdir={folder.path}/{TRAINING.name} --results=results",
    ]
    assert [entry["state"] for entry in found] == ["waiting", "done", "failed"] + 2 * ["waiting"]
    assert json.loads(json.dumps(found)) == found
    table = plan.table(found).splitlines()
    assert re.split(r"\s{2,}", table[0])[2:] == ["FLOP", "hours", "state"]
    total = sum(entry["flop"] for entry in found)
    assert re.split(r"\s{2,}", table[7].strip()) == ["5 runs", f"{total:.2g}", "0.0"]
    assert table[-1] == found[4]["commands"][1]
    # Without a speed there are no hours.
    assert "hours" not in plan.table(plan.entries(Sweep(folder, RUNS, commands), commands, None))
