"""WMT'14 English-German translation: the paper's Table 2, BLEU on newstest2014.

Run one row, at a scale that fits the machine:

    python train.py --config=configs/wmt_ende.py:random+vanilla,scale=small --workdir=runs/ende
    python eval.py --workdir=runs/ende

The paper's figures (BLEU, and parameters of its models):

    vanilla 27.67 (68M)           random 27.27 (67M)        dense 27.43 (62M)
    fixed_random 23.89 (61M)      random+dense 27.68 (67M)  dense+vanilla 27.57 (74M)
    factorized_random 27.30 (61M) factorized_dense 27.32 (61M)
    random+vanilla 28.47 (73M)

scale=paper: transformer_base, 300,000 steps of 32,768 tokens on wmt_t2t_translate/de-en (T2T's
    training text; validation newstest2013, test newstest2014 with 3,003 lines). Not run by us.
    Expected cost: 13 TFLOP a step (--describe), 4e18 for the run: about a day on one accelerator
    that sustains 50 TFLOP/s.
scale=small: docs_ende (software documentation, 32,667 sentence pairs), 2 + 2 layers of width 128,
    about 4 minutes on two CPU cores. Its BLEU says nothing about newstest.
scale=tiny: for tests.

Sources of the numbers: comments in `common.py` (paper / T2T default / ours).
"""

from configs import common


def get_config(arg: str = "") -> common.Config:
    """The config of a row, as `random+vanilla,scale=small,mix=softmax,seed=0`."""
    row = common.parse_arg(arg)
    config = common.transformer_base(row, task="wmt_ende", dataset="wmt_t2t_translate")
    if row.scale == "paper":
        return config
    return common.shrink(config, row.scale, dataset="docs_ende")
