"""Parameter and operation counts against the paper's differences, real models and XLA."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT
from flax import nnx

from configs import lm1b, wmt_ende
from data import tasks
from synth.configuration import load
from synth.describe import describe, to_json, to_text
from synth.experiment import layout
from synth.transformer import make_model
from tests.reference import MODEL_CASES, MODEL_IDS, SINGLE


@pytest.fixture(scope="module")
def paper():
    """Descriptions at the paper's scale, by row."""
    rows = (*SINGLE, "random+vanilla", "random+dense", "dense+vanilla")
    return {row: describe(wmt_ende.get_config(f"{row},scale=paper")) for row in rows}


def make(config):
    task = tasks.get_task(config.data.task)
    rngs = nnx.Rngs(params=jax.random.key(0))
    sizes = dict(vocab_size=config.data.vocab_size, num_labels=len(task.labels))
    return make_model(task.kind, rngs=rngs, **sizes, **config.model)


def test_differences_between_rows_of_the_paper(paper):
    """Table 2: 61M -> 67M -> 73M is 12 self-attentions x 8 heads x 256^2, or x 2 x 512^2."""
    trainable = {row: found["trainable"] for row, found in paper.items()}
    step, alphas = 6_291_456, 12 * 2 * 8
    assert trainable["random"] - trainable["fixed_random"] == step
    assert trainable["vanilla"] - trainable["fixed_random"] == step
    assert trainable["random+vanilla"] - trainable["fixed_random"] == 2 * step + alphas
    # Two factors of 256 x 8 per head; W1 of 512 x 512 and W2 of 512 x 256; a = b = 16.
    factors, dense = 12 * 8 * 2 * 256 * 8, 12 * (512 * 512 + 512 * 256)
    assert trainable["factorized_random"] - trainable["fixed_random"] == factors
    assert trainable["dense"] - trainable["fixed_random"] == dense
    assert trainable["random+dense"] - trainable["random"] == dense + alphas
    assert trainable["dense+vanilla"] - trainable["vanilla"] == dense + alphas
    small = 12 * (512 * 512 + 512 * 32)
    assert trainable["factorized_dense"] - trainable["fixed_random"] == small


def test_transformer_base_by_hand(paper):
    """V D + 18 attentions of 4 D^2 + 12 feed-forwards of 2 D F + D + F + norms of 2 D."""
    vocab, d, ff = 32768, 512, 2048
    norms = (6 * 2 + 6 * 3 + 2) * 2 * d
    expected = vocab * d + 18 * 4 * d * d + 12 * (2 * d * ff + d + ff) + norms
    assert paper["vanilla"]["trainable"] == expected


def test_fixed_parameters_are_counted_apart(paper):
    fixed = {row: found["fixed"] for row, found in paper.items()}
    assert fixed.pop("fixed_random") == 6_291_456
    assert set(fixed.values()) == {0}


def test_parts_that_no_variant_changes(paper):
    for part in ("embedding", "decoder cross_attention", "encoder feed_forward"):
        assert len({found["parameters"][part] for found in paper.values()}) == 1


@pytest.mark.parametrize("task", [wmt_ende, lm1b], ids=["wmt_ende", "lm1b"])
@pytest.mark.parametrize(("variant", "mix"), MODEL_CASES, ids=MODEL_IDS)
def test_totals_are_those_of_the_model(variant, mix, task):
    config = task.get_config(f"{variant},scale=tiny,mix={mix}")
    found = describe(config)
    model = nnx.eval_shape(lambda: make(config))
    params, fixed = nnx.state(model, nnx.Param, ...)

    def count(state):
        return sum(leaf.size for leaf in jax.tree.leaves(state))

    assert (found["trainable"], found["fixed"]) == (count(params), count(fixed))
    assert sum(found["parameters"].values()) == found["trainable"]
    assert (found["variant"], found["mix"]) == (variant, mix)


def test_json_and_text_say_the_same():
    config = wmt_ende.get_config("fixed_random+dense,scale=tiny")
    found = describe(config)
    assert json.loads(to_json(config)) == found
    text = to_text(config)
    for number in (found["trainable"], found["fixed"], *found["parameters"].values()):
        assert f"{number:,}" in text
    operations = found["operations_per_token"]
    assert operations["forward"] == sum(operations["parts"].values())
    assert f"{operations['forward'] / 1e6:.2f}" in text


def forward_operations(config) -> float:
    """XLA's count for a forward pass over one batch of full length, per target token."""
    batch = 4
    shapes = layout(config, tasks.get_task(config.data.task))
    tokens = {
        side: jax.ShapeDtypeStruct((batch, shapes.longest(side)), jnp.int32)
        for side in ("inputs", "targets")
    }
    graphdef, state = nnx.split(nnx.eval_shape(lambda: make(config)))
    lowered = jax.jit(lambda state, batch: nnx.merge(graphdef, state)(batch)).lower(state, tokens)
    cost = lowered.compile().cost_analysis()
    assert cost is not None
    counted = "inputs" if shapes.kind == "classification" else "targets"
    return cost["flops"] / (batch * shapes.longest(counted))


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        *((name, v) for name in ("wmt_ende", "lm1b") for v in SINGLE if "random" not in v),
        ("cnn_dailymail", "dense"),
        ("c4", "vanilla"),
        ("imdb", "factorized_dense"),
    ],
)
def test_operations_are_those_of_the_compiled_model(name, variant):
    """Within 4%: XLA also counts what is no matrix product (norms, softmax, masks)."""
    config = load(f"{ROOT}/configs/{name}.py:{variant},scale=tiny")
    config.model.update(model_dim=128, head_dim=64, ff_dim=256, max_length=32)
    config.data.update(bucket_lengths=(32,), target_length=min(config.data.target_length, 8))
    expected = describe(config)["operations_per_token"]["forward"]
    found = forward_operations(config)
    assert expected == pytest.approx(found, rel=0.04)
    assert expected < found


def test_random_attention_costs_less_than_vanilla(paper):
    """As in the paper's speed table; by the projections and by the product that are not made."""

    def forward(row):
        return paper[row]["operations_per_token"]["forward"]

    assert forward("random") == forward("fixed_random") == forward("factorized_random")
    saved = 12 * (2 * 2 * 512 * 512 + 2 * 256 * 512)
    assert forward("vanilla") - forward("random") == saved
    assert forward("random") < forward("dense") < forward("vanilla") < forward("dense+vanilla")
    operations = paper["dense"]["operations_per_token"]
    assert operations["training_step"] == 3 * operations["forward"]
    assert np.isfinite(operations["forward"])


def test_how_attention_is_computed_is_told(paper):
    paths = paper["random"]["attention_paths"]
    assert list(paths) == [
        f"{stack}, {when}" for stack in ("encoder", "decoder") for when in ("training", "scoring")
    ]
    assert set(paths.values()) == {"shared: no term depends on the example"}
    # In packed rows R is looked up.
    paths = describe(lm1b.get_config("random,scale=paper"))["attention_paths"]
    assert paths["decoder, training"].startswith("softmax: ")
    assert "encoder, training" not in paths
