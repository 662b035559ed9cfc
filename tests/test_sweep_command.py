"""sweep.py as a user types it."""

import json
import shutil

import pytest
from conftest import ROOT

from synth.results import load
from synth.sweeps.folder import Folder
from synth.sweeps.runs import Run

pytestmark = pytest.mark.usefixtures("in_root")

_ROW = ["--configs=lm1b", "--variants=random", "--scale=tiny"]
_POD = ["--launcher=pod", "--process_id=0", "--num_processes=1"]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([], "name a folder for the sweep: --folder=runs/sweeps/NAME"),
        (["--folder={tmp}"], "holds no sweep (it has no runs.json); give the folder of one, or"),
        (["--folder={tmp}", "--dry_run"], "holds no sweep (it has no runs.json); give the folder"),
        (
            ["--folder={tmp}", "--table=c4", "--configs=c4"],
            "name a table of the paper, --table=",
        ),
        (["--folder={tmp}", "--table=wmt"], "no table 'wmt'; known: wmt_lm1b, generation"),
        (["--folder={tmp}", "--launcher=k8s"], "no launcher 'k8s'; known: local, pod, slurm, xpk"),
        (["--folder={tmp}", "--jobs=0"], "--jobs=0 must be at least 1"),
        (["--folder={tmp}", "--jobs=x"], "jobs"),
        (["--folder={tmp}", "--host_timeout=0"], "--host_timeout=0.0 must be more than 0"),
        (["--folder={tmp}", "--flops_per_second=-1"], "--flops_per_second=-1.0 must be more"),
        (["--folder={tmp}", "--json"], "--json goes with --dry_run or --status"),
        (["--folder={tmp}", "--watch"], "--watch goes with --status"),
        (["--folder={tmp}", "--status", "--dry_run"], "do not go together"),
        (["--folder={tmp}", "--status"], "holds no sweep (it has no runs.json)"),
        (["--folder={tmp}", "--results={tmp}", *_ROW], ": copy results/paper.json of this repos"),
        (["--folder={tmp}", "--results={tmp}", *_ROW, *_POD], "holds no paper.json"),
        (["--folder={tmp}", "--results={tmp}", *_ROW, "--launcher=slurm"], "holds no paper.json"),
        (["--folder={tmp}", "--set=config.seed=1"], "--set needs the runs that it is for"),
        (["--folder={tmp}", "--launcher=pod", "--table=c4", "--process_id=1"], "go together"),
        (["--folder={tmp}", "--launcher=xpk", "--table=c4"], "--xpk cluster=NAME"),
        (["--folder={tmp}", "--tabel=c4"], "tabel"),
    ],
)
def test_mistakes_cost_one_line(start, tmp_path, argv, told):
    running = start("sweep.py", *(arg.format(tmp=tmp_path) for arg in argv)).wait()
    line = running.err.splitlines()[-1]
    assert running.status == 2, running.err
    assert line.startswith("sweep.py: ") and told in line
    assert all(other.startswith("left out: ") for other in running.err.splitlines()[:-1])
    assert running.out == ""
    assert list(tmp_path.iterdir()) == []


def test_runs_are_listed_without_running_anything(start, tmp_path):
    rows = ["--configs=wmt_ende", "--variants=random+vanilla", "--seeds=0,1"]
    running = start("sweep.py", *rows, f"--folder={tmp_path}/sweep", "--dry_run", "--json").wait()
    assert running.status == 0, running.err
    entry, _ = json.loads(running.out)
    assert entry["config"] == "configs/wmt_ende.py:random+vanilla,scale=paper"
    assert entry["parameters"] == pytest.approx(67.2e6, rel=0.001)  # the README's table
    assert entry["flop"] == pytest.approx(13e12 * 300_000, rel=0.05)  # the config's run card
    assert list(tmp_path.iterdir()) == []


def test_the_results_directory_is_the_folders(start, tmp_path):
    folder = Folder(tmp_path)
    folder.add_runs([Run("lm1b", "random", "tiny", 0)])
    folder.set_results("elsewhere")
    listed = ["sweep.py", f"--folder={tmp_path}", "--dry_run", "--json"]
    for flags, used in [([], "elsewhere"), (["--results=other"], "other")]:
        (entry,) = json.loads(start(*listed, *flags).wait().out)
        assert entry["commands"][1].split()[3] == f"--results={used}"
    assert folder.results() == "elsewhere"  # a list changes nothing
    # What it holds is known before anything runs; GKE's storage may not be mounted here.
    running = start(*listed[:2]).wait()
    assert "elsewhere holds no paper.json" in running.err and not (tmp_path / "logs").exists()
    xpk = ["--launcher=xpk", "--xpk=cluster=c,tpu-type=v4-8"]
    assert "--results=elsewhere" in start(*listed[:2], *xpk).wait().out


@pytest.mark.slow
def test_real_rows_are_trained_and_scored(start, data_dir, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    shutil.copy(ROOT / "results" / "paper.json", results)
    folder = ["--folder", str(tmp_path / "sweep"), "--results", str(results)]
    small = [
        "--scale=tiny",
        f"--set=config.data.data_dir={data_dir}",
        "--set=config.data.window=512",
        "--set=config.train.num_steps=2",
        "--set=config.train.log_every=1",
    ]
    running = start("sweep.py", *folder, "--configs=lm1b", "--variants=random", *small).wait(300)
    assert running.status == 0, running.err
    assert running.out.count("ppl/token") == 1 and running.out.endswith("\n1 done\n")
    records = load(results / "runs.jsonl")
    assert {(r.variant, r.step) for r in records} == {("random", 2)}
    (run,) = Folder(tmp_path / "sweep").runs()
    assert "step 2/2" in Folder(tmp_path / "sweep").log(run).read_text("utf-8")

    # What is done is not done again; another row is.
    folder = folder[:2]  # it knows where its results are
    both = ["--configs=lm1b", "--variants=random,fixed_random", "--noeval", *small]
    running = start("sweep.py", *folder, *both).wait(300)
    assert running.status == 0, running.err
    assert running.err.count("training") == 1 and "[2/2] lm1b-fixed_random" in running.err
    running = start("sweep.py", *folder, "--status", "--json").wait()
    first, second = json.loads(running.out)
    assert (first["state"], second["state"]) == ("done", "trained")
    assert (second["step"], second["num_steps"], second["scores"]) == (2, 2, [])
    assert [score["name"] for score in first["scores"]] == ["ppl/token", "ppl/word", "bits/byte"]
