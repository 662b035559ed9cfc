"""GLUE as text to text: the paper's Table 5, scores on the development sets.

Run one row, at a scale that fits the machine:

    python train.py --config=configs/glue.py:dense+vanilla,mix=sum,scale=small --workdir=runs/g
    python eval.py --workdir=runs/g

The paper's figures (average of the eight tasks; all cells are in results/paper.json; captions say
that GLUE and SuperGLUE were trained together, which is the task en_mix):

    vanilla 83.5   random 75.1   dense 72.0   dense+vanilla 82.6   random+vanilla 84.1

scale=paper: T5-base with 8 x 128 heads, 262,144 steps on the mixture of all eight tasks, each by
    its size. The paper starts from its C4 run of the same row: --config.train.init_from=RUN takes
    the parameters and the vocabulary of that run. The captions say a small model, the row's name
    T5 (Base). Not run by us; cost: 57 TFLOP a step (--describe).
scale=small: movie_sentiment (7,978 rated snippets, in the form of SST-2), about 1 to 2 minutes of
    training steps on two CPU cores, from scratch. Its accuracy says nothing about SST-2.
scale=tiny: for tests.

Sources of the numbers: comments in `common.py` (paper / T2T or T5 / ours).
"""

from configs import common


def get_config(arg: str = "") -> common.Config:
    """The config of a row, as `random+vanilla,scale=small,mix=sum,seed=0`."""
    row = common.parse_arg(arg)
    config = common.t5_fine_tuning(row, task="glue", dataset="glue")
    if row.scale == "paper":
        return config
    return common.shrink(config, row.scale, dataset="movie_sentiment", target_length=12)
