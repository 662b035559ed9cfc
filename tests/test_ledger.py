"""Where the seconds of a run go."""

import time

import pytest
from test_training import SMOOTH_ADAM

from synth import profile, training
from synth.errors import UserError
from synth.ledger import Ledger, summary
from synth.rundir import RunDir


def test_every_moment_belongs_to_one_part():
    start = time.monotonic()
    ledger = Ledger("start", start - 10.0)
    ledger.switch("step")
    with ledger("evaluation"):
        time.sleep(0.05)
        with ledger("checkpoint"):
            time.sleep(0.03)
    ledger.add({"step": 100.0})
    seconds = ledger.seconds()
    whole = time.monotonic() - start
    assert 10.0 <= seconds["start"] < 10.1
    assert 0.05 <= seconds["evaluation"] < 0.05 + whole - 0.08
    assert seconds["checkpoint"] >= 0.03
    assert abs(sum(seconds.values()) - 110.0 - whole) < 0.01


def test_a_part_ends_with_an_error():
    ledger = Ledger("step", time.monotonic())
    with pytest.raises(ValueError), ledger("data"):
        raise ValueError
    assert ledger.part == "step"


def test_the_summary_names_the_longest_first():
    told = summary({"start": 1.0, "step": 8.0, "data": 0.01, "compile": 0.99}, "step")
    assert told == "step 8.0 s, start 1.0 s, compile 1.0 s; 80% of 10.0 s in step"


def test_a_run_tells_where_its_time_went(tiny, tmp_path, short_text, capsys):
    run = RunDir(tmp_path / "run")
    steps = {"train.num_steps": 4, "train.log_every": 2, "train.eval_every": 2}
    info = tiny("lm1b:random", SMOOTH_ADAM | steps | {"train.checkpoint_every": 2})
    training.train(info, run, range(1, 3))
    parts = [r["timing"]["parts"] for r in run.read_metrics() if "parts" in r["timing"]]
    assert len(parts) == 2
    assert parts[1].keys() == {"start", "data", "compile", "step", "evaluation", "checkpoint"}
    assert all(parts[1][name] >= value for name, value in parts[0].items())
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("time: ") and told.endswith("in step")
    assert list((run.path / "profile").rglob("*.xplane.pb"))

    # A start that goes on adds to what earlier ones have taken.
    longer = tiny("lm1b:random", SMOOTH_ADAM | steps | {"train.num_steps": 6})
    training.train(longer, run)
    last = [r["timing"]["parts"] for r in run.read_metrics() if "parts" in r["timing"]][-1]
    assert all(last[name] >= value for name, value in parts[1].items())


@pytest.mark.parametrize("bounds", [["3"], ["a", "b"], ["5", "4"], ["1", "2", "3"]])
def test_steps_of_a_profile_that_cannot_be(bounds):
    with pytest.raises(UserError, match="profile_steps"):
        profile.parse_steps(bounds)


def test_steps_of_a_profile():
    assert profile.parse_steps([]) == range(0)
    assert profile.parse_steps(["2", "4"]) == range(2, 5)
