"""What the README says is true: its commands run, its tables are the rendered ones."""

import re
import shlex
import shutil

import pytest
from conftest import ROOT

from synth import configuration, describe, results

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    for line in block.splitlines()
    if line.startswith("python ")
]
SMALL = [c for c in COMMANDS if "train.py" in c and "scale=small" in c]
PAPER = [c for c in COMMANDS if "train.py" in c and "scale=" not in c and "--describe" not in c]
DESCRIBE = [c for c in COMMANDS if "--describe" in c]
SCORE = [c for c in COMMANDS if "eval.py" in c]


def test_every_command_is_tested():
    assert sorted({*SMALL, *PAPER, *DESCRIBE, *SCORE}) == sorted(set(COMMANDS))


def moved(command: str, directory) -> list[str]:
    """The arguments, with the run directory below `directory`, and the small scale made tiny."""
    arguments = shlex.split(command)[2:]
    replaced = [a.replace("--workdir=runs", f"--workdir={directory}") for a in arguments]
    return [a.replace("scale=small", "scale=tiny") for a in replaced]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.mark.slow
def test_training_and_scoring_commands_run(start, runs, data_dir):
    quick = [
        f"--config.data.data_dir={data_dir}",
        "--config.data.window=512",
        "--config.train.num_steps=2",
    ]
    for command in dict.fromkeys(SMALL):
        assert start("train.py", *moved(command, runs), *quick).wait(300).status == 0
    (runs / "results").mkdir()
    shutil.copy(ROOT / "results" / "paper.json", runs / "results")
    scored = [c for c in SCORE if "--beam=1" in c]
    for command in scored:
        running = start("eval.py", *moved(command, runs), f"--results={runs}/results").wait(300)
        assert running.status == 0, running.err
        assert "nrefs:1|case:mixed|eff:no|tok:13a" in running.out
    assert scored


@pytest.mark.parametrize("command", PAPER)
def test_paper_scale_commands_say_what_data_is_missing(start, runs, command):
    running = start("train.py", *moved(command, runs), f"--config.data.data_dir={runs}/none").wait()
    assert running.status == 2
    if "mesh.fsdp=4" in command:  # for a machine with four devices or more
        assert "needs 4 devices, but there are 1" in running.err
    else:
        assert "is not prepared" in running.err
        assert "scale=small" in running.err


@pytest.mark.parametrize("command", DESCRIBE)
def test_describe_commands_run(start, command):
    running = start("train.py", *shlex.split(command)[2:]).wait()
    assert running.status == 0, running.err
    assert "decoder" in running.out


def test_scoring_commands_have_known_flags(start, runs):
    for command in SCORE:
        if "--render" not in command:
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
