"""Sampling follows the model's distribution; prompts are said first, whatever the search."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from synth.decode import EOS_ID, NEGATIVE, PAD_ID, after_prompt, beam_search, candidates
from synth.decode import greedy as greedy_search
from synth.decode import sample as sample_search
from tests.test_decode import Table, _step_of, next_state, small_model, strip


# The table is an argument, so that all models of one shape share a compiled program.
@functools.partial(jax.jit, static_argnames=("max_length", "temperature", "top_k", "top_p"))
def sample(logits_SV, states_B, keys_B, max_length, **how):
    cache = {"state": states_B, "unused": jnp.zeros((len(states_B), 2))}
    return sample_search(_step_of(logits_SV), cache, keys_B, max_length, **how)


def keys(batch: int, seed: int = 0) -> jax.Array:
    return jax.random.split(jax.random.key(seed), batch)


def drawn(model: Table, batch: int, max_length: int, seed: int = 0, **how) -> np.ndarray:
    """Samples of `batch` different examples."""
    logits_SV = jnp.float32(model.logits_SV)
    return np.asarray(sample(logits_SV, jnp.arange(batch), keys(batch, seed), max_length, **how))


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """How far counts are from what is expected, in standard deviations of the statistic."""
    freedom = len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)


# --- Which tokens ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [dict(top_k=1), dict(temperature=1e-3), dict(top_p=1e-6)])
def test_narrowed_to_one_token_it_is_greedy(how):
    model = Table(7, 3, eos=1.0)
    np.testing.assert_array_equal(drawn(model, 16, 6, **how), model.greedy(16, 6))


def test_of_equal_tokens_top_1_is_the_one_that_greedy_takes():
    def step(tokens_B, index, cache):
        return jnp.tile(jnp.array([9.0, 0.0, 3.0, 3.0, 3.0]), (len(tokens_B), 1)), cache

    expected = greedy_search(step, {}, 4, 3)
    np.testing.assert_array_equal(sample_search(step, {}, keys(4), 3, top_k=1), expected)
    assert np.all(expected == 2)


@pytest.mark.parametrize(
    ("top_k", "top_p", "kept"),
    [
        (0, 0.05, [4]),
        (0, 0.5, [4]),
        (0, 0.51, [4, 2]),
        (0, 0.75, [4, 2]),
        (0, 0.7501, [4, 2, 5]),
        (0, 0.9375, [4, 2, 5, 1]),
        (0, 0.94, [4, 2, 5, 1, 3]),
        (3, 1.0, [4, 2, 5]),
        (99, 1.0, [4, 2, 5, 1, 3, 0]),
        (2, 0.66, [4]),  # of what top_k leaves, 4 holds two thirds
        (2, 0.67, [4, 2]),
    ],
)
def test_the_nucleus_is_the_smallest_set_that_holds_p(top_k, top_p, kept):
    """Probabilities 0, 1/16, 1/4, 1/16, 1/2, 1/8, exact in binary."""
    probability_V = np.array([0.0, 1 / 16, 1 / 4, 1 / 16, 1 / 2, 1 / 8])
    with np.errstate(divide="ignore"):
        logits_V = np.maximum(np.log(probability_V), NEGATIVE)
    logits_BC, tokens_BC = candidates(jnp.float32(logits_V)[None], top_k, top_p)
    left = logits_BC[0] > (NEGATIVE / 2 if top_p < 1.0 else -np.inf)
    assert tokens_BC[0][left].tolist() == kept


def test_nuclei_of_random_distributions_are_minimal(rng):
    logits_BV = jnp.float32(2.0 * rng.normal(size=(50, 40)))
    probability_BV = np.asarray(jax.nn.softmax(logits_BV), np.float64)
    for p in (0.3, 0.9, 0.99):
        logits_BC, tokens_BC = candidates(logits_BV, 0, p)
        for b in range(50):
            kept = np.asarray(tokens_BC[b])[np.asarray(logits_BC[b]) > NEGATIVE / 2]
            mass = np.sort(probability_BV[b, kept])
            assert mass.sum() >= p - 1e-5 and mass[1:].sum() < p + 1e-5
            others = np.delete(probability_BV[b], kept)
            assert others.max() <= mass.min()


# --- How often ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "exponent", "kept"),
    [
        ({}, 1.0, 5),
        (dict(temperature=2.0), 0.5, 5),
        (dict(temperature=0.5), 2.0, 5),
        (dict(top_k=3), 1.0, 3),
        (dict(top_p=0.8), 1.0, None),
    ],
)
def test_frequencies_are_the_probabilities(how, exponent, kept):
    """8,000 draws of one token from one distribution: padding has none of it."""
    model = Table(6, 11)
    draws = 8000
    logits_SV = jnp.float32(model.logits_SV)
    found = sample(logits_SV, jnp.zeros(draws, jnp.int32), keys(draws), 1, **how)[:, 0]
    probability_V = np.exp(model.logp_V(int(next_state(0, 0, 0)))) ** exponent
    order = np.argsort(-probability_V)
    if kept is None:
        kept = 1 + int(np.searchsorted(np.cumsum(probability_V[order]), how["top_p"]))
        assert 1 < kept < 5
    counts = np.bincount(found, minlength=6)[order]
    assert counts[kept:].sum() == 0
    expected = probability_V[order][:kept] / probability_V[order][:kept].sum() * draws
    assert chi_square(counts[:kept], expected) < 5


def test_frequencies_of_whole_hypotheses_are_their_probabilities():
    """All outputs of at most two tokens, by the model's own score."""
    model = Table(4, 5)
    draws = 8000
    logits_SV = jnp.float32(model.logits_SV)
    rows = np.asarray(sample(logits_SV, jnp.zeros(draws, jnp.int32), keys(draws, 1), 2))
    words = [EOS_ID, 2, 3]
    outputs = [(EOS_ID,), *((a, b) for a, b in itertools.product(words, words) if a != EOS_ID)]
    found = [strip(row) for row in rows]
    counts = np.array([found.count(tokens) for tokens in outputs])
    assert counts.sum() == draws
    logp = np.array([model.score(0, tokens, 0.0) for tokens in outputs])
    assert chi_square(counts, draws * np.exp(logp)) < 5


# --- Ends, keys, batches --------------------------------------------------------------------------


def test_a_row_ends_with_eos_or_at_the_limit():
    rows = [strip(row) for row in drawn(Table(5, 2, eos=0.5), 64, 6)]  # padding after EOS only
    ends = [row[-1] == EOS_ID for row in rows]
    assert any(ends) and not all(ends)
    assert all(len(row) == 6 for row, end in zip(rows, ends, strict=True) if not end)


def test_a_row_depends_on_its_key_alone():
    """Alone, among others, in another order: the same tokens; with another key, others."""
    logits_SV = jnp.float32(Table(9, 4, eos=-1.0).logits_SV)
    states_B, keys_B = jnp.arange(8), keys(8)
    for how in ({}, dict(top_k=4, top_p=0.9)):
        all_BT = np.asarray(sample(logits_SV, states_B, keys_B, 7, **how))
        again = sample(logits_SV, states_B[::-1], keys_B[::-1], 7, **how)
        np.testing.assert_array_equal(again[::-1], all_BT)
        for b in (0, 5):
            alone = sample(logits_SV, states_B[b : b + 1], keys_B[b : b + 1], 7, **how)
            np.testing.assert_array_equal(alone[0], all_BT[b])
        other = sample(logits_SV, states_B, keys(8, seed=1), 7, **how)
        assert np.any(np.asarray(other) != all_BT)


# --- Prompts --------------------------------------------------------------------------------------

PROMPTS = [[], [3], [2, 4, 3], [4, 4, 2, 2, 3]]


def search(kind: str, step, cache, batch: int):
    """Tokens of one of the three searches; the cache has three rows per example for a beam."""
    if kind == "beam":
        return beam_search(step, cache, batch, beam=3, alpha=0.6, max_length=8)[0]
    if kind == "greedy":
        return greedy_search(step, cache, batch, 8)
    return sample_search(step, cache, keys(4)[:batch], 8)


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_a_prompt_comes_first_and_then_what_follows_it(kind):
    """Rows of several lengths, side by side and alone; after it the model is asked as ever."""
    model = Table(6, 8)
    step = _step_of(jnp.float32(model.logits_SV))
    width = 3 if kind == "beam" else 1
    prompts_BP = np.array([prompt + [0] * (5 - len(prompt)) for prompt in PROMPTS])
    together = search(
        kind, after_prompt(step, jnp.repeat(prompts_BP, width, 0)), model.cache(4, width), 4
    )
    for b, prompt in enumerate(PROMPTS):
        tokens = strip(together[b])
        assert list(tokens[: len(prompt)]) == prompt and len(tokens) > len(prompt)
        if kind == "greedy":
            state, last = b, PAD_ID
            for index, token in enumerate(tokens):
                state = next_state(state, last, index)
                assert index < len(prompt) or token == model.logp_V(state).argmax()
                last = token
    if kind != "sample":  # its keys are by row
        cache = jax.tree.map(lambda rows: rows[2 * width : 3 * width], model.cache(4, width))
        own = jnp.repeat(prompts_BP[2:3, :3], width, 0)
        alone = search(kind, after_prompt(step, own), cache, 1)
        assert strip(alone[0]) == strip(together[2])


def test_a_beam_after_a_prompt_finds_the_best_continuation():
    """A wide beam equals exhaustive search of what may follow."""
    model = Table(4, 6, scale=1.5)
    step = _step_of(jnp.float32(model.logits_SV))
    prompt = (3, 2)
    prompts_BP = jnp.tile(jnp.array([prompt]), (9, 1))
    tokens_BT, score_B = beam_search(
        after_prompt(step, prompts_BP), model.cache(1, 9), 1, beam=9, alpha=0.0, max_length=5
    )
    endings = [
        (*middle, EOS_ID) for n in range(3) for middle in itertools.product((2, 3), repeat=n)
    ]
    given = model.score(0, prompt, 0.0)
    scores = {end: model.score(0, (*prompt, *end), 0.0) - given for end in endings}
    best = max(scores, key=lambda end: scores[end])
    assert strip(tokens_BT[0]) == prompt + best
    assert float(score_B[0]) == pytest.approx(scores[best], rel=1e-5)


def test_a_language_model_goes_on_as_its_full_pass_says():
    model = small_model("language_model", "random+vanilla", "softmax", num_layers=1)
    prompts_BP = jnp.array([[3, 4, 5, 0], [7, 0, 0, 0]])
    memory, cache = model.start(2, 1, 9)
    step = after_prompt(
        lambda tokens, index, cache: model.step(tokens, index, memory, cache), prompts_BP
    )
    tokens_BT = np.asarray(greedy_search(step, cache, 2, 9))
    logits_BLV = np.array(model({"targets": jnp.asarray(tokens_BT)}))
    logits_BLV[..., PAD_ID] = -np.inf
    for b, size in enumerate((3, 1)):
        length = len(strip(tokens_BT[b]))
        assert tokens_BT[b, :size].tolist() == prompts_BP[b, :size].tolist()
        np.testing.assert_array_equal(
            logits_BLV[b, size:length].argmax(-1), tokens_BT[b, size:length]
        )
