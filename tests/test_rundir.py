"""A run directory belongs to one run, and its log has no step twice."""

import json
from typing import Any

import pytest

from data.tokenizer import train_tokenizer
from synth.errors import UserError
from synth.files import check_writable, write_text
from synth.rundir import MetricsLog, RunDir


@pytest.fixture
def begun(tiny, tmp_path):
    run = RunDir(tmp_path / "runs" / "a")
    run.begin(tiny("lm1b:random", {"train.num_steps": 7}))
    return run


def test_a_new_directory_says_what_is_run(begun, tiny):
    info, asked = begun.info(), tiny("lm1b:random", {"train.num_steps": 7})
    assert info.config.to_dict() == asked.config.to_dict()
    assert (info.name, info.command) == (asked.name, asked.command)
    assert info.overrides == asked.overrides


def test_an_empty_directory_may_be_used(tiny, tmp_path):
    RunDir(tmp_path).begin(tiny("lm1b:random"))
    assert RunDir(tmp_path).info().config.data.task == "lm1b"


def test_a_directory_of_something_else_is_left_alone(tiny, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not empty and holds no run"):
        RunDir(tmp_path).begin(tiny("lm1b:random"))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("below", ["", "/deeper"])
def test_a_file_in_the_way_is_an_error_in_plain_words(tiny, tmp_path, below):
    (tmp_path / "run").write_text("")
    with pytest.raises(UserError, match="run"):
        RunDir(f"{tmp_path}/run{below}").begin(tiny("lm1b:random"))


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("seed", "0", 4),
        ("model.attention.random_scale", "0.02", 0.5),
        ("optimizer.learning_rate", "2.0", 1.5),
        ("data.batch_tokens", "512", 1024),
        ("data.bucket_lengths", r"\(64,\)", (32, 64)),
        ("train.accumulate_steps", "1", 2),
        ("train.label_smoothing", "0.0", 0.1),
    ],
)
def test_a_changed_config_is_refused_with_both_values(begun, tiny, key, old, new):
    before = begun.info()
    with pytest.raises(UserError) as caught:
        begun.begin(tiny("lm1b:random", {key: new}))
    caught.match(f"{key} was {old}, is ".replace(".", r"\."))
    assert repr(new) in str(caught.value)
    assert "num_steps" not in str(caught.value)
    assert begun.info().config.to_dict() == before.config.to_dict()


def test_what_changes_no_step_may_change(begun, tiny, tmp_path):
    changes = {
        "train.num_steps": 9,
        "train.log_every": 2,
        "train.eval_every": 6,
        "train.checkpoint_every": 3,
        "train.keep_checkpoints": 1,
        "model.remat": True,
        "data.data_dir": str(tmp_path),
        "decode.beam": 1,
        "sharding.mesh.fsdp": 2,
    }
    begun.begin(tiny("lm1b:random", changes))
    assert begun.info().config.train.num_steps == 9
    assert begun.info().overrides["decode.beam"] == 1


def test_a_run_of_before_a_key_goes_on(begun, tiny):
    """`model.remat` is younger than some runs, and changes no number."""
    path = begun.path / "run.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    del record["config"]["model"]["remat"]
    path.write_text(json.dumps(record), encoding="utf-8")
    assert "remat" not in begun.info().config.model
    begun.begin(tiny("lm1b:random"))
    assert begun.info().config.model.remat is False


@pytest.mark.parametrize(
    "text", ["", '{"name": "x"', "[1, 2]", '{"name": "x", "overrides": {}, "command": "c"}']
)
def test_a_spoilt_run_json_is_named(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UserError, match=r"run\.json"):
        RunDir(tmp_path).info()


def test_a_directory_without_a_run_is_named(tmp_path):
    with pytest.raises(UserError, match=f"{tmp_path} holds no run"):
        RunDir(tmp_path).info()


def test_another_vocabulary_is_refused(begun, tmp_path):
    words = ["file menu open close", "print the page", "a window of the file"]
    first = train_tokenizer(words, tmp_path / "1.model", vocab_size=290)
    other = train_tokenizer(words, tmp_path / "2.model", vocab_size=285)
    begun.set_vocabulary(first)
    begun.set_vocabulary(first)
    with pytest.raises(UserError, match=f"{first.hash[:16]}.*{other.hash[:16]}"):
        begun.set_vocabulary(other)
    assert begun.vocabulary.read_bytes() == (tmp_path / "1.model").read_bytes()


def written(run: RunDir, step: int, *steps: int) -> list[dict[str, Any]]:
    """Opens the log after `step`, logs `steps`, and returns what the log then holds."""
    log = MetricsLog(run, step)
    for number in steps:
        log.write(number, {"loss": number / 2}, seconds=1.0)
    log.close()
    return run.read_metrics()


def test_a_run_that_goes_on_drops_what_it_logged_later(begun):
    assert [r["step"] for r in written(begun, 0, 2, 4, 4, 6)] == [2, 4, 4, 6]
    records = written(begun, 4, 6, 8)
    assert [record["step"] for record in records] == [2, 4, 4, 6, 8]
    assert records[-1] == {"step": 8, "loss": 4.0, "timing": {"seconds": 1.0}}
    assert begun.metrics.read_text().count("\n") == 5


def test_a_line_cut_off_by_a_crash_is_left_out_and_written_over(begun):
    written(begun, 0, 2, 4)
    with begun.metrics.open("a") as file:
        file.write('{"step": 6, "lo')
    assert [record["step"] for record in begun.read_metrics()] == [2, 4]
    assert [record["step"] for record in written(begun, 4, 6)] == [2, 4, 6]
    lines = begun.metrics.read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [2, 4, 6]


def test_a_log_that_does_not_exist_is_empty(begun):
    assert begun.read_metrics() == []


def test_values_that_are_not_finite_can_be_logged(begun):
    log = MetricsLog(begun, 0)
    log.write(1, {"perplexity": float("inf")})
    log.close()
    assert begun.read_metrics()[0]["perplexity"] == float("inf")


def test_the_event_file_holds_the_same_values(begun):
    from tensorboardX.proto import event_pb2

    written(begun, 0, 2)
    (events,) = begun.path.glob("events.*")
    data, found = events.read_bytes(), {}
    while data:
        size = int.from_bytes(data[:8], "little")
        event = vars(event_pb2)["Event"].FromString(data[12 : 12 + size])
        found |= {(event.step, value.tag): value.simple_value for value in event.summary.value}
        data = data[16 + size :]
    assert found == {(2, "loss"): 1.0}


def test_text_is_replaced_in_one_step(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_text(path, "old\n")

    def full(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(type(path), "replace", full)
    with pytest.raises(OSError, match="disk full"):
        write_text(path, "new\n")
    assert path.read_text() == "old\n"


@pytest.mark.parametrize("place", ["folder", "file/a.txt", "/proc/a.txt"])
def test_a_file_that_cannot_be_written_is_told_by_its_own_name(tmp_path, place):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    path = tmp_path / place  # the last one is absolute, and stays what it is
    for write in (check_writable, lambda path: write_text(path, "new")):
        with pytest.raises(OSError) as caught:
            write(path)
        assert caught.value.filename == str(path) and caught.value.errno
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_file_that_can_be_written_is_not_touched(tmp_path):
    check_writable(tmp_path / "new" / "a.txt")
    assert list((tmp_path / "new").iterdir()) == []
