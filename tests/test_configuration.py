"""Configs: each makes a model, each leaf can be overridden, and mistakes are named."""

import functools
import itertools
import json
from pathlib import Path
from typing import Any

import jax
import pytest
from absl import flags
from conftest import ROOT
from ml_collections import config_flags

from data import tasks
from synth import configuration, experiment
from synth.configuration import Flag, difference, flatten, from_dict, load
from synth.errors import UserError
from synth.variants import MIXES, VARIANTS

FILES = sorted(
    f"configs/{path.name}"
    for path in (ROOT / "configs").glob("*.py")
    if path.stem not in ("__init__", "common")
)
# AG's news has no text that could stand in for it.
SMALL_FILES = [file for file in FILES if file != "configs/agnews.py"]
ROWS = [(file, "paper") for file in FILES] + [
    (file, scale) for file in SMALL_FILES for scale in ("small", "tiny")
]
TINY = "configs/lm1b.py:random,scale=tiny"
# All but the scale, which only the row can change.
CONFIG_LEAVES = sorted(flatten(load(str(ROOT / "configs/lm1b.py"))).keys() - {"scale"})
# Overrides that are checked at once, so that "another value of the type" would be refused.
OTHER_VALUES = {"model.attention.variant": "dense", "model.attention.mix": "sum"}


@pytest.fixture(autouse=True)
def in_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture
def read(monkeypatch):
    """Reads a command line as the entry points do, with flags of its own."""
    define = config_flags.DEFINE_config_dict

    def read(*argv: str) -> Flag:
        values = flags.FlagValues()
        monkeypatch.setattr(
            config_flags, "DEFINE_config_dict", functools.partial(define, flag_values=values)
        )
        flag = Flag()
        values(flag.define(["train.py", *argv]))
        return flag

    return read


# --- Files ----------------------------------------------------------------------------------------


def check_makes_model(config: Any) -> int:
    """Checks all that can be checked without data; returns the number of trained elements."""
    task = tasks.get_task(config.data.task)
    task.dataset(config.data.dataset)
    configuration.check_settings(config)
    for batch_tokens in (config.data.batch_tokens, config.decode.batch_tokens):
        experiment.layout(config, task, batch_tokens)
    _, params, _ = experiment.abstract_model(config, task, config.data.vocab_size)
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def test_there_are_configs():
    assert [f"configs/{name}.py" for name in sorted(tasks.TASKS)] == FILES


def test_a_task_without_embedded_text_says_so():
    for scale in ("small", "tiny"):
        with pytest.raises(UserError, match=f"scale={scale}: AG's news has no embedded text"):
            load(f"configs/agnews.py:dense,scale={scale}")


@pytest.mark.parametrize(("file", "scale"), ROWS)
def test_every_config_makes_a_model(file, scale):
    # More terms, more parameters.
    sizes = [
        check_makes_model(load(f"{file}:{variant},scale={scale},seed=3"))
        for variant in ("dense", "dense+vanilla")
    ]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("mix", MIXES)
def test_every_variant_and_mixture_makes_a_model(mix):
    mixtures = [f"{a}+{b}" for a, b in itertools.pairwise(VARIANTS)]
    for variant in (*VARIANTS, *mixtures):
        assert check_makes_model(load(f"configs/lm1b.py:{variant},scale=tiny,mix={mix}")) > 0


def test_the_paper_scale_is_the_default_and_uses_the_real_text():
    assert load("configs/lm1b.py").scale == "paper"
    assert load("configs/lm1b.py").model.attention.variant == "vanilla"
    for file in FILES:
        config = load(f"{file}:dense")
        dataset = tasks.get_task(config.data.task).dataset(config.data.dataset)
        assert not dataset.stand_in
        for scale in ("small", "tiny") if file in SMALL_FILES else ():
            small = load(f"{file}:dense,scale={scale}").data
            assert tasks.get_task(small.task).dataset(small.dataset).stand_in


def test_a_row_sets_what_it_says():
    config = load("configs/wmt_ende.py:random+vanilla,scale=tiny,mix=sum,seed=12")
    attention = config.model.attention
    assert (attention.variant, attention.mix) == ("random+vanilla", "sum")
    assert (config.scale, config.seed) == ("tiny", 12)


@pytest.mark.parametrize(
    ("arg", "told"),
    [
        ("scale=tiny", "must start with a variant"),
        ("random,size=tiny", "known: scale=, mix=, seed="),
        ("random,scale", "'scale' in the row"),
        ("random,", "'' in the row"),
        ("random,scale=huge", "known: paper, small, tiny"),
        ("random,seed=one", "seed='one'"),
        ("random,seed=-1", "seed='-1'"),
        ("random,seed=", "seed=''"),
        ("random,seed=1,seed=2", "sets seed twice"),
    ],
)
def test_a_wrong_row_is_named(arg, told):
    with pytest.raises(UserError) as caught:
        load(f"configs/lm1b.py:{arg}")
    assert told in str(caught.value)
    assert arg in str(caught.value)


def test_a_missing_file_lists_the_others():
    with pytest.raises(UserError) as caught:
        load("configs/wmt_deen.py:random")
    message = str(caught.value)
    assert "configs/wmt_deen.py" in message
    assert all(file in message for file in FILES)
    assert "common" not in message


def test_a_file_without_get_config_is_named(tmp_path):
    (tmp_path / "mine.py").write_text("x = 1\n")
    with pytest.raises(UserError, match="no get_config"):
        load(str(tmp_path / "mine.py"))


def test_a_config_of_ones_own_may_lie_anywhere(tmp_path):
    text = "from configs.lm1b import get_config as base\n\ndef get_config(arg):\n"
    (tmp_path / "mine.py").write_text(text + "    return base(arg)\n")
    assert load(f"{tmp_path}/mine.py:dense,scale=tiny") == load("configs/lm1b.py:dense,scale=tiny")


# --- Command line ---------------------------------------------------------------------------------


def other_value(key: str, value: Any) -> Any:
    """Another value of the same type."""
    if key in OTHER_VALUES:
        return OTHER_VALUES[key]
    if isinstance(value, tuple):
        return (*value, 1000)
    if isinstance(value, bool):
        return not value
    return value + "x" if isinstance(value, str) else value + 1


@pytest.mark.parametrize("key", CONFIG_LEAVES)
def test_every_leaf_can_be_overridden(read, key):
    old = flatten(load(TINY))
    value = other_value(key, old[key])
    flag = read(f"--config={TINY}", f"--config.{key}={value}")
    new = flatten(flag.value())
    assert new == old | {key: value}
    assert type(new[key]) is type(old[key])
    assert flag.overrides == {key: value}


def test_the_scale_cannot_be_overridden(read):
    flag = read(f"--config={TINY}", "--config.scale=small")
    with pytest.raises(UserError, match="name it in the row"):
        flag.value()


def test_a_name_given_in_two_words_and_no_override(read):
    flag = read("--config", TINY)
    assert flag.name == TINY
    assert flag.value().to_dict() == load(TINY).to_dict()
    assert flag.overrides == {}


def test_overriding_with_the_same_value_is_no_override(read):
    flag = read(f"--config={TINY}", "--config.train.num_steps=20")
    flag.value()
    assert flag.overrides == {}


def test_terms_in_any_order_are_the_same_config(read):
    one = read("--config=configs/lm1b.py:vanilla+random,scale=tiny").value()
    other = read(
        "--config=configs/lm1b.py:dense,scale=tiny",
        "--config.model.attention.variant=random+vanilla",
    ).value()
    assert one == other


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("--config.train.num_step=3", ["train.num_step", "train.num_steps", "train.log_every"]),
        ("--config.trian.num_steps=3", ["trian.num_steps", "train.num_steps"]),
        ("--config.num_steps=3", ["num_steps", "train.num_steps"]),
        ("--config.train=3", ["'train'"]),
    ],
)
def test_an_unknown_key_lists_what_exists(read, override, told):
    with pytest.raises(UserError) as caught:
        read(f"--config={TINY}", override)
    assert all(name in str(caught.value) for name in told)


@pytest.mark.parametrize(
    "override",
    [
        "train.num_steps=many",
        "train.num_steps=1.5",
        "optimizer.learning_rate=fast",
        "data.bucket_lengths=wide",
        "data.bucket_lengths=(8,",
    ],
)
def test_a_value_of_the_wrong_type_is_named(read, override):
    key, _, value = override.partition("=")
    with pytest.raises((UserError, flags.Error)) as caught:
        read(f"--config={TINY}", f"--config.{override}").value()
    assert key in str(caught.value)
    assert value in str(caught.value)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("rnadom", ["'rnadom'", *VARIANTS]),
        ("random+", ["''", *VARIANTS]),
        ("random+random", ["names a term twice"]),
        ("random+vanilla,mix=alpha", ["'alpha'", *MIXES]),
        ("random+dense+vanilla,mix=sigmoid", ["there are 3", "mix='softmax'"]),
    ],
)
def test_an_unknown_attention_lists_what_exists(read, row, told):
    with pytest.raises(UserError) as caught:
        read(f"--config=configs/lm1b.py:{row}")
    assert all(name in str(caught.value) for name in told)


def test_an_unknown_attention_in_an_override_is_named(read):
    with pytest.raises(UserError, match="rnadom"):
        read(f"--config={TINY}", "--config.model.attention.variant=rnadom").value()


def test_no_config_gives_an_example(read):
    with pytest.raises(UserError, match="name a config: --config="):
        read().value()
    with pytest.raises(UserError, match="needs --config="):
        read("--config.seed=3")


def test_an_unknown_flag_is_an_error(read):
    with pytest.raises(flags.Error, match="stpes"):
        read(f"--config={TINY}", "--stpes=3")


# --- In and out of JSON ---------------------------------------------------------------------------


@pytest.mark.parametrize("file", SMALL_FILES)
def test_stored_configs_come_back_the_same(file):
    config = load(f"{file}:random+vanilla,scale=small")
    back = from_dict(json.loads(json.dumps(config.to_dict())))
    assert back == config
    assert isinstance(back.data.bucket_lengths, tuple)
    assert difference(config, back) == difference(back, config) == {}


def test_difference_names_leaves_by_dotted_key():
    old, new = load(TINY), load(TINY)
    new.model.attention.rank = 4
    new.data.bucket_lengths = (32, 64)
    assert difference(old, new) == {"model.attention.rank": 4, "data.bucket_lengths": (32, 64)}
    assert difference(old, old) == {}


def test_a_list_equals_the_tuple_it_was():
    config = load(TINY)
    assert difference(config, json.loads(json.dumps(config.to_dict()))) == {}


def test_known_configs_lie_where_the_message_says(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="known here: none"):
        load("configs/wmt_ende.py:random")
    assert configuration.load(str(Path(ROOT, "configs/wmt_ende.py"))).scale == "paper"
