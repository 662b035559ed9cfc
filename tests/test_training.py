"""A step weighs every token the same, the log says what happened, and NaN never reaches a disk."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from synth import training
from synth.checkpoints import Checkpoints
from synth.errors import UserError
from synth.experiment import Experiment, make_experiment
from synth.rundir import RunDir
from synth.sharding import to_devices
from synth.steps import make_nll_step, make_train_step, microbatches

NO_DROPOUT = {
    "model.residual_dropout": 0.0,
    "model.attention_dropout": 0.0,
    "model.relu_dropout": 0.0,
}
# With T2T's eps of 1e-9, Adam turns rounding errors of a gradient near 0 into whole steps.
SMOOTH_ADAM = {"optimizer.eps": 1e-3}


def some_batches(count: int, rows: int, kind: str, length: int = 16) -> list[dict[str, Any]]:
    """Batches whose rows have very different lengths: those of one microbatch are short."""
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(count):
        tokens_BL = rng.integers(3, 600, (rows, length), dtype=np.int32)
        length_B = np.where(np.arange(rows) % 4 == 0, 2, rng.integers(10, length + 1, rows))
        real_BL = np.arange(length) < length_B[:, None]
        batch = {"targets": np.where(real_BL, tokens_BL, 0)}
        if kind == "seq2seq":
            batch["inputs"] = np.where(real_BL, tokens_BL[::-1], 0)
        else:
            batch["segments"] = real_BL.astype(np.int32)
            batch["positions"] = np.where(real_BL, np.arange(length, dtype=np.int32), 0)
        batches.append(batch)
    return batches


def params_after(experiment: Experiment, batches: list[dict[str, Any]]):
    """(parameters, sums) after a step on each batch."""
    step, state = make_train_step(experiment), experiment.init_state()
    for batch in batches:
        state = step(state, to_devices(batch, experiment.mesh))
    return jax.device_get((state.params, state.sums))


def assert_close(found, expected, tolerance: float) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# --- One step -------------------------------------------------------------------------------------


def test_microbatches_change_nothing(tiny):
    """Whatever their number, though one of four holds a fifth of the others' tokens."""
    batches = some_batches(3, 32, "language_model")
    micro = microbatches({"targets": jnp.asarray(batches[0]["targets"])}, 4)["targets"]
    tokens = [int((part > 0).sum()) for part in micro]
    assert max(tokens) > 4 * min(tokens)

    found = {}
    for count in (1, 2, 4):
        changes = {"train.accumulate_steps": count, "data.batch_multiple": 32}
        changes |= {"data.batch_tokens": 2048, "train.label_smoothing": 0.1}
        info = tiny("lm1b:random", changes | NO_DROPOUT | SMOOTH_ADAM)
        found[count] = params_after(make_experiment(info.config), batches)
    assert_close(found[2], found[1], 2e-5)
    assert_close(found[4], found[1], 2e-5)


def test_microbatches_are_all_rows_once_spread_over_the_devices():
    rows_B = jnp.arange(24).reshape(12, 2)
    parts = microbatches({"targets": rows_B}, 3)["targets"]
    assert parts.shape == (3, 4, 2)
    assert sorted(np.asarray(parts).reshape(-1).tolist()) == list(range(24))
    # Of the rows that a device holds (here: 3 of 12 on each of 4), each microbatch takes one.
    for part in np.asarray(parts)[..., 0]:
        assert [int(row) // 6 for row in part] == [0, 1, 2, 3]


def test_one_update_is_adam_on_the_mean_over_tokens(tiny):
    """Recomputed in float64 from the gradient of the mean token loss."""
    info = tiny("lm1b:random", NO_DROPOUT | SMOOTH_ADAM)
    experiment = make_experiment(info.config)
    (batch,) = some_batches(1, 8, "language_model")
    state = experiment.init_state()
    params, fixed = state.params, state.fixed

    def mean_loss(params):
        logits = experiment.model(params, fixed)(batch)
        logp_BLV = jax.nn.log_softmax(logits)
        nll_BL = -jnp.take_along_axis(logp_BLV, batch["targets"][..., None], -1)[..., 0]
        real_BL = batch["targets"] > 0
        return (nll_BL * real_BL).sum() / real_BL.sum()

    gradient = jax.jit(jax.grad(mean_loss))(params)
    settings = info.config.optimizer
    # t = 1: both corrected moments are the gradient's own.
    rate = settings.learning_rate / settings.warmup_steps * settings.warmup_steps**-0.5 * 16**-0.5

    def updated(value, grad):
        grad = np.asarray(grad, np.float64)
        return np.asarray(value, np.float64) - rate * grad / (np.abs(grad) + settings.eps)

    expected = jax.tree.map(updated, params, gradient)
    found, sums = params_after(experiment, [batch])
    assert_close(found, expected, 1e-5)
    norm = math.sqrt(sum(float((np.asarray(g) ** 2).sum()) for g in jax.tree.leaves(gradient)))
    assert math.isclose(sums["grad_norm"], norm, rel_tol=1e-4)


# --- The log --------------------------------------------------------------------------------------


def schedule(steps: int, log: int, evaluate: int, save: int) -> dict[str, Any]:
    return {
        "train.num_steps": steps,
        "train.log_every": log,
        "train.eval_every": evaluate,
        "train.checkpoint_every": save,
    }


def test_logged_losses_are_of_tokens_not_of_batches(tiny, tmp_path, short_text, monkeypatch):
    seen: list[tuple[float, int]] = []

    def watched(experiment):
        step, nll = make_train_step(experiment), make_nll_step(experiment)

        def watched_step(state, batch):
            total = float(nll(state.params, state.fixed, batch).sum())
            seen.append((total, int((batch["targets"] > 0).sum())))
            return step(state, batch)

        return watched_step

    monkeypatch.setattr(training, "make_train_step", watched)
    info = tiny("lm1b:random", NO_DROPOUT | schedule(5, 3, 100, 100))
    run = RunDir(tmp_path / "run")
    assert training.train(info, run) == training.Outcome(5, None)

    logged = [record for record in run.read_metrics() if "train/loss" in record]
    assert [record["step"] for record in logged] == [3, 5]
    assert len({tokens for _, tokens in seen}) > 1
    for record, part in zip(logged, (seen[:3], seen[3:]), strict=True):
        nll, tokens = (sum(column) for column in zip(*part, strict=True))
        assert record["train/tokens"] == tokens
        assert math.isclose(record["train/loss"], nll / tokens, rel_tol=1e-5)
    # T2T's schedule at update 5 of a warm-up of 10.
    expected = 2.0 * 5 / 10 * 10**-0.5 * 16**-0.5
    assert math.isclose(logged[1]["train/learning_rate"], expected, rel_tol=1e-5)


def test_a_run_takes_the_compiler_options_of_users(tiny, tmp_path, short_text, monkeypatch):
    """Tests name a level for XLA, which leaves out the options that `compilation.jit` adds."""
    monkeypatch.delenv("XLA_FLAGS")
    steps = {"train.num_steps": 2, "train.eval_every": 2, "train.checkpoint_every": 2}
    outcome = training.train(tiny("lm1b:random", steps), RunDir(tmp_path / "run"))
    assert outcome == training.Outcome(2, None)


def test_training_learns(trained_ende):
    losses = [r["train/loss"] for r in trained_ende.read_metrics() if "train/loss" in r]
    assert losses[-1] < losses[0]
    validation = [r for r in trained_ende.read_metrics() if "validation/loss" in r]
    assert [record["step"] for record in validation] == [2, 4]
    for record in validation:
        expected = math.exp(record["validation/loss"])
        assert math.isclose(record["validation/perplexity"], expected, rel_tol=1e-9)


# --- NaN ------------------------------------------------------------------------------------------


@pytest.fixture
def poisoned(tiny, tmp_path, short_text, monkeypatch):
    """Trains with parameters that turn into NaN before a step; returns the run and the error."""

    def train(bad_step: int, changes: dict[str, Any]) -> tuple[RunDir, str]:
        def poisoned_step(experiment):
            step = make_train_step(experiment)

            def step_or_poison(state, batch):
                if int(state.step) + 1 == bad_step:
                    state.params = jax.tree.map(lambda x: x * math.nan, state.params)
                return step(state, batch)

            return step_or_poison

        monkeypatch.setattr(training, "make_train_step", poisoned_step)
        run = RunDir(tmp_path / "run")
        with pytest.raises(UserError) as caught:
            training.train(tiny("lm1b:random", changes), run)
        return run, str(caught.value)

    return train


def saved_steps(run: RunDir) -> list[int]:
    return sorted(int(path.name) for path in run.checkpoints.iterdir() if path.name.isdecimal())


def all_finite(run: RunDir, config, step: int) -> bool:
    checkpoints = Checkpoints(run.checkpoints, keep=3)
    experiment = make_experiment(config)
    restored = checkpoints.restore(
        step, experiment.abstract_state(), vocabulary=experiment.tokenizer.hash
    )
    checkpoints.close()
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(restored.state)))


@pytest.mark.parametrize("bad_step", [5, 6])
def test_nan_stops_before_it_is_saved(poisoned, tiny, bad_step):
    """Between two checkpoints, or right before one; no logging step is in between."""
    changes = schedule(20, 100, 6, 2)
    run, error = poisoned(bad_step, changes)
    assert f"not finite at step {bad_step};" in error
    assert "step 4 is kept" in error
    assert "learning_rate" in error
    assert saved_steps(run) == [2, 4]
    assert all_finite(run, tiny("lm1b:random", changes).config, 4)
    assert run.read_metrics() == []


def test_nan_before_the_first_checkpoint(poisoned):
    run, error = poisoned(2, schedule(20, 4, 10, 10))
    assert "not finite at step 2; nothing was saved yet" in error
    assert saved_steps(run) == []
    assert run.read_metrics() == []


def test_a_rate_that_explodes_never_gives_the_best_checkpoint(tiny, tmp_path, short_text):
    """The parameters are finite and absurd after step 1; their validation loss may not be."""
    changes = {"optimizer.learning_rate": 1e30} | schedule(20, 100, 1, 1)
    run = RunDir(tmp_path / "run")
    with pytest.raises(UserError, match=r"not finite at step \d"):
        training.train(tiny("lm1b:random", changes), run)
    assert all("NaN" not in line for line in run.metrics.read_text().splitlines())
    for step in saved_steps(run):
        assert all_finite(run, tiny("lm1b:random", changes).config, step)


# --- Settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"train.num_steps": 0}, "train.num_steps=0"),
        ({"train.accumulate_steps": 0}, "train.accumulate_steps=0"),
        ({"train.log_every": 0}, "train.log_every=0"),
        ({"train.keep_checkpoints": 0}, "train.keep_checkpoints=0"),
        ({"train.label_smoothing": 1.0}, "train.label_smoothing=1.0"),
        ({"optimizer.warmup_steps": 0}, "warmup_steps=0"),
        ({"model.num_heads": 0}, "num_heads=0"),
        ({"model.relu_dropout": 1.0}, "relu_dropout=1.0"),
        ({"model.attention.random_initializer": "cauchy"}, "cauchy"),
        ({"data.batch_tokens": 8}, "batch_tokens=8"),
        ({"data.bucket_lengths": (32,)}, "bucket_lengths"),
        ({"data.dataset": "web"}, "'web'.*web_lm"),
        ({"train.accumulate_steps": 3}, "batch_multiple=8 .*accumulate_steps .3."),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_written(
    tiny, tmp_path, changes, told
):
    run = RunDir(tmp_path / "run")
    with pytest.raises(ValueError, match=told):
        training.train(tiny("lm1b:random", changes), run)
    assert not run.path.exists()
