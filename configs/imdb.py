"""IMDB reviews, encoder only: the paper's comparison with Linformer (Table 7), accuracy.

Run one row, at a scale that fits the machine:

    python train.py --config=configs/imdb.py:factorized_random+vanilla,scale=small --workdir=runs/i
    python eval.py --workdir=runs/i

The paper's figures (accuracy; we know them from memory only, none is certain):

    vanilla 81.34   factorized_random 83.39   factorized_random+vanilla 84.61   (Linformer 82.86)

scale=paper: the encoder of transformer_base, reviews cut at 512 tokens; the paper gives no sizes
    that we know. Not run by us; cost: 4.3 TFLOP a step (--describe).
scale=small: movie_sentiment (7,978 rated snippets), about 1 minute of training steps on two CPU
    cores. Its accuracy says nothing about IMDB.
scale=tiny: for tests.

Sources of the numbers: comments in `common.py` (paper / T2T or T5 / ours).
"""

from configs import common


def get_config(arg: str = "") -> common.Config:
    """The config of a row, as `random+vanilla,scale=small,mix=softmax,seed=0`."""
    row = common.parse_arg(arg)
    config = common.transformer_base(row, task="imdb", dataset="imdb_reviews")
    # T2T's IMDB problem has 2^13 subwords; lengths and steps are ours.
    config.data.update(vocab_size=8192, bucket_lengths=(128, 256, 512))
    config.model.update(max_length=512)
    config.train.update(num_steps=20_000, label_smoothing=0.0)
    if row.scale == "paper":
        return config
    return common.shrink(config, row.scale, dataset="movie_sentiment")
