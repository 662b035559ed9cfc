"""generate.py as a command: lines and their windows, options, standard input, pipes, interrupts."""

import os
import re
import signal
import subprocess
import sys

import pytest
from conftest import CACHE, ONE_DEVICE, ROOT

from data.tasks import get_task
from synth import generation, lines
from synth.decoding import Sampling
from synth.errors import UserError
from synth.generation import Options
from synth.rundir import RunDir
from tests.test_generate import GREEDY, answers

# --- Lines ----------------------------------------------------------------------------------------


def test_line_breaks_are_marked_where_texts_have_them():
    summary, translation = get_task("cnn_dailymail"), get_task("wmt_ende")
    assert lines.to_line("One.\nTwo.\u2028Three.\n", summary) == "One. <n> Two. <n> Three."
    assert lines.to_line("Eins.\nZwei.", translation) == "Eins. Zwei."
    assert lines.to_text(b"One. <n> Two.<n>Three.", summary) == ("One.\nTwo.\nThree.", True)
    assert lines.to_text(b"One. <n> Two.", translation) == ("One. <n> Two.", True)
    assert lines.to_line("e\u0301", summary) == "\u00e9"


def test_windows_take_what_is_there(tmp_path):
    """A file in full windows, and of a pipe what has come, without waiting for more."""
    path = tmp_path / "lines"
    path.write_bytes(b"a\n\nb\xff\r\nc\0\nd")
    with path.open("rb") as file:
        windows = list(lines.read_windows(file.fileno(), 2))
    assert windows == [[b"a", b""], [b"b\xff\r", b"c\0"], [b"d"]]
    read, write = os.pipe()
    windows = lines.read_windows(read, 10, patience=0.01)
    os.write(write, b"one\ntwo\nthr")
    assert next(windows) == [b"one", b"two"]
    os.write(write, b"ee\n")
    assert next(windows) == [b"three"]
    os.close(write)
    assert list(windows) == []
    os.close(read)


# --- The command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (Options(beam=0), "--beam=0 must be at least 1"),
        (Options(alpha=float("nan")), "--alpha=nan must be at least 0"),
        (Options(sample=True, beam=4), "--beam is for searching, not for --sample"),
        (Options(top_k=4), "--top_k goes with --sample"),
        (Options(seed=0), "--seed goes with --sample"),
        (Options(sample=True, temperature=0.0), "--temperature=0.0 must be from 0.001 to 100"),
        (Options(sample=True, top_k=0), "--top_k=0 must be at least 1"),
        (Options(sample=True, top_p=1.5), "--top_p=1.5 must be above 0 and at most 1"),
        (Options(sample=True, n=0), "--n=0 must be at least 1"),
        (Options(max_tokens=0), "--max_tokens=0 must be at least 1"),
    ],
)
def test_wrong_options_are_refused(options, told):
    with pytest.raises(UserError, match=re.escape(told)):
        options.check("seq2seq")


def test_options_are_those_of_the_config_unless_given(trained_ende):
    config = trained_ende.info().config
    search = Options().search(config)
    assert (search.beam, search.alpha, search.extra_length) == (4, 0.6, 8)
    assert Options(beam=2).search(config).beam == 2
    drawn = Options(sample=True, top_p=0.5, n=3).search(config).sampling
    assert drawn == Sampling(top_p=0.5)


def test_mistakes_cost_one_line(start, trained_ende):
    run = f"--workdir={trained_ende.path}"
    for argv, told in (
        ([], "--workdir=runs/NAME"),
        ([f"{run}/none"], "holds no run"),
        ([run, "--n=2"], "--n goes with --sample"),
        ([run, "--text=x", "--checkpoint=3"], "no checkpoint '3'"),
        ([run, "Open"], "what is Open?"),
    ):
        running = start("generate.py", *argv).wait()
        assert (running.status, running.out) == (2, "")
        assert running.err.count("\n") == 1 and told in running.err


def test_texts_on_the_command_line(start, trained_ende):
    texts = ["Öffnen", "", "Open the file."]
    argv = [f"--text={text}" for text in texts]
    running = start(
        "generate.py", f"--workdir={trained_ende.path}", "--beam=1", "--max_tokens=12", *argv
    ).wait()
    assert running.status == 0, running.err
    assert running.out.splitlines() == answers(trained_ende, texts)
    assert "step 4: greedy" in running.err and "text 2 is empty" in running.err


def test_lines_on_standard_input(trained_ende, tmp_path, monkeypatch, capfdbinary):
    (tmp_path / "in").write_bytes("Open the file.\n\nÖffnen".encode())
    with (tmp_path / "in").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        generation.answer_all(str(trained_ende.path), "last", None, GREEDY)
    found = capfdbinary.readouterr().out.decode().split("\n")
    assert found == [*answers(trained_ende, ["Open the file.", "", "Öffnen"]), ""]


# A test run that was started in the background ignores interrupts, and so would its children.
SPAWNED = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[0] = "generate.py"
runpy.run_path("generate.py", run_name="__main__")
"""


def spawned(run: RunDir, *argv: str) -> subprocess.Popen:
    """generate.py in an interpreter of its own, between two pipes."""
    command = [sys.executable, "-c", SPAWNED, f"--workdir={run.path}", "--max_tokens=4", *argv]
    pipe = subprocess.PIPE
    environment = os.environ | {"XLA_FLAGS": ONE_DEVICE}
    return subprocess.Popen(
        [*command, f"--compilation_cache_dir={CACHE / 'jax'}"],
        cwd=ROOT,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=environment,
    )


@pytest.mark.slow
def test_a_line_is_answered_at_once_and_an_interrupt_is_quiet(trained_ende):
    with spawned(trained_ende, "--sample") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(b"Open the file.\n")
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")  # though more may come
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1].decode()
        assert process.returncode == 130
    assert err.splitlines()[1:] == ["interrupted"]


@pytest.mark.slow
def test_a_reader_that_has_enough_ends_it_quietly(trained_ende):
    with spawned(trained_ende, "--beam=1") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write(b"Open the file.\nClose it.\n")
        process.stdin.close()
        err = process.stderr.read().decode()
        assert process.wait(60) == 141
    assert err.count("\n") == 1 and "step 4" in err
