"""Training steps of others, of the same size on the same batch: what `train_step` compares with.

PyTorch's is the `nn.Transformer` of its library; Flax's is the model file of its WMT example, read
from a checkout of google/flax. Both have dropout, tied embeddings, label smoothing and Adam.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from synth.configuration import Config
from synth.layers import sinusoids

Batch = dict[str, np.ndarray]
Step = Callable[[], Any]


def has_torch() -> bool:
    """Whether PyTorch is installed."""
    return importlib.util.find_spec("torch") is not None


# --- PyTorch --------------------------------------------------------------------------------------


def torch_step(config: Config, batch: Batch, *, vocab_size: int, compiled: bool = False) -> Step:
    """One update of an `nn.Transformer` in eager mode, or through torch.compile."""
    torch: Any = importlib.import_module("torch")  # not in everyone's environment
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model, table = _torch_model(torch, config, vocab_size)
    optimizer = _torch_adam(torch, [*model.parameters(), table], config)
    inputs, targets = (torch.tensor(batch[side]).long() for side in ("inputs", "targets"))
    positions_1L = jnp.arange(targets.shape[1])[None]
    signal = torch.tensor(np.array(sinusoids(positions_1L, config.model.model_dim)))
    hidden_LL = torch.ones(targets.shape[1], targets.shape[1]).triu(1).bool()
    functional, rate = torch.nn.functional, config.model.residual_dropout

    def embedded(tokens):
        x = functional.embedding(tokens, table, padding_idx=0) * math.sqrt(table.shape[1])
        return functional.dropout(x + signal, rate)

    def loss_of(inputs, targets):
        padding = inputs == 0
        out = model(
            embedded(inputs),
            embedded(functional.pad(targets, (1, 0))[:, :-1]),
            tgt_mask=hidden_LL,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return functional.cross_entropy(
            (out @ table.T).flatten(0, 1),
            targets.flatten(),
            ignore_index=0,
            label_smoothing=config.train.label_smoothing,
        )

    loss_of = torch.compile(loss_of) if compiled else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(inputs, targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _torch_model(torch: Any, config: Config, vocab_size: int) -> tuple[Any, Any]:
    """(nn.Transformer with norms before its sub-layers, embedding table)."""
    sizes = config.model
    with warnings.catch_warnings():  # that norms before sub-layers have no nested tensors
        warnings.simplefilter("ignore")
        model = torch.nn.Transformer(
            sizes.model_dim,
            sizes.num_heads,
            sizes.num_layers,
            sizes.num_layers,
            sizes.ff_dim,
            dropout=sizes.residual_dropout,
            batch_first=True,
            norm_first=True,
        )
    table = torch.nn.Parameter(torch.randn(vocab_size, sizes.model_dim) * sizes.model_dim**-0.5)
    return model, table


def _torch_adam(torch: Any, parameters: list, config: Config) -> Any:
    settings = config.optimizer
    betas = (settings.b1, settings.b2)
    return torch.optim.Adam(parameters, lr=1e-4, betas=betas, eps=settings.eps, fused=True)


# --- Flax's example -------------------------------------------------------------------------------


def flax_step(config: Config, batch: Batch, *, vocab_size: int, example: Path) -> Step:
    """One update as the WMT example makes it, with the model of its `models.py`.

    Its train.py needs TensorFlow and clu, so the step is written here after it: targets as smoothed
    one-hot rows, loss and accuracy of each batch, AdamW. Its pmap is a jit here.
    """
    models = _load(example / "models.py")
    model = models.Transformer(_flax_config(models, config, vocab_size))
    optimizer = optax.adamw(1e-4, b1=0.9, b2=0.98, eps=1e-9, weight_decay=0.0)
    low = config.train.label_smoothing / (vocab_size - 1)
    confidence = 1.0 - config.train.label_smoothing

    def loss_of(params, batch, key):
        inputs, targets = batch["inputs"], batch["targets"]
        logits = model.apply({"params": params}, inputs, targets, rngs={"dropout": key})
        soft = jnp.where(jax.nn.one_hot(targets, vocab_size, dtype=bool), confidence, low)
        weights = (targets > 0).astype(jnp.float32)
        losses = -jnp.sum(soft * jax.nn.log_softmax(logits), axis=-1) * weights
        return losses.sum() / weights.sum(), logits

    def update(params, moments, key, batch):
        key = jax.random.fold_in(key, moments[0].count)
        (loss, logits), grads = jax.value_and_grad(loss_of, has_aux=True)(params, batch, key)
        updates, moments = optimizer.update(grads, moments, params)
        accuracy = jnp.mean(jnp.argmax(logits, -1) == batch["targets"])
        return optax.apply_updates(params, updates), moments, (loss, accuracy)

    arrays = {side: jnp.asarray(tokens) for side, tokens in batch.items()}
    keys = {name: jax.random.key(seed) for seed, name in enumerate(("params", "dropout"))}
    params = jax.jit(model.init)(keys, arrays["inputs"], arrays["targets"])["params"]
    state = [params, jax.jit(optimizer.init)(params)]
    jitted = jax.jit(update, donate_argnums=(0, 1))

    def step():
        state[0], state[1], metrics = jitted(*state, keys["dropout"], arrays)
        return metrics, state[0]

    return step


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("flax_example_models", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _flax_config(models: Any, config: Config, vocab_size: int) -> Any:
    sizes = config.model
    return models.TransformerConfig(
        vocab_size=vocab_size,
        output_vocab_size=vocab_size,
        share_embeddings=True,
        logits_via_embedding=True,
        emb_dim=sizes.model_dim,
        num_heads=sizes.num_heads,
        num_layers=sizes.num_layers,
        qkv_dim=sizes.num_heads * sizes.head_dim,
        mlp_dim=sizes.ff_dim,
        max_len=sizes.max_length,
        dropout_rate=sizes.residual_dropout,
        attention_dropout_rate=sizes.attention_dropout,
    )
