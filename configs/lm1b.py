"""One Billion Words language modelling: the paper's Table 2, perplexity.

Run one row, at a scale that fits the machine:

    python train.py --config=configs/lm1b.py:dense+vanilla,scale=small --workdir=runs/lm
    python eval.py --workdir=runs/lm

The paper's figures (perplexity, and parameters of its models; it does not say whether they are per
word or per subword, so we print both):

    vanilla 38.21 (70M)           random 40.60 (58M)        dense 40.88 (53M)
    fixed_random 50.52 (53M)      random+dense 42.35 (58M)  dense+vanilla 37.27 (70M)
    factorized_random 42.40 (53M) factorized_dense 41.20 (53M)
    random+vanilla 40.05 (70M)

scale=paper: transformer_base as a decoder of 6 layers (T2T's README suggests it; the paper's
    parameter column fits no such model, so its sizes are unknown), 300,000 steps of 32,768 tokens
    in packed rows of 256 on lm1b. Not run by us; cost: about 7.3 TFLOP a step (--describe), half of
    English-German.
scale=small: web_lm (45,180 sentences of public-domain prose), 2 layers of width 128, about 4
    minutes on two CPU cores. Its perplexity says nothing about LM1B.
scale=tiny: for tests.

Sources of the numbers: comments in `common.py` (paper / T2T default / ours).
"""

from configs import common


def get_config(arg: str = "") -> common.Config:
    """The config of a row, as `random+vanilla,scale=small,mix=softmax,seed=0`."""
    row = common.parse_arg(arg)
    config = common.transformer_base(row, task="lm1b", dataset="lm1b")
    if row.scale == "paper":
        return config
    config = common.shrink(config, row.scale, dataset="web_lm")
    # T2T keeps its label smoothing of 0.1 for language models, which costs perplexity.
    config.train.label_smoothing = 0.0
    return config
