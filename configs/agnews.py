"""AG's news topics, encoder only: the paper's comparison with Linformer (Table 7), accuracy.

Run one row, at a scale that fits the machine:

    python train.py --config=configs/agnews.py:factorized_random+vanilla --workdir=runs/agnews
    python eval.py --workdir=runs/agnews

The paper's figures (accuracy; we know them from memory only, none is certain):

    vanilla 88.83   factorized_random 86.53   factorized_random+vanilla 89.13   (Linformer 86.50)

scale=paper: the encoder of transformer_base, texts cut at 256 tokens; the paper gives no sizes
    that we know. Not run by us; cost: 4.0 TFLOP a step (--describe).
scale=small, scale=tiny: there is no text that could stand in for AG's news; they are refused.

Sources of the numbers: comments in `common.py` (paper / T2T or T5 / ours).
"""

from configs import common


def get_config(arg: str = "") -> common.Config:
    """The config of a row, as `random+vanilla,mix=softmax,seed=0`."""
    row = common.parse_arg(arg)
    if row.scale != "paper":
        raise ValueError(
            f"scale={row.scale}: AG's news has no embedded text to stand in for it; prepare the "
            "real set (python -m data.prepare agnews) and leave the scale out"
        )
    config = common.transformer_base(row, task="agnews", dataset="ag_news_subset")
    # Sizes, lengths and steps are ours.
    config.train.update(num_steps=20_000, label_smoothing=0.0)
    return config
