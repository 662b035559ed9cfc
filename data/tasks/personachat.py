"""PersonaChat replies: the right half of the paper's Table 3.

The paper does not say which form it used. Tensor2Tensor's problem, in whose framework it worked,
has no personas: every utterance is the source of the next one. That is `convai2`;
`self_original` is the form with the speaker's persona and the whole dialogue before the reply.
"""

from data.tasks.task import ALL_SPLITS, Dataset, Task, pair

PERSONACHAT = Task(
    name="personachat",
    kind="seq2seq",
    metrics=("dialogue", "perplexity"),
    truncate_inputs=True,
    symbols=("\n",),
    datasets=(
        Dataset(
            name="chitchat",
            tfds_name="chitchat",
            split_of=ALL_SPLITS,
            to_examples=pair("source", "target"),
            stand_in=True,
            counts={"train": 95_834, "validation": 5_591, "test": 4_328},
            description="turns of real chats between two people, read from the package "
            "chitchat-dataset; its scores say nothing about PersonaChat",
            licence="MIT, the package's; nothing of it is kept in this repository",
        ),
        Dataset(
            name="convai2",
            tfds_name="personachat/convai2",
            split_of=ALL_SPLITS,
            to_examples=pair("source", "target"),
            disk_gb=1,
            description="ConvAI2 without personas, lower-cased, each utterance the source of the "
            "next; dialogues pooled and split 80/10/10 by Tensor2Tensor's rule",
            licence="see ParlAI; not redistributed here",
        ),
        Dataset(
            name="self_original",
            tfds_name="personachat/self_original",
            split_of=ALL_SPLITS,
            to_examples=pair("context", "response"),
            counts={"train": 65_719, "validation": 7_801, "test": 7_512},
            disk_gb=1,
            description="PersonaChat with the speaker's persona and the dialogue so far",
            licence="see ParlAI; not redistributed here",
        ),
    ),
)
