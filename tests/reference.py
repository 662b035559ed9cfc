"""The paper's attention in plain numpy, float64: loops and the formulas of Table 1, nothing else.

Parameters are read by their names from a `SelfAttention`; no code is shared with `synth`. The
dimension key is that of `synth.attention`.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

SINGLE = (
    "random",
    "fixed_random",
    "factorized_random",
    "dense",
    "factorized_dense",
    "vanilla",
)
# (variant, mix). Of each form of a term (shared, factored, full), alone and beside each other.
CASES = [
    *((name, "softmax") for name in SINGLE),
    ("random+vanilla", "softmax"),
    ("random+vanilla", "sum"),
    ("random+vanilla", "sigmoid"),
    ("dense+vanilla", "softmax"),
    ("random+dense", "softmax"),
    ("factorized_random+vanilla", "sigmoid"),
    ("fixed_random+dense", "sum"),
    ("random+factorized_random", "softmax"),
    ("random+fixed_random", "sigmoid"),
    ("random+factorized_dense", "softmax"),
    ("factorized_dense+vanilla", "sum"),
    ("random+dense+vanilla", "softmax"),
    ("random+dense+vanilla", "sum"),
]
# Fewer, for tests of whole models.
MODEL_CASES = [
    *((name, "softmax") for name in SINGLE),
    ("random+vanilla", "softmax"),
    ("dense+vanilla", "sigmoid"),
    ("random+factorized_dense", "sum"),
    ("random+dense+vanilla", "softmax"),
]


def ids(cases) -> list[str]:
    """Readable names of cases."""
    return [variant if variant in SINGLE else f"{variant},{mix}" for variant, mix in cases]


IDS, MODEL_IDS = ids(CASES), ids(MODEL_CASES)

# No two sizes alike, so that no axis can stand for another; N = 12 has unequal divisors 4 and 3.
N, D, H, K = 12, 5, 2, 3
ATTENTION = dict(rank=2, random_initializer="normal", random_scale=1.0, fixed_random_scale=1.0)


def filled(make: Callable[[], nnx.Module], seed: int = 0) -> Any:
    """The module that `make` makes, with parameters drawn by numpy.

    They are uneven where a fresh module has zeros and ones (mixture weights, biases, norms), large
    enough for weights far from uniform, and quicker to have: `make` itself computes nothing.
    """
    graphdef, state = nnx.split(nnx.eval_shape(make))
    rng = np.random.default_rng(seed)

    def draw(path, leaf):
        name = next(str(entry.key) for entry in reversed(path) if hasattr(entry, "key"))
        mean = {"scale_D": 1.0, "gate": 0.5}.get(name, 0.0)
        spread = 1.0 if name.endswith(("HNN", "HNR", "TH")) else 0.5
        return jnp.asarray(rng.normal(mean, spread, size=leaf.shape), leaf.dtype)

    return nnx.merge(graphdef, jax.tree_util.tree_map_with_path(draw, state))


def parameters(module: nnx.Module) -> Any:
    """All variables of a module, trained or not, as nested dicts of float64 arrays."""

    def float64(node):
        if isinstance(node, dict):
            return {key: float64(value) for key, value in node.items()}
        return np.asarray(node, np.float64)

    return float64(nnx.to_pure_dict(nnx.state(module)))


def visible(length: int, *, batch: int, causal=False, valid_BM=None, segments_BL=None):
    """bool_BLM: which keys each query may see."""
    seen_BLM = np.zeros((batch, length, length), bool)
    for b in range(batch):
        for i in range(length):
            for j in range(length):
                seen = not causal or j <= i
                if valid_BM is not None:
                    seen = seen and bool(valid_BM[b, j])
                if segments_BL is not None:
                    seen = seen and segments_BL[b, i] == segments_BL[b, j] != 0
                seen_BLM[b, i, j] = seen
    return seen_BLM


def self_attention(parameters: dict, variant: str, mix: str, x_BLD, seen_BLM, positions_BL=None):
    """y_BLD of a module with these parameters; the terms in the order of the module's scores."""
    x_BLD = np.asarray(x_BLD, np.float64)
    batch, length, model_dim = x_BLD.shape
    if positions_BL is None:
        positions_BL = np.tile(np.arange(length), (batch, 1))
    names = variant.split("+")
    y_BLD = np.zeros((batch, length, model_dim))
    for b in range(batch):
        for h in range(parameters["value_DHK"].shape[1]):
            value_LK = x_BLD[b] @ parameters["value_DHK"][:, h]
            alpha_T = mixture_weights(parameters.get("mixture", {}), mix, len(names), h)
            logits_LM = np.zeros((length, length))
            for t, name in enumerate(names):
                term_LM = _SCORES[name](parameters["scores"][t], h, x_BLD[b], positions_BL[b])
                logits_LM += alpha_T[t] * term_LM
            for i in range(length):
                weights_M = softmax(logits_LM[i], seen_BLM[b, i])
                y_BLD[b, i] += weights_M @ value_LK @ parameters["output_HKD"][h]
    return y_BLD


def softmax(logits_M, seen_M):
    """Softmax over the keys that are seen; 0 for the others, and 0 everywhere if there are none."""
    weights_M = np.zeros(len(logits_M))
    if seen_M.any():
        exp = np.exp(logits_M[seen_M] - logits_M[seen_M].max())
        weights_M[seen_M] = exp / exp.sum()
    return weights_M


def mixture_weights(parameters: dict, mix: str, num_terms: int, head: int) -> list[float]:
    """alpha of each term: softmax of a logit per head, a gate s and 1 - s, or 1."""
    if num_terms == 1 or mix == "sum":
        return [1.0] * num_terms
    if mix == "sigmoid":
        gate = 1.0 / (1.0 + math.exp(-float(parameters["gate"])))
        return [gate, 1.0 - gate]
    exp_T = [math.exp(logit) for logit in parameters["logits_TH"][:, head]]
    return [exp / sum(exp_T) for exp in exp_T]


# --- Table 1, one head of one example: logits_LM --------------------------------------------------


def _random(score, h, x_LD, positions_L):
    return np.array([[score["logits_HNN"][h, i, j] for j in positions_L] for i in positions_L])


def _factorized_random(score, h, x_LD, positions_L):
    product_NN = score["query_HNR"][h] @ score["key_HNR"][h].T
    return np.array([[product_NN[i, j] for j in positions_L] for i in positions_L])


def _dense(score, h, x_LD, positions_L):
    rows = []
    for x_D in x_LD:
        row_N = score["key_NHK"][:, h] @ np.maximum(x_D @ score["hidden_DHK"][:, h], 0.0)
        rows.append([row_N[j] for j in positions_L])
    return np.array(rows)


def _factorized_dense(score, h, x_LD, positions_L):
    rows = []
    for x_D in x_LD:
        hidden_K = np.maximum(x_D @ score["hidden_DHK"][:, h], 0.0)
        tiled_A, repeated_C = hidden_K @ score["tiled_HKA"][h], hidden_K @ score["repeated_HKC"][h]
        a = len(tiled_A)
        rows.append([tiled_A[j % a] * repeated_C[j // a] for j in positions_L])
    return np.array(rows)


def _vanilla(score, h, x_LD, positions_L):
    query_LK, key_LK = x_LD @ score["query_DHK"][:, h], x_LD @ score["key_DHK"][:, h]
    return query_LK @ key_LK.T / math.sqrt(query_LK.shape[1])


_SCORES = {
    "random": _random,
    "fixed_random": _random,
    "factorized_random": _factorized_random,
    "dense": _dense,
    "factorized_dense": _factorized_dense,
    "vanilla": _vanilla,
}
