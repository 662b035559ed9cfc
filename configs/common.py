"""What all configs share: the row named after the colon, and T2T's transformer_base.

A config's sections are the keyword arguments of what they configure: `model` of
`synth.transformer.make_model`, `model.attention` of `SelfAttention`, `optimizer` of
`make_optimizer`, `data` of the pipelines in `data/`, `sharding.mesh` of `make_mesh`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ml_collections import ConfigDict

# A ConfigDict, whose leaves a type checker cannot know.
Config = Any

SCALES = ("paper", "small", "tiny")
KEYS = ("scale", "mix", "seed")


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table: which attention, at which scale, with which seed."""

    variant: str = "vanilla"
    scale: str = "paper"
    mix: str = "softmax"
    seed: int = 0


def parse_arg(arg: str) -> Row:
    """Reads `<variant>[,scale=...][,mix=...][,seed=...]`.

    Raises:
      ValueError: for an unknown key or scale, or a seed that is no number.
    """
    variant, *settings = arg.split(",") if arg else [Row.variant]
    if "=" in variant:
        raise ValueError(f"the row {arg!r} must start with a variant, as in 'random+vanilla,{arg}'")
    values: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if key not in KEYS or not equals:
            raise ValueError(f"{setting!r} in the row {arg!r} is no setting; known: {known_keys()}")
        if key in values:
            raise ValueError(f"the row {arg!r} sets {key} twice")
        values[key] = value
    if values.get("scale", "paper") not in SCALES:
        raise ValueError(f"unknown scale {values['scale']!r}; known: {', '.join(SCALES)}")
    seed = values.pop("seed", "0")
    if not seed.isdecimal():
        raise ValueError(f"seed={seed!r} in the row {arg!r} must be a number of at least 0")
    return Row(
        variant=variant,
        scale=values.get("scale", Row.scale),
        mix=values.get("mix", Row.mix),
        seed=int(seed),
    )


def known_keys() -> str:
    """The settings a row may have, for error messages."""
    return ", ".join(f"{key}=" for key in KEYS)


def transformer_base(row: Row, *, task: str, dataset: str) -> Config:
    """T2T's transformer_base (hparams set v3), with the row's attention; the paper's scale.

    The paper names T2T but gives no steps, batch, dropout or learning rate: every number here is
    T2T's default unless its comment says otherwise.
    """
    return ConfigDict(
        dict(
            seed=row.seed,
            scale=row.scale,
            data=dict(
                task=task,
                dataset=dataset,
                # Ours: 2^15 sentencepiece pieces for T2T's 33,708 subwords.
                vocab_size=32768,
                # 4,096 tokens a replica, 8 replicas: T2T's set-up for its published BLEU.
                batch_tokens=32768,
                # Ours: 9 shapes to compile, where T2T has a bucket every 10% of length.
                bucket_lengths=(16, 24, 32, 48, 64, 96, 128, 192, 256),
                # 0: inputs and targets are padded to one length, by the longer side. Tasks of long
                # inputs and short targets give the length of all targets.
                target_length=0,
                # Rows of a batch are a multiple of this, so that they split over devices.
                batch_multiple=32,
                # Ours: examples that are shuffled, sorted by length and cut into batches at once.
                window=65536,
                # Where prepared data sets and vocabularies are kept.
                data_dir="cache/data",
            ),
            model=dict(
                num_layers=6,
                model_dim=512,
                num_heads=8,
                head_dim=64,
                ff_dim=2048,
                # N, the size of R. The paper's own parameter counts fix it at 256, T2T's default.
                max_length=256,
                attention=dict(
                    variant=row.variant,
                    mix=row.mix,
                    # The paper: k = 8 "in practice".
                    rank=8,
                    random_initializer="normal",
                    # Ours: the released code starts near uniform attention (a Glorot limit of
                    # 0.005 by its choice of axes); so do we, with room to break the symmetry.
                    random_scale=0.02,
                    # Ours: a fixed R must start with the contrast it will keep. The paper gives no
                    # scale; the first released version drew its factors from N(0, 1).
                    fixed_random_scale=1.0,
                ),
                residual_dropout=0.1,
                attention_dropout=0.1,
                relu_dropout=0.1,
                dtype="bfloat16",
                # The backward pass computes each block again instead of keeping what is inside it:
                # the same numbers, less memory, a third more operations.
                remat=False,
            ),
            optimizer=dict(learning_rate=2.0, warmup_steps=8000, b1=0.9, b2=0.997, eps=1e-9),
            train=dict(
                # T2T's README: about 28 BLEU at 300K steps.
                num_steps=300_000,
                # A run whose parameters and vocabulary this one starts from, as fine-tuning does.
                init_from="",
                label_smoothing=0.1,
                # Ours: tokens whose logits exist at a time on a device, here 1 GB; 0 = all.
                loss_tokens=8192,
                accumulate_steps=1,
                log_every=100,
                eval_every=5000,
                checkpoint_every=5000,
                keep_checkpoints=3,
            ),
            decode=dict(
                beam=4,
                alpha=0.6,
                # Vaswani et al.: the source's length + 50. Ours counts from its bucket's length.
                extra_length=50,
                # The most; fewer where a device has no memory for them.
                batch_tokens=16384,
            ),
            sharding=dict(
                mesh=dict(data=-1, fsdp=1, tensor=1),
                # Logical axis -> mesh axis; '' leaves it whole.
                rules=dict(embed="fsdp", heads="tensor", mlp="tensor", vocab="tensor"),
            ),
        )
    )


def t5_base(row: Row, *, task: str, dataset: str) -> Config:
    """T5-base with the steps of the paper's C4 runs, from which its GLUE runs start.

    Heads are 8 x 128, as the released configs leave them in synthesized layers (T5: 12 x 64, which
    they keep in cross-attention and in the vanilla row). With one size of heads for all, our counts
    of parameters are not the paper's: vanilla has 251M for its 223M, random 264M for 254M,
    random+vanilla 302M for 292M, dense 245M for 224M, dense+vanilla 283M for 243M. Different, too:
    our blocks are T2T's (layer norm with bias, sinusoid positions; T5: RMS norm, learned or
    relative positions), the optimizer is Adam with T2T's schedule (T5: Adafactor, 1 / sqrt(step)).
    """
    config = transformer_base(row, task=task, dataset=dataset)
    config.data.update(
        # T5's 32,000 pieces, 100 sentinels and padding to a multiple of 128.
        vocab_size=32128,
        # T5: 65,536 tokens a step.
        batch_tokens=65536,
        bucket_lengths=(512,),
        window=8192,
    )
    config.model.update(
        num_layers=12,
        model_dim=768,
        num_heads=8,
        head_dim=128,
        ff_dim=3072,
        max_length=512,
        # T5 trains on C4 without dropout.
        residual_dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
    )
    config.optimizer.update(warmup_steps=10_000)
    # The paper: about 524 thousand steps.
    config.train.update(num_steps=524_288, label_smoothing=0.0)
    return config


def t5_fine_tuning(row: Row, *, task: str, dataset: str) -> Config:
    """`t5_base` with the short targets, the dropout and the steps of T5's fine-tuning.

    The learning rate keeps the schedule of `t5_base` (T5 and its followers: a constant).
    """
    config = t5_base(row, task=task, dataset=dataset)
    config.data.update(
        bucket_lengths=(64, 128, 256, 512),
        # Ours: the longest targets are the entities of ReCoRD.
        target_length=64,
        window=65536,
    )
    config.model.update(residual_dropout=0.1, attention_dropout=0.1, relu_dropout=0.1)
    config.train.update(num_steps=262_144)
    return config


def shrink(
    config: Config,
    scale: str,
    *,
    dataset: str,
    bucket_lengths: tuple[int, ...] = (24, 44, 96),
    target_length: int = 0,
) -> Config:
    """Changes `config` to the embedded text and a model that fits it; every number is ours.

    `small` learns in minutes on two CPU cores; `tiny` serves tests, and learns next to nothing.
    """
    config.data.update(dataset=dataset, batch_multiple=8, window=16384)
    config.model.update(dtype="float32")
    if scale == "small":
        # Few shapes to compile; of the pairs of docs_ende 0.5% are longer than 96 tokens.
        longest = bucket_lengths[-1]
        config.data.update(
            vocab_size=2000,
            bucket_lengths=bucket_lengths,
            target_length=target_length,
            batch_tokens=max(1024, 8 * longest),
        )
        config.model.update(
            num_layers=2,
            model_dim=128,
            num_heads=4,
            head_dim=32,
            ff_dim=512,
            max_length=longest,
            # Hardly one pass over the text: there is nothing to overfit.
            residual_dropout=0.0,
            attention_dropout=0.0,
            relu_dropout=0.0,
        )
        config.optimizer.update(learning_rate=1.0, warmup_steps=200)
        config.train.update(num_steps=1200, log_every=20, eval_every=300, checkpoint_every=300)
        config.decode.update(batch_tokens=4096, extra_length=20)
    else:
        config.data.update(
            vocab_size=600,
            bucket_lengths=(64,),
            target_length=min(target_length, 48),
            batch_tokens=512,
        )
        config.model.update(
            num_layers=1, model_dim=16, num_heads=2, head_dim=8, ff_dim=32, max_length=64
        )
        config.optimizer.update(warmup_steps=10)
        config.train.update(num_steps=20, log_every=5, eval_every=10, checkpoint_every=10)
        config.decode.update(batch_tokens=2048, extra_length=8)
    return config
