"""CNN/Daily Mail summarisation: the left half of the paper's Table 3, ROUGE F1.

Run one row, at a scale that fits the machine:

    python train.py --config=configs/cnn_dailymail.py:random+vanilla,scale=small --workdir=runs/sum
    python eval.py --workdir=runs/sum

The paper's figures (ROUGE-1 / -2 / -L):

    vanilla 38.24 / 17.10 / 35.77        random 35.47 / 14.92 / 33.10
    dense 36.05 / 15.26 / 33.70          dense+vanilla 38.57 / 16.64 / 36.02
    random+vanilla 38.57 / 16.24 / 35.95

scale=paper: transformer_base, articles cut at 512 tokens, highlights of at most 128; the paper
    gives neither N nor lengths. Not run by us; cost: 7.0 TFLOP a step (--describe).
scale=small: help_summaries (1,784 help pages with their descriptions), pages cut at 256 tokens,
    about 8 minutes of training steps on two CPU cores. Its ROUGE says nothing about news.
scale=tiny: for tests.

Sources of the numbers: comments in `common.py` (paper / T2T or T5 / ours).
"""

from configs import common


def get_config(arg: str = "") -> common.Config:
    """The config of a row, as `random+vanilla,scale=small,mix=softmax,seed=0`."""
    row = common.parse_arg(arg)
    config = common.transformer_base(row, task="cnn_dailymail", dataset="cnn_dailymail")
    # Ours: the paper does not say how long articles and summaries may be.
    config.data.update(bucket_lengths=(256, 384, 512), target_length=128)
    config.model.update(max_length=512)
    if row.scale == "paper":
        return config
    return common.shrink(
        config, row.scale, dataset="help_summaries", bucket_lengths=(128, 256), target_length=64
    )
