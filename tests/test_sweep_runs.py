"""Which runs a sweep is made of: names, tables, products, and what is told of mistakes."""

import dataclasses
import json
import re

import pytest
from conftest import ROOT

from synth.errors import UserError
from synth.sweeps import assignments, rows
from synth.sweeps.rows import Selection, expand
from synth.sweeps.runs import Commands, Run

pytestmark = pytest.mark.usefixtures("in_root")


def selected(*sets, **fields):
    fields = {"configs": ["lm1b"], "variants": ["random"], "scale": "tiny"} | fields
    return expand(Selection(**fields, assignments=assignments.parse(sets)))


def test_names_are_these_for_ever():
    """Run directories of old sweeps are found by them."""
    assert Run("wmt_ende", "random+vanilla;mix=sum", "small", 1).name == (
        "wmt_ende-random+vanilla-sum-small-seed1-242edc25"
    )
    overrides = {"train.num_steps": 4, "data.bucket_lengths": (16, 32), "data.data_dir": "a/b"}
    assert Run("lm1b", "dense", "tiny", 0, overrides).name == (
        "lm1b-dense-tiny-seed0-bucket_lengths=16_32-num_steps=4-d5f12635"
    )


def test_a_name_depends_on_what_is_run_alone():
    sets = ["config.train.num_steps=4", "config.optimizer.learning_rate=0.5"]
    (run,) = selected(*sets)
    (other,) = selected(*reversed(sets))
    assert run.name == other.name
    # Written otherwise, the same.
    (same,) = selected("config.train.num_steps=4", "config.optimizer.learning_rate=5e-1")
    assert same == run
    # What the config has anyway is no override.
    assert selected("config.train.num_steps=20") == selected()
    assert selected(variants=["vanilla+random"]) == selected(variants=["random+vanilla"])
    assert selected(variants=["random;mix=sum"]) == selected()
    different = [
        *selected(seeds=["0", "1"]),
        *selected(configs=["wmt_ende"]),
        *selected(variants=["dense", "random+dense", "random+dense;mix=sum"]),
        *selected("config.train.num_steps=4,5"),
        *selected(scale="small"),
    ]
    assert len({run.hash for run in different}) == len(different)


def test_values_are_multiplied():
    runs = selected(
        "config.train.num_steps=4,8",
        "config.data.bucket_lengths=(16,32),(64,)",
        "config.train.init_from='a,b',c",
        configs=["lm1b", "wmt_ende"],
        seeds=["0", "3"],
    )
    assert len(runs) == 2 * 2 * 2 * 2 * 2
    last = runs[-1]
    assert last.config_name == "configs/wmt_ende.py:random,scale=tiny,seed=3"
    # (64,) is what the config has.
    assert last.overrides == {"train.num_steps": 8, "train.init_from": "c"}
    config = runs[0].config()
    assert config.data.bucket_lengths == (16, 32) and config.train.init_from == "a,b"
    assert runs[0].flags[1:] == [
        "--config.data.bucket_lengths=(16,32)",
        "--config.train.init_from=a,b",
        "--config.train.num_steps=4",
    ]


def test_a_run_is_found_again_from_its_flags_and_its_file():
    sets = ["config.data.bucket_lengths=(16,32)", "config.train.init_from='a,b'"]
    (run,) = selected(*sets, variants=["random+dense;mix=sum"], seeds=["2"])
    assert Run.from_dict(json.loads(json.dumps(dataclasses.asdict(run)))) == run
    flags: dict[str, list[str]] = {}
    for flag in rows.flags_of(run):
        name, _, value = flag.removeprefix("--").partition("=")
        flags.setdefault(name, []).append(value)
    (again,) = selected(
        *flags["set"],
        configs=flags["configs"],
        variants=flags["variants"],
        scale=flags["scale"][0],
        seeds=flags["seeds"],
    )
    assert again == run


@pytest.mark.parametrize(
    ("table", "scale", "count", "tasks"),
    [
        # Eleven rows, three of them vanilla, on three tasks.
        ("wmt_lm1b", "paper", 9 * 3, {"wmt_ende", "wmt_enfr", "lm1b"}),
        ("generation", "small", 5 * 2, {"cnn_dailymail", "personachat"}),
        ("glue", "small", 5, {"en_mix"}),
        ("superglue", "small", 5, {"en_mix"}),
        ("c4", "small", 5, {"c4"}),
        ("encoder_only", "paper", 3 * 2, {"agnews", "imdb"}),
        ("encoder_only", "small", 3, {"imdb"}),
        ("narang", "paper", 7 * 2, {"c4", "superglue"}),
    ],
)
def test_a_table_is_its_rows_that_can_be_run(table, scale, count, tasks, capsys):
    runs = expand(Selection(table=table, scale=scale))
    assert len(runs) == count == len({run.name for run in runs})
    assert {run.task for run in runs} == tasks
    told = capsys.readouterr().err
    assert ("not implemented here" in told) == (table in ("c4", "encoder_only", "narang"))
    assert ("no embedded text" in told) == (table == "encoder_only" and scale == "small")
    mixtures = {run.row for run in runs if "+" in run.row}
    summed = table in ("c4", "glue", "superglue")  # the paper's mixtures of these are sums
    assert not summed or all(row.endswith(";mix=sum") for row in mixtures)


@pytest.mark.parametrize(
    ("sets", "fields", "told"),
    [
        ([], {"table": "wmt_lm1b"}, "and not both"),
        ([], {"configs": [], "variants": []}, "--table=wmt_lm1b|generation|"),
        ([], {"configs": []}, "--configs and --variants go together"),
        ([], {"table": "wmt", "configs": [], "variants": []}, "no table 'wmt'; known: wmt_lm1b, "),
        ([], {"configs": ["wmt"]}, "no config 'wmt'; known: agnews, c4, "),
        ([], {"variants": ["rnd"]}, "unknown attention variant 'rnd' in 'rnd'; known: random, "),
        ([], {"variants": ["random+dense;mix=x"]}, "unknown mix 'x'; known: softmax, "),
        ([], {"variants": ["random+dense;mx=sum"]}, "known: scale=, mix=, seed="),
        ([], {"scale": "big"}, "unknown scale 'big'; known: paper, small, tiny"),
        ([], {"seeds": ["one"]}, "--seeds: 'one' must be a number"),
        ([], {"configs": ["agnews"]}, "no embedded text"),
        (["train.num_steps=3"], {}, "must be config.KEY=VALUE"),
        (["config.train.num_steps"], {}, "must be config.KEY=VALUE"),
        (
            ["config.train.steps=3"],
            {},
            "no key 'train.steps'; known in train: train.accumulate_steps, ",
        ),
        (["config.train.num_steps=3,x"], {}, "num_steps=x must be of type int, as 20"),
        (["config.train.num_steps=3.5"], {}, "num_steps=3.5 must be of type int, as 20"),
        (["config.optimizer.b1=x"], {}, "b1=x must be of type float, as 0.9"),
        (["config.data.bucket_lengths=16,32"], {}, "(a tuple stands in brackets)"),
        (["config.data.bucket_lengths=(16,a)"], {}, "(a tuple stands in brackets)"),
        (["config.data.bucket_lengths=(1.5,)"], {}, "(a tuple stands in brackets)"),
        (["config.seed=3"], {}, "use --seeds"),
        (["config.model.attention.variant=dense"], {}, "use --variants"),
        (["config.train.num_steps=3", "config.train.num_steps=4"], {}, "given twice"),
    ],
)
def test_mistakes_are_told_with_what_is_known(sets, fields, told):
    with pytest.raises(UserError, match=re.escape(told)) as caught:
        selected(*sets, **fields)
    assert "\n" not in str(caught.value)


def test_the_commands_of_a_run(tmp_path):
    (run,) = selected("config.train.num_steps=4")
    commands = Commands(tmp_path, "store", ["--more=1"])
    assert commands.shown(run, "train") == [
        "python",
        "train.py",
        "--config=configs/lm1b.py:random,scale=tiny",
        "--config.train.num_steps=4",
        f"--workdir={tmp_path}/{run.name}",
        "--more=1",
    ]
    assert commands(run, "eval")[1:] == [
        str(ROOT / "eval.py"),
        f"--workdir={tmp_path}/{run.name}",
        "--results=store",
        "--more=1",
    ]
