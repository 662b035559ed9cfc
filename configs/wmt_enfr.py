"""WMT'14 English-French translation: the paper's Table 2, BLEU on newstest2014.

Run one row, at a scale that fits the machine:

    python train.py --config=configs/wmt_enfr.py:random+vanilla,scale=small --workdir=runs/enfr
    python eval.py --workdir=runs/enfr

The paper's figures (BLEU; parameters as for English-German):

    vanilla 41.57           random 41.12        dense 41.39
    fixed_random 38.31      random+dense 41.21  dense+vanilla 41.38
    factorized_random 41.12 factorized_dense 41.57
    random+vanilla 41.85

scale=paper: transformer_base, 300,000 steps of 32,768 tokens on wmt14_translate/fr-en (validation
    newstest2013, test newstest2014 with 3,003 lines). Not run by us; cost as English-German.
scale=small: docs_enfr (software documentation, 30,031 sentence pairs), 2 + 2 layers of width 128,
    about 4 minutes on two CPU cores. Its BLEU says nothing about newstest.
scale=tiny: for tests.

Sources of the numbers: comments in `common.py` (paper / T2T default / ours).
"""

from configs import common


def get_config(arg: str = "") -> common.Config:
    """The config of a row, as `random+vanilla,scale=small,mix=softmax,seed=0`."""
    row = common.parse_arg(arg)
    config = common.transformer_base(row, task="wmt_enfr", dataset="wmt14_translate")
    if row.scale == "paper":
        return config
    return common.shrink(config, row.scale, dataset="docs_enfr")
