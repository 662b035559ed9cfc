"""Greedy search, sampling and beam search over one interface: a step function and a cache.

    step(tokens_B, index, cache) -> (logits_BV, cache)

reads the token at position index - 1 (0 at the start) and predicts the one at `index`. Shapes are
static and the loop runs on the device; it stops as soon as every hypothesis is settled. Besides the
letters of `synth.attention`: W is the beam width, T the number of steps, C a number of candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from synth.attention.step import Unmoved
from synth.layers import PAD_ID

EOS_ID = 1
NEGATIVE = -1e9  # "never", small enough not to overflow when sums of it are taken

Step = Callable[[jax.Array, jax.Array, Any], tuple[jax.Array, Any]]


def greedy(step: Step, cache: Any, batch: int, max_length: int) -> jax.Array:
    """Takes the likeliest token at each step.

    Args:
      step: the step function.
      cache: its first cache, for `batch` rows.
      batch: B.
      max_length: T, at most this many tokens, EOS included.

    Returns:
      int32 tokens_BT; after EOS there is only padding (0).
    """

    def likeliest(logits_BV, index):
        del index
        return jnp.argmax(logits_BV, axis=-1)

    return _one_by_one(step, cache, likeliest, batch, max_length)


def sample(
    step: Step,
    cache: Any,
    keys_B: jax.Array,
    max_length: int,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> jax.Array:
    """Draws each token from the model's distribution, or from the likeliest part of it.

    A row depends on its own key alone, never on the rows beside it: the token at `index` is drawn
    with the row's key folded by `index`.

    Args:
      step, cache, max_length: as of `greedy`.
      keys_B: a random key (`jax.random.key`) for each row.
      temperature: divides the logits, above 0 and at most 100; towards 0 this becomes `greedy`.
      top_k: only the k likeliest tokens, 0 = all.
      top_p: only the fewest tokens that hold at least this much of the probability that
        temperature and top_k leave (nucleus; Holtzman et al., 2020); 1 = all.

    Returns:
      int32 tokens_BT; after EOS there is only padding (0).
    """

    def draw(logits_BV, index):
        now_B = jax.vmap(jax.random.fold_in, (0, None))(keys_B, index)
        scaled_BV = (logits_BV - jnp.max(logits_BV, axis=-1, keepdims=True)) / temperature
        if not top_k and top_p >= 1.0:  # sorting the vocabulary would cost more than the model
            return jax.vmap(jax.random.categorical)(now_B, scaled_BV)
        logits_BC, tokens_BC = candidates(scaled_BV, top_k, top_p)
        drawn_B = jax.vmap(jax.random.categorical)(now_B, logits_BC)
        return jnp.take_along_axis(tokens_BC, drawn_B[:, None], axis=1)[:, 0]

    return _one_by_one(step, cache, draw, keys_B.shape[0], max_length)


def candidates(logits_BV: jax.Array, top_k: int, top_p: float) -> tuple[jax.Array, jax.Array]:
    """The tokens that `sample` may draw, likeliest first: (logits_BC, tokens_BC).

    Of equal ones the lower token comes first, as `argmax` has it. Logits of the tokens beyond
    the nucleus are NEGATIVE. Mass within 1e-6 of `top_p` reaches it: sums of float32 are no
    closer than that.
    """
    vocab_size = logits_BV.shape[-1]
    logits_BC, tokens_BC = jax.lax.top_k(logits_BV, min(top_k or vocab_size, vocab_size))
    if top_p >= 1.0:
        return logits_BC, tokens_BC
    mass_BC = jnp.cumsum(jax.nn.softmax(logits_BC), axis=-1)
    before_BC = jnp.pad(mass_BC[:, :-1], ((0, 0), (1, 0)))  # 0 for the first: it always stays
    return jnp.where(before_BC < top_p * (1.0 - 1e-6), logits_BC, NEGATIVE), tokens_BC


def after_prompt(step: Step, prompts_BP: jax.Array) -> Step:
    """The step function that says a prompt first, whatever the model would: for any search.

    Rows may have prompts of different lengths, padded with 0 on the right: each goes on from the
    end of its own. A prompt's tokens have the log-probability 0. They take part of the search's T
    tokens, and its length penalty counts them.
    """
    longest = prompts_BP.shape[1]

    def prompted(tokens_B, index, cache):
        logits_BV, cache = step(tokens_B, index, cache)
        here_B = jax.lax.dynamic_index_in_dim(prompts_BP, index, axis=1, keepdims=False)
        here_B = jnp.where(index < longest, here_B, PAD_ID)
        only_BV = jnp.where(jnp.arange(logits_BV.shape[-1]) == here_B[:, None], 0.0, NEGATIVE)
        return jnp.where((here_B != PAD_ID)[:, None], only_BV, logits_BV), cache

    return prompted


def _one_by_one(step: Step, cache: Any, choose, batch: int, max_length: int) -> jax.Array:
    """tokens_BT, each the one that `choose(logits_BV, index)` takes, until all rows have ended."""

    def body(carry):
        index, tokens_BT, last_B, done_B, cache = carry
        logits_BV, cache = step(last_B, index, cache)
        next_B = choose(forbid_padding(logits_BV), index).astype(jnp.int32)
        next_B = jnp.where(done_B, PAD_ID, next_B)
        tokens_BT = jax.lax.dynamic_update_slice_in_dim(tokens_BT, next_B[:, None], index, axis=1)
        return index + 1, tokens_BT, next_B, done_B | (next_B == EOS_ID), cache

    def unfinished(carry):
        index, _, _, done_B, _ = carry
        return (index < max_length) & ~jnp.all(done_B)

    start = (
        jnp.int32(0),
        jnp.zeros((batch, max_length), jnp.int32),
        jnp.zeros(batch, jnp.int32),
        jnp.zeros(batch, bool),
        cache,
    )
    return jax.lax.while_loop(unfinished, body, start)[1]


def forbid_padding(logits_BV: jax.Array) -> jax.Array:
    """Padding is no token: a hypothesis that 'says' it could not be told from a shorter one."""
    return logits_BV.at[:, PAD_ID].set(NEGATIVE)


class Beams(NamedTuple):
    """State of the search. `live` hypotheses have no EOS yet; `done` ones have."""

    index: jax.Array
    live_tokens_BWT: jax.Array
    live_logp_BW: jax.Array  # sum of log-probabilities, descending
    done_tokens_BWT: jax.Array
    done_score_BW: jax.Array  # log-probability over length penalty, descending; NEGATIVE = empty
    cache: Any


def length_penalty(length, alpha: float):
    """((5 + length) / 6)^alpha (Wu et al., 2016, equation 14)."""
    return ((5.0 + length) / 6.0) ** alpha


def beam_search(
    step: Step, cache: Any, batch: int, *, beam: int, alpha: float, max_length: int
) -> tuple[jax.Array, jax.Array]:
    """Beam search with Wu et al.'s length penalty, as T2T does it.

    For a beam of 1 use `greedy`, as T2T does: this search would also weigh the ends that it passes
    by on its way.

    2 W candidates are kept at each step, so that W of them go on although W others end. The search
    of an example is over when no live hypothesis can beat its best finished one. A hypothesis cut
    off at T tokens counts only where no finished one was found.

    Args:
      step: the step function, over rows [B W] (hypotheses of an example side by side).
      cache: its first cache; every array has the leading axis B W, but for `Unmoved` ones.
      batch: B.
      beam: W.
      alpha: exponent of the length penalty, at least 0; 0 compares sums of log-probabilities.
      max_length: T, at most this many tokens, EOS included.

    Returns:
      The best hypothesis of each example: (tokens_BT int32, padded after EOS; score_B float32, its
      log-probability over its length penalty).
    """
    beams = jax.lax.while_loop(
        lambda beams: _unfinished(beams, alpha, max_length),
        lambda beams: _advance(step, beams, beam, alpha),
        _first_beams(cache, batch, beam, max_length),
    )
    none_done_B = beams.done_score_BW[:, 0] <= NEGATIVE / 2
    live_score_B = beams.live_logp_BW[:, 0] / length_penalty(max_length, alpha)
    tokens_BT = jnp.where(
        none_done_B[:, None], beams.live_tokens_BWT[:, 0], beams.done_tokens_BWT[:, 0]
    )
    return tokens_BT, jnp.where(none_done_B, live_score_B, beams.done_score_BW[:, 0])


def _first_beams(cache, batch: int, beam: int, max_length: int) -> Beams:
    # All hypotheses of an example start equal: only the first may be extended.
    live_logp_BW = jnp.tile(jnp.array([0.0] + [NEGATIVE] * (beam - 1)), (batch, 1))
    tokens_BWT = jnp.zeros((batch, beam, max_length), jnp.int32)
    nothing_BW = jnp.full((batch, beam), NEGATIVE)
    return Beams(jnp.int32(0), tokens_BWT, live_logp_BW, tokens_BWT, nothing_BW, cache)


def _unfinished(beams: Beams, alpha: float, max_length: int) -> jax.Array:
    """Whether some live hypothesis could still beat the best finished one of its example.

    A log-probability only falls while the penalty grows at most to that of T, so the best score a
    live hypothesis can reach is its present sum over the largest penalty.
    """
    best_live_B = beams.live_logp_BW[:, 0] / length_penalty(max_length, alpha)
    settled = jnp.all(best_live_B <= beams.done_score_BW[:, 0])
    return (beams.index < max_length) & ~settled


def _advance(step: Step, beams: Beams, beam: int, alpha: float) -> Beams:
    index = beams.index
    batch, _, max_length = beams.live_tokens_BWT.shape
    last_BW = jnp.where(index > 0, beams.live_tokens_BWT[:, :, index - 1], PAD_ID)
    logits, cache = step(last_BW.reshape(-1), index, beams.cache)
    logp_BWV = jax.nn.log_softmax(forbid_padding(logits)).reshape(batch, beam, -1)
    vocab_size = logp_BWV.shape[-1]

    # The 2 W best continuations of each example: at most W of them end here.
    total = (beams.live_logp_BW[..., None] + logp_BWV).reshape(batch, -1)
    top_logp_BC, flat_BC = jax.lax.top_k(total, 2 * beam)
    from_BC, token_BC = flat_BC // vocab_size, (flat_BC % vocab_size).astype(jnp.int32)
    tokens_BCT = jnp.take_along_axis(beams.live_tokens_BWT, from_BC[..., None], axis=1)
    at_index_T = jnp.arange(max_length) == index
    tokens_BCT = jnp.where(at_index_T, token_BC[..., None], tokens_BCT)
    ends_BC = (token_BC == EOS_ID) & (top_logp_BC > NEGATIVE / 2)  # a dead beam ends nothing

    live_logp_BC = jnp.where(token_BC == EOS_ID, NEGATIVE, top_logp_BC)
    live_logp_BW, live_BW = jax.lax.top_k(live_logp_BC, beam)
    parent_BW = jnp.take_along_axis(from_BC, live_BW, axis=1)

    score_BC = jnp.where(ends_BC, top_logp_BC / length_penalty(index + 1, alpha), NEGATIVE)
    all_scores = jnp.concatenate([beams.done_score_BW, score_BC], axis=1)
    all_tokens = jnp.concatenate([beams.done_tokens_BWT, tokens_BCT], axis=1)
    done_score_BW, done_BW = jax.lax.top_k(all_scores, beam)

    return Beams(
        index=index + 1,
        live_tokens_BWT=jnp.take_along_axis(tokens_BCT, live_BW[..., None], axis=1),
        live_logp_BW=live_logp_BW,
        done_tokens_BWT=jnp.take_along_axis(all_tokens, done_BW[..., None], axis=1),
        done_score_BW=done_score_BW,
        cache=_reorder(cache, parent_BW),
    )


def _reorder(cache, parent_BW: jax.Array):
    """Gives each hypothesis the cache of the one it continues."""
    batch, beam = parent_BW.shape
    rows = (jnp.arange(batch)[:, None] * beam + parent_BW).reshape(-1)

    def move(part):
        return part if isinstance(part, Unmoved) else jnp.take(part, rows, axis=0)

    return jax.tree.map(move, cache, is_leaf=lambda part: isinstance(part, Unmoved))
