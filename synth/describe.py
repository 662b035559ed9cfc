"""What a config's model costs: parameters per part, operations per token. Nothing is trained."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from data import tasks
from synth.attention.scores import factor_sizes
from synth.attention.terms import Mask, causal_LM
from synth.compilation import platform
from synth.configuration import Config
from synth.experiment import abstract_model, layout
from synth.variants import parse_variant


def describe(config: Config) -> dict[str, Any]:
    """Parameters and operations of the config's model.

    Operations count a multiplication and an addition as 2, in matrix products only; attention is
    counted as if every sequence had the most tokens it may have and no key were masked. The
    backward pass is counted as twice the forward pass. "Per token" is per target token, with its
    share of the inputs in the encoder (one input token in translation); per input token in a
    classification.

    Returns:
      A JSON-able dict.
    """
    task = tasks.get_task(config.data.task)
    _, params, fixed = abstract_model(config, task, config.data.vocab_size)
    parts = _parameters(params)
    forward = sum(operations(config, task).values())
    return {
        "task": task.name,
        "variant": config.model.attention.variant,
        "mix": config.model.attention.mix,
        "parameters": parts,
        "trainable": sum(parts.values()),
        "fixed": sum(_parameters(fixed).values()),
        "attention_paths": attention_paths(config, task),
        "operations_per_token": {
            "parts": operations(config, task),
            "forward": forward,
            "training_step": step_operations(config, task),
        },
    }


def trained_parameters(config: Config) -> int:
    """Number of trained parameters; takes a moment, for the model is laid out."""
    _, params, _ = abstract_model(config, tasks.get_task(config.data.task), config.data.vocab_size)
    return sum(_parameters(params).values())


def training_operations(config: Config) -> int:
    """Operations of the whole training, counted as in `describe`.

    Every token of every batch counts as a target token: what is really needed is less.
    """
    per_token = step_operations(config, tasks.get_task(config.data.task))
    return per_token * config.data.batch_tokens * config.train.num_steps


def _parameters(state: nnx.State) -> dict[str, int]:
    """Number of elements per part: the sub-layer's name, over all layers of all stacks."""
    parts: dict[str, int] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(nnx.to_pure_dict(state)):
        part = _part([entry.key for entry in path])
        parts[part] = parts.get(part, 0) + leaf.size
    return parts


def _part(keys: list) -> str:
    """The name of the part that a parameter's path lies in, without the number of the layer."""
    if "blocks" not in keys:
        return keys[0] if keys[0] == "embedding" else f"{keys[0]} norms"
    stack, _, _, sub_layer, *rest = keys
    if "norm" in sub_layer:
        return f"{stack} norms"
    if sub_layer == "self_attention":
        inner = rest[0] if rest[0] in ("scores", "mixture") else "value and output"
        return f"{stack} self_attention {inner}"
    return f"{stack} {sub_layer}"


def step_operations(config: Config, task: tasks.Task) -> int:
    """Operations of a training step per token: the backward pass is twice the forward pass."""
    return 3 * sum(operations(config, task).values())


def operations(config: Config, task: tasks.Task) -> dict[str, int]:
    """Operations of the forward pass per token, by part (see `describe`)."""
    model, shapes = config.model, layout(config, task)
    width = model.num_heads * model.head_dim
    feed_forward = 4 * model.model_dim * model.ff_dim
    encoder = {
        "encoder self_attention": _self_attention_operations(model, shapes.longest("inputs")),
        "encoder feed_forward": feed_forward,
    }
    if task.kind == "classification":
        return {part: model.num_layers * count for part, count in encoder.items()}
    decoder = {
        "decoder self_attention": _self_attention_operations(model, shapes.longest("targets")),
        "decoder feed_forward": feed_forward,
    }
    inputs = 0.0  # input tokens for each target token
    if task.kind != "language_model":
        inputs = shapes.longest("inputs") / shapes.longest("targets")
        projections = 4 * model.model_dim * width  # of two: query and output, key and value
        attend = 4 * shapes.longest("inputs") * width
        decoder["decoder cross_attention"] = round(projections * (1 + inputs)) + attend
    parts = {part: model.num_layers * count for part, count in decoder.items()}
    if inputs:
        parts |= {part: round(model.num_layers * inputs * n) for part, n in encoder.items()}
    return parts | {"softmax": 2 * model.model_dim * config.data.vocab_size}


def attention_paths(config: Config, task: tasks.Task) -> dict[str, str]:
    """How self-attention is computed on this platform and why, by stack, in training and after."""
    graphdef, params, fixed = abstract_model(config, task, config.data.vocab_size)
    paths = {}
    # Packed rows have segments, inputs have padding; targets are padded on the right only.
    packed = task.kind == "language_model"
    masks = {"encoder": dict(valid=True), "decoder": dict(causal=True, packed=packed)}

    def look(params, fixed):
        model = nnx.merge(graphdef, params, fixed)
        shapes = layout(config, task)
        for stack, side in (("encoder", "inputs"), ("decoder", "targets")):
            if not hasattr(model, stack):
                continue
            length = shapes.longest(side)
            x_BLD = jnp.zeros((1, length, config.model.model_dim), config.model.dtype)
            mask = _mask(length, **masks[stack])
            for when, rate in (("training", config.model.attention_dropout), ("scoring", 0.0)):
                dropout_LM = jnp.ones((length, length)) if rate else None
                attention = getattr(model, stack).blocks[0].self_attention
                path, why = attention.path(x_BLD, mask, dropout_LM, platform())
                paths[f"{stack}, {when}"] = f"{path}: {why}"

    jax.eval_shape(look, params, fixed)
    return paths


def _mask(length: int, *, valid=False, causal=False, packed=False) -> Mask:
    row_BL = jnp.ones((1, length), jnp.int32)
    return Mask(
        visible_LM=causal_LM(length) if causal else None,
        valid_BM=row_BL > 0 if valid else None,
        segments_BL=row_BL if packed else None,
    )


def _self_attention_operations(model: Config, length: int) -> int:
    """Operations per token of one self-attention: projections, scores, weighted sum of values."""
    width = model.num_heads * model.head_dim
    projection = 2 * model.model_dim * width
    # Shared scores are computed once for all examples: nothing per token, or next to it.
    scores = {
        "vanilla": 2 * projection + 2 * length * width,
        "dense": projection + 2 * length * width,
        "factorized_dense": projection
        + 2 * width * sum(factor_sizes(model.max_length))
        + length * model.num_heads,
        "random": 0,
        "fixed_random": 0,
        "factorized_random": 0,
    }
    terms = sum(scores[name] for name in parse_variant(model.attention.variant))
    return terms + 2 * projection + 2 * length * width


def to_json(config: Config) -> str:
    """The description as JSON text."""
    return json.dumps(describe(config), indent=2)


def to_text(config: Config) -> str:
    """The description as tables for people."""
    from tabulate import tabulate

    found = describe(config)
    rows = [(name, f"{size:,}") for name, size in sorted(found["parameters"].items())]
    rows += [("total, trained", f"{found['trainable']:,}"), ("fixed", f"{found['fixed']:,}")]
    operations = found["operations_per_token"]
    costs = [(name, f"{count / 1e6:.2f}") for name, count in sorted(operations["parts"].items())]
    costs += [
        ("forward", f"{operations['forward'] / 1e6:.2f}"),
        ("training step", f"{operations['training_step'] / 1e6:.2f}"),
    ]
    right: dict[str, Any] = dict(colalign=("left", "right"), disable_numparse=True)
    title = f"{found['task']}, attention {found['variant']} (mix {found['mix']})"
    shapes = layout(config, tasks.get_task(config.data.task))
    at = {side: shapes.longest(side) for side in ("inputs", "targets")}
    heading = f"million operations per target token, at {at['targets']} tokens"
    if shapes.kind == "classification":
        heading = f"million operations per token, at {at['inputs']} tokens"
    elif at["inputs"] != at["targets"]:
        heading += f" for inputs of {at['inputs']}"
    paths = list(found["attention_paths"].items())
    return "\n\n".join(
        [
            title,
            tabulate(rows, ("part", "parameters"), **right),
            tabulate(costs, ("part", heading), **right),
            tabulate(paths, ("self-attention", f"computed on this {platform()}")),
        ]
    )
