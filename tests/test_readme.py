"""What the README says is true: its commands run, its tables are the rendered ones."""

import gzip
import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap

import pytest
from conftest import ONE_DEVICE, ROOT

from data import prepare, show
from data.tasks import TASKS
from synth import configuration, describe, results, topologies

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    for line in block.splitlines()
    if line.startswith("python ")
]
SMALL = [c for c in COMMANDS if "train.py" in c and "scale=small" in c]
COMPILE = [c for c in COMMANDS if "--compile_for" in c]
PAPER = [
    c
    for c in COMMANDS
    if "train.py" in c and "scale=" not in c and "--describe" not in c and c not in COMPILE
]
DESCRIBE = [c for c in COMMANDS if "--describe" in c]
SCORE = [c for c in COMMANDS if " eval.py" in c]
WRITE = [c for c in COMMANDS if "generate.py" in c]
SHOW = [c for c in COMMANDS if "-m data.show" in c]
PREPARE = [c for c in COMMANDS if "-m data.prepare" in c]
SWEEP = [c for c in COMMANDS if " sweep.py" in c]


def test_every_command_is_tested():
    tested = {*SMALL, *PAPER, *DESCRIBE, *COMPILE, *SCORE, *WRITE, *SHOW, *PREPARE, *SWEEP}
    assert sorted(tested) == sorted(set(COMMANDS))


def test_every_task_and_data_set_is_named():
    (table,) = re.findall(r"## Tasks and their data\n\n(.*?)\n\n", README, flags=re.DOTALL)
    rows = {row.split("`")[1]: row for row in table.splitlines()[2:]}
    assert list(rows) == list(TASKS)
    for name, row in rows.items():
        if name == "en_mix":
            continue  # those of the two tasks above it
        for dataset in TASKS[name].datasets:
            assert f"`{dataset.name}`" in row


@pytest.mark.parametrize("command", SHOW)
def test_showing_commands_run(command, data_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    arguments = [*shlex.split(command)[3:], f"--data_dir={data_dir}"]
    assert show.main([*arguments, f"--plot={tmp_path}/lengths.png"]) == 0
    assert "--- example 0" in capsys.readouterr().out


@pytest.mark.parametrize("command", PREPARE)
def test_preparing_commands_have_known_flags(command, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "archives").mkdir()
    request = prepare.read_request(shlex.split(command)[3:])
    assert request.task.name in TASKS and request.datasets and request.vocab_size > 30_000


def moved(command: str, directory) -> list[str]:
    """The arguments, with the run directory below `directory`, and the small scale made tiny."""
    arguments = shlex.split(command)[2:]
    replaced = [a.replace("=runs/", f"={directory}/") for a in arguments]
    return [a.replace("scale=small", "scale=tiny") for a in replaced]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def quick(data_dir: str) -> list[str]:
    """What makes a run end soon."""
    return [
        f"--config.data.data_dir={data_dir}",
        "--config.data.window=512",
        "--config.train.num_steps=2",
    ]


@pytest.mark.slow
def test_two_processes_are_started_as_told(start, runs, data_dir):
    (line,) = re.findall(r"^for i in 0 1; do (python .*) & done; wait$", README, re.MULTILINE)
    commands = [moved(line.replace("$i", str(index)), runs) for index in (0, 1)]
    running = [start("train.py", *command, *quick(data_dir)) for command in commands]
    assert [process.wait(300).status for process in running] == [0, 0], running[0].err


def needed_runs() -> list[str]:
    """The first run of each config, and those of a command with other flags than that.

    Further rows of the table differ in their variant, and each variant is trained elsewhere.
    """
    found: dict[str, str] = {}
    for command in SMALL:
        config, _, *others = shlex.split(command)[2:]
        found.setdefault(command if others else config.partition(":")[0], command)
    return list(found.values())


@pytest.mark.parametrize("command", dict.fromkeys(SMALL))
def test_small_training_commands_name_configs(command, in_root):
    name, workdir, *_ = shlex.split(command)[2:]
    config = configuration.load(name.removeprefix("--config="))
    assert config.train.num_steps > 1000
    assert workdir.startswith("--workdir=runs/")


@pytest.mark.slow
def test_training_and_scoring_commands_run(start, runs, data_dir):
    for command in needed_runs():
        assert start("train.py", *moved(command, runs), *quick(data_dir)).wait(300).status == 0
    (runs / "results").mkdir()
    shutil.copy(ROOT / "results" / "paper.json", runs / "results")
    scored = [c for c in SCORE if "--beam=1" in c]
    for command in scored:
        running = start("eval.py", *moved(command, runs), f"--results={runs}/results").wait(300)
        assert running.status == 0, running.err
        assert "nrefs:1|case:mixed|eff:no|tok:13a" in running.out
    assert scored
    for command in WRITE:
        running = start("generate.py", *moved(command, runs)).wait(300)
        assert running.status == 0, running.err
    assert WRITE


@pytest.mark.parametrize("command", PAPER)
def test_paper_scale_commands_say_what_data_is_missing(start, runs, command):
    running = start("train.py", *moved(command, runs), f"--config.data.data_dir={runs}/none").wait()
    assert running.status == 2
    if "mesh.fsdp=4" in command:  # for a machine with four devices or more
        assert "needs a multiple of 4 devices, but there are 1" in running.err
    else:
        assert "is not prepared" in running.err
        assert "scale=small" in running.err


@pytest.mark.parametrize("command", DESCRIBE)
def test_describe_commands_run(start, command):
    running = start("train.py", *shlex.split(command)[2:]).wait()
    assert running.status == 0, running.err
    assert "decoder" in running.out


@pytest.mark.parametrize("command", SWEEP)
def test_sweep_commands_list_their_runs(start, runs, command):
    status = "--status" in command
    running = start("sweep.py", *moved(command, runs), *([] if status else ["--dry_run"])).wait()
    if status:  # of a sweep that there is not here
        assert running.status == 2 and "holds no sweep" in running.err
    else:
        assert running.status == 0, running.err
        assert "python train.py --config=" in running.out


@pytest.mark.parametrize("command", COMPILE)
def test_compiling_commands_are_for_known_topologies(start, command):
    (name,) = re.findall(r"--compile_for=(\S+)", command)
    assert topologies.parse(name).device_count >= 8
    if importlib.util.find_spec("libtpu") is None:  # with it: `make test-tpu-check`
        running = start("train.py", *shlex.split(command)[2:]).wait()
        assert running.status == 2
        assert running.err.count("\n") == 1
        assert "pip install -r requirements-tpu-check.txt" in running.err


def test_scoring_commands_have_known_flags(start, runs):
    for command in SCORE:
        if "--workdir" in command:
            other = [a for a in moved(command, runs) if not a.startswith("--workdir")]
            running = start("eval.py", *other, f"--workdir={runs}/nothing").wait()
            assert running.status == 2
            assert "holds no run" in running.err


@pytest.mark.parametrize(
    ("row", "variant"),
    [
        ("fixed random", "fixed_random"),
        ("factorized random", "factorized_random"),
        ("random", "random"),
        ("vanilla", "vanilla"),
        ("random + vanilla", "random+vanilla"),
        ("dense", "dense"),
        ("factorized dense", "factorized_dense"),
    ],
)
def test_parameter_counts(row, variant):
    found = describe.describe(configuration.load(f"{ROOT}/configs/wmt_ende.py:{variant}"))
    (cells,) = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", README, flags=re.MULTILINE)
    ours = cells.split("|")[1].split()[0]
    assert ours == f"{found['trainable'] / 1e6:.1f}"


def test_tables_are_the_rendered_ones(tmp_path):
    """Rendering again changes neither the README nor the pages in results/."""
    shutil.copytree(ROOT / "results", tmp_path / "results")
    shutil.copy(ROOT / "README.md", tmp_path)
    assert results.render(tmp_path / "results", tmp_path / "README.md") == []


BLOCK = r"   ```python\n(.*?)   ```"


@pytest.mark.slow
def test_a_task_of_your_own_is_shown_trained_and_scored(tmp_path):
    """The README's steps, taken literally, in a copy of the project."""
    for name in ("configs", "data", "synth"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("train.py", "eval.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "results").mkdir()
    shutil.copy(ROOT / "results" / "paper.json", tmp_path / "results")
    steps = README.split("### Add your own task")[1]
    field, task, config = map(textwrap.dedent, re.findall(BLOCK, steps, flags=re.DOTALL)[:3])
    for split in ("train", "validation", "test"):
        write_questions(tmp_path, split)
    insert(tmp_path / "data/builders/embedded.py", "FIELDS = {\n", f"    {field}")
    (tmp_path / "data/tasks/questions.py").write_text(task)
    insert(
        tmp_path / "data/tasks/__init__.py", "\n", "from data.tasks.questions import QUESTIONS\n"
    )
    insert(tmp_path / "data/tasks/__init__.py", "    for task in (\n", "        QUESTIONS,\n")
    (tmp_path / "configs/questions.py").write_text(config)

    row = "--config=configs/questions.py:dense,scale=tiny"
    for arguments in (
        ["-m", "data.show", "questions", "--n=1", "--scale=tiny"],
        ["train.py", row, "--workdir=runs/q", "--config.train.num_steps=2"],
        ["eval.py", "--workdir=runs/q"],
    ):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            # One device: eight simulated ones may wait for each other for ever on few cores.
            env=os.environ | {"XLA_FLAGS": ONE_DEVICE},
        )
        assert done.returncode == 0, done.stderr
    assert "ppl_token" in done.stdout and "test: 200 lines" in done.stdout


def write_questions(root, split):
    """Lines of the committed English-German text under other names."""
    with gzip.open(ROOT / f"data/corpora/docs_ende.{split}.jsonl.gz", "rt", encoding="utf-8") as f:
        rows = [json.loads(line) for line in itertools.islice(f, 200)]
    path = root / f"data/corpora/questions.{split}.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({"question": row["en"], "answer": row["de"]}) + "\n")


def insert(path, before, line):
    """Puts a line after the first occurrence of some text."""
    text = path.read_text(encoding="utf-8")
    head, tail = text.split(before, 1)
    path.write_text(head + before + line + tail, encoding="utf-8")
