"""PersonaChat replies: the right half of the paper's Table 3.

Run one row, at a scale that fits the machine (scale=small needs `pip install -r
requirements-dialogue.txt`, the package whose chats stand in):

    python train.py --config=configs/personachat.py:dense,scale=small --workdir=runs/chat
    python eval.py --workdir=runs/chat

The paper's figures (BLEU-1 / BLEU-4, ROUGE-L, METEOR, CIDEr, embedding average):

    vanilla 12.03 / 3.20, 13.38, 5.89, 18.94, 83.43
    random 14.64 / 2.25, 15.00, 6.42, 19.57, 84.50
    dense 15.58 / 4.02, 15.22, 6.61, 20.54, 84.95
    dense+vanilla 14.24 / 3.57, 14.22, 6.32, 18.87, 84.21
    random+vanilla 14.70 / 2.28, 14.79, 6.39, 19.09, 84.54

scale=paper: transformer_base on convai2, the form of Tensor2Tensor's problem (which one the paper
    used is not known); --config.data.dataset=self_original takes the form with personas. Not run
    by us; cost: 11 TFLOP a step (--describe).
scale=small: chitchat (95,834 replies in real chats), about 3 minutes of training steps on two CPU
    cores. Its scores say nothing about PersonaChat.
scale=tiny: for tests.

Sources of the numbers: comments in `common.py` (paper / T2T or T5 / ours).
"""

from configs import common


def get_config(arg: str = "") -> common.Config:
    """The config of a row, as `random+vanilla,scale=small,mix=softmax,seed=0`."""
    row = common.parse_arg(arg)
    config = common.transformer_base(row, task="personachat", dataset="convai2")
    # Tensor2Tensor: 2^14 words; ours: as many sentencepiece pieces.
    config.data.update(vocab_size=16384)
    if row.scale == "paper":
        return config
    return common.shrink(config, row.scale, dataset="chitchat")
