"""What a config's model costs: parameters per part, operations per token. Nothing is trained."""

from __future__ import annotations

import json
from typing import Any

import jax
from flax import nnx

from data import tasks
from synth.attention.scores import factor_sizes
from synth.configuration import Config
from synth.experiment import abstract_model
from synth.variants import parse_variant


def describe(config: Config) -> dict[str, Any]:
    """Parameters and operations of the config's model.

    Operations count a multiplication and an addition as 2, in matrix products only; attention is
    counted as if every sequence had `max_length` tokens and no key were masked. The backward pass
    is counted as twice the forward pass. "Per token" is per target token: in translation the
    forward pass includes one input token in the encoder.

    Returns:
      A JSON-able dict.
    """
    task = tasks.get_task(config.data.task)
    _, params, fixed = abstract_model(config, task, config.data.vocab_size)
    parts = _parameters(params)
    forward = sum(operations(config, task.kind).values())
    return {
        "task": task.name,
        "variant": config.model.attention.variant,
        "mix": config.model.attention.mix,
        "parameters": parts,
        "trainable": sum(parts.values()),
        "fixed": sum(_parameters(fixed).values()),
        "operations_per_token": {
            "parts": operations(config, task.kind),
            "forward": forward,
            "training_step": 3 * forward,
        },
    }


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


def operations(config: Config, kind: str) -> dict[str, int]:
    """Operations of the forward pass per target token, by part (see `describe`)."""
    model = config.model
    width = model.num_heads * model.head_dim
    self_attention = _self_attention_operations(model)
    feed_forward = 4 * model.model_dim * model.ff_dim
    parts = {
        "decoder self_attention": model.num_layers * self_attention,
        "decoder feed_forward": model.num_layers * feed_forward,
        "softmax": 2 * model.model_dim * config.data.vocab_size,
    }
    if kind == "translation":
        projections = 8 * model.model_dim * width
        attend = 4 * model.max_length * width
        parts["decoder cross_attention"] = model.num_layers * (projections + attend)
        parts["encoder self_attention"] = model.num_layers * self_attention
        parts["encoder feed_forward"] = model.num_layers * feed_forward
    return parts


def _self_attention_operations(model: Config) -> int:
    """Operations per token of one self-attention: projections, scores, weighted sum of values."""
    length, width = model.max_length, model.num_heads * model.head_dim
    projection = 2 * model.model_dim * width
    # Shared scores are computed once for all examples: nothing per token, or next to it.
    scores = {
        "vanilla": 2 * projection + 2 * length * width,
        "dense": projection + 2 * length * width,
        "factorized_dense": projection
        + 2 * width * sum(factor_sizes(length))
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
    length = config.model.max_length
    heading = f"million operations per target token, at {length} tokens"
    return "\n\n".join(
        [
            title,
            tabulate(rows, ("part", "parameters"), **right),
            tabulate(costs, ("part", heading), **right),
        ]
    )
