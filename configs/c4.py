"""C4 masked language modelling: the paper's Table 4, log perplexity of the hidden spans.

Run one row, at a scale that fits the machine:

    python train.py --config=configs/c4.py:random+vanilla,mix=sum,scale=small --workdir=runs/c4
    python eval.py --workdir=runs/c4

The paper's figures (log perplexity; its mixtures are plain sums, mix=sum):

    vanilla 1.865          random 1.972          dense 1.965
    random+vanilla 1.849   dense+vanilla 1.832

scale=paper: T5-base with 8 x 128 heads, 524,288 steps of 65,536 tokens; spans of 3 tokens, 15% of
    the text, are hidden (T5). Not run by us; cost: 63 TFLOP a step (--describe).
scale=small: web_lm (a public-domain Bible) as running text, about 2 minutes of training steps on
    two CPU cores. Its perplexity says nothing about C4.
scale=tiny: for tests.

Sources of the numbers: comments in `common.py` (paper / T2T or T5 / ours).
"""

from configs import common


def get_config(arg: str = "") -> common.Config:
    """The config of a row, as `random+vanilla,scale=small,mix=sum,seed=0`."""
    row = common.parse_arg(arg)
    config = common.t5_base(row, task="c4", dataset="c4")
    if row.scale == "paper":
        return config
    return common.shrink(config, row.scale, dataset="web_lm", bucket_lengths=(96,))
