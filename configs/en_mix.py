"""GLUE and SuperGLUE trained together, as the captions of the paper's Tables 5 and 6 say.

Run one row, at a scale that fits the machine:

    python train.py --config=configs/en_mix.py:random+vanilla,mix=sum,scale=small --workdir=runs/e
    python eval.py --workdir=runs/e

The paper's figures (averages of GLUE / SuperGLUE):

    vanilla 83.5 / 70.3         random 75.1 / 61.1         dense 72.0 / 58.5
    dense+vanilla 82.6 / 69.7   random+vanilla 84.1 / 72.2

scale=paper: T5-base with 8 x 128 heads, 262,144 steps on the mixture of all sixteen tasks, each
    by its size. The paper starts from its C4 run of the same row: --config.train.init_from=RUN
    takes the parameters and the vocabulary of that run. The captions say a small model, the row's
    name T5 (Base). Not run by us; cost: 57 TFLOP a step (--describe).
scale=small: movie_sentiment and wordnet_wic together, about 1 to 2 minutes of training steps on
    two CPU cores, from scratch. Its accuracy says nothing about GLUE or SuperGLUE.
scale=tiny: for tests.

Sources of the numbers: comments in `common.py` (paper / T2T or T5 / ours).
"""

from configs import common


def get_config(arg: str = "") -> common.Config:
    """The config of a row, as `random+vanilla,scale=small,mix=sum,seed=0`."""
    row = common.parse_arg(arg)
    config = common.t5_fine_tuning(row, task="en_mix", dataset="en_mix")
    if row.scale == "paper":
        return config
    return common.shrink(config, row.scale, dataset="sentiment_and_wic", target_length=12)
