"""Decoding: the cached steps equal the full pass, beam search equals exhaustive search."""

import functools
import itertools
import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from synth.compilation import jit
from synth.decode import EOS_ID, PAD_ID, beam_search, greedy
from synth.decoding import Search, find_outputs
from synth.transformer import make_model
from tests.reference import ATTENTION, MODEL_CASES, MODEL_IDS, filled

MODEL = dict(
    vocab_size=11,
    num_layers=2,
    model_dim=8,
    num_heads=2,
    head_dim=3,
    ff_dim=9,
    max_length=12,
    residual_dropout=0.0,
    attention_dropout=0.0,
    relu_dropout=0.0,
    dtype="float32",
)
every_case = pytest.mark.parametrize(("variant", "mix"), MODEL_CASES, ids=MODEL_IDS)

INPUTS = jnp.array([[3, 4, 5, 6, 1], [7, 8, 1, 0, 0]])
# Two hypotheses of each input, side by side.
HYPOTHESES = jnp.array([[5, 6, 7, 1], [2, 9, 9, 10], [4, 4, 4, 4], [10, 3, 2, 1]])


def small_model(kind: str, variant: str, mix: str, **changes):
    attention = dict(variant=variant, mix=mix, **ATTENTION)
    settings: dict[str, Any] = MODEL | changes
    return filled(
        lambda: make_model(kind, attention=attention, rngs=nnx.Rngs(params=0), **settings)
    )


def step_by_step(model, tokens_BL, memory, cache) -> np.ndarray:
    """logits_BLV of the tokens, each read after those before it."""
    rows, last = [], jnp.zeros(len(tokens_BL), int)
    for index in range(tokens_BL.shape[1]):
        logits_BV, cache = model.step(last, jnp.int32(index), memory, cache)
        rows.append(logits_BV)
        last = tokens_BL[:, index]
    return np.stack(rows, axis=1)


@every_case
def test_steps_of_a_translation_equal_the_full_pass(variant, mix):
    """With two hypotheses per input, in a cache that is longer than they are."""
    model = small_model("seq2seq", variant, mix, num_layers=1)
    memory, cache = model.start(INPUTS, 2, 6)
    found = step_by_step(model, HYPOTHESES, memory, cache)
    full = model({"inputs": jnp.repeat(INPUTS, 2, axis=0), "targets": HYPOTHESES})
    np.testing.assert_allclose(found, full, rtol=1e-4, atol=1e-4)


@every_case
def test_steps_of_a_language_model_equal_the_full_pass(variant, mix):
    model = small_model("language_model", variant, mix)
    memory, cache = model.start(4, 1, 12)
    found = step_by_step(model, HYPOTHESES, memory, cache)
    np.testing.assert_allclose(found, model({"targets": HYPOTHESES}), rtol=1e-4, atol=1e-4)


def test_the_cache_holds_what_terms_need():
    """Keys for vanilla terms alone; values for all."""
    for variant, with_keys in (("random", [False]), ("dense+vanilla", [False, True])):
        model = small_model("language_model", variant, "softmax")
        _, cache = model.start(3, 4, 5)
        layers = cache["layers"].arrays
        assert len(layers) == 2
        assert [key is not None for key in layers[0]["keys"]] == with_keys
        assert layers[0]["value"].shape == (3, 2, 20, 3)
        assert cache["ancestors"].shape == (12, 5)
        assert model.start(3, 1, 5)[1]["ancestors"] is None


def test_decoding_of_a_model_in_one_loop():
    """Greedy and beam search drive a real model: the tokens are those of the full pass."""
    model = small_model("seq2seq", "random+vanilla", "softmax", num_layers=1)
    memory, cache = model.start(INPUTS, 1, 5)

    def step(tokens_B, index, cache):
        return model.step(tokens_B, index, memory, cache)

    tokens_BT = greedy(step, cache, 2, 5)
    logits_BLV = np.array(model({"inputs": INPUTS, "targets": tokens_BT}))
    logits_BLV[..., PAD_ID] = -np.inf
    real = np.asarray(tokens_BT) > 0
    np.testing.assert_array_equal(logits_BLV.argmax(-1)[real], np.asarray(tokens_BT)[real])
    memory, cache = model.start(INPUTS, 3, 5)
    beam_BT, score_B = beam_search(step, cache, 2, beam=3, alpha=0.6, max_length=5)
    logits_BLV = np.array(model({"inputs": INPUTS, "targets": beam_BT}))
    logits_BLV[..., PAD_ID] = -1e9
    for b in range(2):
        logp_TV = np.asarray(jax.nn.log_softmax(logits_BLV[b]))
        length = int(np.sum(beam_BT[b] > 0))
        logp = sum(logp_TV[t, beam_BT[b, t]] for t in range(length))
        assert float(score_B[b]) == pytest.approx(logp / penalty(length, 0.6), rel=1e-4)


# --- Search on models that are tables -------------------------------------------------------------


NUM_STATES = 997


class Table:
    """A model whose logits depend on all tokens so far, through a state that the cache carries.

    The state of an empty hypothesis is the number of its example, so that examples differ. The
    table has a row per state; a hypothesis with another's cache would read the wrong row.
    """

    def __init__(self, vocab_size: int, seed: int, scale: float = 1.0, eos: float = 0.0):
        rng = np.random.default_rng(seed)
        self.logits_SV = scale * rng.normal(size=(NUM_STATES, vocab_size))
        self.logits_SV[:, EOS_ID] += eos

    def cache(self, batch: int, rows: int):
        return {
            "state": jnp.repeat(jnp.arange(batch), rows),
            "unused": jnp.zeros((batch * rows, 2)),
        }

    def greedy(self, batch: int, max_length: int):
        return _greedy(jnp.float32(self.logits_SV), self.cache(batch, 1), batch, max_length)

    def beam_search(self, batch: int, beam: int, alpha: float, max_length: int, cache=None):
        cache = self.cache(batch, beam) if cache is None else cache
        logits_SV = jnp.float32(self.logits_SV)
        return _beam_search(logits_SV, cache, batch, beam, alpha, max_length)

    def logp_V(self, state: int) -> np.ndarray:
        """Log-probabilities with padding ruled out."""
        logits_V = self.logits_SV[state].copy()
        logits_V[PAD_ID] = -np.inf
        return logits_V - np.log(np.exp(logits_V).sum())

    def score(self, example: int, tokens, alpha: float) -> Any:
        """Sum of log-probabilities over the penalty of the length."""
        total: Any = 0.0
        state, last = example, PAD_ID
        for index, token in enumerate(tokens):
            state = next_state(state, last, index)
            total += self.logp_V(state)[token]
            last = token
        return total / penalty(len(tokens), alpha)


def next_state(state, token, index):
    return (state * 31 + token * 7 + index * 3 + 1) % NUM_STATES


def _step_of(logits_SV):
    def step(tokens_B, index, cache):
        state_B = next_state(cache["state"], tokens_B, index)
        return logits_SV[state_B], cache | {"state": state_B}

    return step


# The tables are arguments, so that all models of one shape share a compiled program.
@functools.partial(jax.jit, static_argnums=(2, 3))
def _greedy(logits_SV, cache, batch, max_length):
    return greedy(_step_of(logits_SV), cache, batch, max_length)


@functools.partial(jax.jit, static_argnums=(2, 3, 5))
def _beam_search(logits_SV, cache, batch, beam, alpha, max_length):
    return beam_search(
        _step_of(logits_SV), cache, batch, beam=beam, alpha=alpha, max_length=max_length
    )


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def all_hypotheses(vocab_size: int, max_length: int):
    """Every sequence of at most T tokens that ends with EOS."""
    words = [token for token in range(vocab_size) if token not in (PAD_ID, EOS_ID)]
    for length in range(max_length):
        for start in itertools.product(words, repeat=length):
            yield (*start, EOS_ID)


def strip(tokens_T) -> tuple[int, ...]:
    """The tokens without the padding at the end; padding anywhere else is an error."""
    tokens = [int(token) for token in tokens_T]
    length = max((t + 1 for t, token in enumerate(tokens) if token != PAD_ID), default=0)
    assert PAD_ID not in tokens[:length]
    assert EOS_ID not in tokens[: length - 1]
    return tuple(tokens[:length])


@pytest.mark.parametrize(
    ("vocab_size", "max_length", "beam"), [(4, 4, 16), (5, 3, 9), (3, 4, 2), (4, 1, 2)]
)
def test_wide_beam_equals_exhaustive_search(vocab_size, max_length, beam):
    """Three examples at once, several models; some like to end early, some late."""
    batch = 3
    lengths, depends_on_alpha = set(), False
    for seed, eos in enumerate((0.0, 2.0, -1.0, -3.0)):
        model = Table(vocab_size, seed, scale=1.5, eos=eos)
        winners = []
        for alpha in (0.0, 0.6, 3.0):
            tokens_BT, score_B = model.beam_search(batch, beam, alpha, max_length)
            for b in range(batch):
                scores = {
                    tokens: model.score(b, tokens, alpha)
                    for tokens in all_hypotheses(vocab_size, max_length)
                }
                best = max(scores, key=lambda tokens: scores[tokens])
                assert strip(tokens_BT[b]) == best
                assert float(score_B[b]) == pytest.approx(scores[best], rel=1e-5)
                lengths.add(len(best))
            winners.append([strip(row) for row in tokens_BT])
        depends_on_alpha |= winners[0] != winners[2]
    # Otherwise the models would test little.
    assert max_length == 1 or (len(lengths) > 1 and depends_on_alpha)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_narrow_beam_is_honest(alpha):
    """The score is that of the tokens, and the early stop changes nothing.

    An example beside others is searched until all are settled, alone it stops on its own account.
    """
    batch, beam, max_length = 8, 3, 8
    model = Table(6, 5, scale=2.0, eos=1.0)
    cache = model.cache(batch, beam)
    tokens_BT, score_B = model.beam_search(batch, beam, alpha, max_length)
    for b in range(batch):
        tokens = strip(tokens_BT[b])
        assert float(score_B[b]) == pytest.approx(model.score(b, tokens, alpha), rel=1e-5)
        own = {name: rows[b * beam : (b + 1) * beam] for name, rows in cache.items()}
        alone_BT, alone_B = model.beam_search(1, beam, alpha, max_length, own)
        assert strip(alone_BT[0]) == tokens
        assert float(alone_B[0]) == pytest.approx(float(score_B[b]), rel=1e-6)


def test_stops_early():
    """No step is taken once the best finished hypothesis cannot be beaten."""
    taken = []

    def step(tokens_B, index, cache):
        jax.debug.callback(lambda i: taken.append(int(i)), index)
        return jnp.tile(jnp.array([0.0, 9.0, 0.0, 0.0]), (len(tokens_B), 1)), cache

    beam_search(step, {}, 2, beam=2, alpha=0.6, max_length=50)
    jax.effects_barrier()
    assert taken == [0]
    taken.clear()
    greedy(step, {}, 2, 50)
    jax.effects_barrier()
    assert taken == [0]


def test_does_not_stop_too_early():
    """With a large alpha a hypothesis that is behind may win by its length.

    EOS at once scores log 1/2. A word instead has log 1/4, goes on for sure, and ends at 8 tokens:
    log 1/4 over (13/6)^3 is the better score, though it is the worse one after the first step.
    """
    sure = 60.0
    first = np.array([-sure, np.log(2.0), 0.0, 0.0])
    later, last = np.array([-sure, -sure, 0.0, -sure]), np.array([-sure, 0.0, -sure, -sure])
    logits_TV = jnp.asarray(np.stack([first, *[later] * 6, last]), jnp.float32)

    def step(tokens_B, index, cache):
        return jnp.tile(logits_TV[index], (len(tokens_B), 1)), cache

    tokens_BT, score_B = beam_search(step, {}, 1, beam=2, alpha=3.0, max_length=8)
    assert len(strip(tokens_BT[0])) == 8
    assert float(score_B[0]) == pytest.approx(np.log(1 / 4) / penalty(8, 3.0), rel=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_beam_1_equals_greedy_where_models_are_sure(alpha):
    """A beam of 1 also keeps ends it passes by, so that it can only find a better score."""
    for seed in range(3):
        for scale, sure in ((8.0, True), (0.7, False)):
            model = Table(5, seed, scale=scale, eos=scale / 2)
            greedy_BT = model.greedy(4, 6)
            beam_BT, score_B = model.beam_search(4, 1, alpha, 6)
            for b in range(4):
                tokens = strip(greedy_BT[b])
                if sure:
                    assert strip(beam_BT[b]) == tokens
                if tokens[-1] == EOS_ID:
                    assert float(score_B[b]) >= model.score(b, tokens, alpha) - 1e-5


def test_greedy_takes_the_likeliest_token():
    model = Table(5, 7)
    tokens_BT = model.greedy(6, 7)
    ends = 0
    for b in range(6):
        state, last = b, PAD_ID
        tokens = strip(tokens_BT[b])
        for index, token in enumerate(tokens):
            state = next_state(state, last, index)
            assert token == model.logp_V(state).argmax()
            last = token
        assert tokens[-1] == EOS_ID or len(tokens) == 7
        ends += tokens[-1] == EOS_ID
    assert ends > 0


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_without_an_end_the_hypothesis_is_cut(alpha):
    """EOS is never among the 2 W likeliest: the best unfinished hypothesis of T tokens counts."""
    model = Table(8, 3, eos=-30.0)
    tokens_BT, score_B = model.beam_search(2, 2, alpha, 4)
    for b in range(2):
        tokens = strip(tokens_BT[b])
        assert len(tokens) == 4 and EOS_ID not in tokens
        assert float(score_B[b]) == pytest.approx(model.score(b, tokens, alpha), rel=1e-5)
    greedy_BT = model.greedy(2, 4)
    assert np.all((greedy_BT != PAD_ID) & (greedy_BT != EOS_ID))


def test_padding_is_never_chosen():
    """Not even by a model that prefers it."""

    def step(tokens_B, index, cache):
        return jnp.tile(jnp.array([50.0, -1.0, 0.0, 1.0]), (len(tokens_B), 1)), cache

    tokens_BT, score_B = beam_search(step, {}, 1, beam=4, alpha=0.6, max_length=3)
    strip(tokens_BT[0])
    assert np.any(tokens_BT != PAD_ID) and math.isfinite(score_B[0])
    np.testing.assert_array_equal(greedy(step, {}, 1, 3), [[3, 3, 3]])


# --- What a compiled step does not do -------------------------------------------------------------


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("variant", ["random", "dense", "factorized_dense", "random+vanilla"])
def test_no_cache_or_memory_is_copied_in_a_step(variant, beam):
    """In the loop of the compiled program nothing copies a whole cache, or what is as large.

    A cache is written in place; the memory lies as it is read and is not repeated per hypothesis.
    """
    batch, length, inputs = 5, 7, 11
    model = small_model("seq2seq", variant, "softmax", num_layers=1)
    graphdef, state = nnx.split(model)

    def decode(state, inputs_BM):
        model: Any = nnx.merge(graphdef, state)
        search = Search(beam=beam, alpha=0.6)
        return find_outputs(model, search, {"inputs": inputs_BM}, length)

    text = jit(decode).lower(state, jnp.ones((batch, inputs), int)).compile().as_text()
    made = results_in_loop(text)
    cache = f"f32[{batch},2,{length * beam},3]"
    memory = [f"f32[{batch},2,{a},{b}]" for a, b in ((inputs, 3), (3, inputs))]
    rows = batch * beam
    repeated = [f"f32[{rows},{a},{b},3]" for a, b in ((2, inputs), (inputs, 2))] if beam > 1 else []
    assert any(shape == cache and "update" in name for name, shape in made)  # written in place
    for name, shape in made:
        assert shape not in repeated, name
        moved = re.search("copy|transpose", name) and "update" not in name
        assert not moved or shape not in (cache, *memory), name


def results_in_loop(text: str) -> list[tuple[str, str]]:
    """(name, shape) of what the body of a compiled loop makes, the largest loop's."""
    bodies = []
    for name in re.findall(r"body=%([\w.\-]+)", text):
        body = text[text.index(f"\n%{name} (") :].partition("\n}")[0]
        bodies.append(re.findall(r"^ +(?:ROOT )?%(\S+) = (\w+\[[\d,]*\])", body, re.MULTILINE))
    return max(bodies, key=len)
