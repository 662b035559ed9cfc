"""SuperGLUE as text to text: the paper's Table 6, scores on the development sets.

Run one row, at a scale that fits the machine:

    python train.py --config=configs/superglue.py:dense+vanilla,mix=sum,scale=small --workdir=runs/s
    python eval.py --workdir=runs/s

The paper's figures (average of the eight tasks; all cells are in results/paper.json; captions say
that GLUE and SuperGLUE were trained together, which is the task en_mix):

    vanilla 70.3   random 61.1   dense 58.5   dense+vanilla 69.7   random+vanilla 72.2

scale=paper: T5-base with 8 x 128 heads, 262,144 steps on the mixture of all eight tasks, each by
    its size. The paper starts from its C4 run of the same row: --config.train.init_from=RUN takes
    the parameters and the vocabulary of that run. The captions say a small model, the row's name
    T5 (Base). Not run by us; cost: 57 TFLOP a step (--describe).
scale=small: wordnet_wic (7,018 pairs of WordNet's examples, in the form of WiC), about 1 to 2
    minutes of training steps on two CPU cores, from scratch. Its accuracy says nothing about WiC.
scale=tiny: for tests.

Sources of the numbers: comments in `common.py` (paper / T2T or T5 / ours).
"""

from configs import common


def get_config(arg: str = "") -> common.Config:
    """The config of a row, as `random+vanilla,scale=small,mix=sum,seed=0`."""
    row = common.parse_arg(arg)
    config = common.t5_fine_tuning(row, task="superglue", dataset="superglue")
    if row.scale == "paper":
        return config
    return common.shrink(config, row.scale, dataset="wordnet_wic", target_length=12)
