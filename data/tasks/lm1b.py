"""One Billion Words language modelling: the right half of the paper's Table 2."""

from data.tasks.task import ALL_SPLITS, EMBEDDED, Dataset, Task, line

WEB_LM = Dataset(
    name="web_lm",
    tfds_name=EMBEDDED + "web_lm",
    split_of=ALL_SPLITS,
    to_examples=line("text"),
    stand_in=True,
    description="45,180 sentences of a public-domain English Bible, embedded; its "
    "perplexity says nothing about LM1B",
    licence="public domain; see data/corpora/licences",
)

LM1B = Task(
    name="lm1b",
    kind="language_model",
    metrics=("perplexity",),
    datasets=(
        WEB_LM,
        Dataset(
            # Tensor2Tensor scores heldout shard 00000-of-00050. TFDS' own `lm1b` joins all 50
            # heldout shards and mixes their lines, so that shard cannot be cut out again;
            # our builder reads the same archive and keeps the shards apart. Tensor2Tensor also
            # maps words outside the benchmark's vocabulary to UNK; this text keeps them.
            name="lm1b",
            tfds_name="lm1b_shards",
            split_of=ALL_SPLITS,  # test is heldout shard 00000, validation is 00001
            to_examples=line("text"),
            counts={"train": 30_301_028},
            disk_gb=8,
            description="One Billion Word benchmark; trained on its 99 shards, scored on heldout "
            "shard 00000 as in Tensor2Tensor, validated on 00001",
            licence="see the benchmark's site; not redistributed here",
        ),
    ),
)
