"""SuperGLUE as T5 reads it, alone and co-trained with GLUE: the paper's dev-set tables.

The test labels are not public, so tables show the validation split. Counts are those of the TFDS
catalog for version 1.0.2.

T5's mixtures hold more than ours: its SuperGLUE also the 1,322 examples of Definite Pronoun
Resolution, its `en_mix` SQuAD and C4. The paper names GLUE and SuperGLUE only.
"""

import dataclasses
import functools

from data.tasks.glue import GLUE_PARTS, MOVIE_SENTIMENT, part
from data.tasks.task import ALL_SPLITS, EMBEDDED, Dataset, Task, mixture
from data.tasks.text_to_text import (
    BOOLQ_LABELS,
    CB_LABELS,
    RTE_LABELS,
    WIC_LABELS,
    classification,
    multirc,
    record,
    wsc,
)

# The word comes last, and its place in the sentences is not said.
_WIC = classification("wic", ["sentence1", "sentence2", "word"], WIC_LABELS)

WORDNET_WIC = Dataset(
    name="wordnet_wic",
    tfds_name=EMBEDDED + "wordnet_wic",
    split_of=ALL_SPLITS,
    to_examples=_WIC,
    stand_in=True,
    counts={"train": 7_018, "validation": 932, "test": 1_154},
    description="7,018 pairs of WordNet's example sentences in the form of WiC, embedded; finer "
    "senses and shorter texts than WiC's, not comparable with it",
    licence="WordNet 3.0; see data/corpora/licences",
)


_superglue = functools.partial(part, benchmark="super_glue")

SUPERGLUE_PARTS = (
    _superglue(
        "boolq",
        classification("boolq", ["passage", "question"], BOOLQ_LABELS),
        {"train": 9_427, "validation": 3_270},
        "BoolQ: yes/no questions about a passage of Wikipedia",
    ),
    _superglue(
        "cb",
        classification("cb", ["hypothesis", "premise"], CB_LABELS),
        {"train": 250, "validation": 56},
        "CommitmentBank: is the writer committed to an embedded clause?",
    ),
    _superglue(
        "copa",
        classification(
            "copa", ["choice1", "choice2", "premise", "question"], ("choice1", "choice2")
        ),
        {"train": 400, "validation": 100},
        "COPA: which of two sentences is the cause or the effect of a premise?",
    ),
    _superglue(
        "multirc",
        multirc,
        {"train": 27_243, "validation": 4_848},
        "MultiRC: which of the answers to a question about a paragraph are right?",
        disk_gb=0.2,
    ),
    _superglue(
        "record",
        record,
        {"train": 100_730, "validation": 10_000},
        "ReCoRD: the entity that fills the gap in a sentence about a news article; T5 counts "
        "138,854 answers to train on",
        one_to_one=False,
        disk_gb=1,
    ),
    _superglue(
        "rte",
        classification("rte", ["hypothesis", "premise"], RTE_LABELS),
        {"train": 2_490, "validation": 277},
        "RTE: does a premise entail a hypothesis? The texts of GLUE's RTE under other names",
    ),
    _superglue(
        "wic",
        _WIC,
        {"train": 5_428, "validation": 638},
        "WiC: does a word have one sense in two sentences?",
    ),
    _superglue(
        "wsc",
        wsc,
        {"train": 554, "validation": 104},
        "Winograd schemas: the noun that a pronoun stands for; the 259 of the training rows whose "
        "noun is right are learned from",
        tfds_config="wsc.fixed",  # with spans that are parts of the text
        one_to_one=False,
    ),
)

SUPERGLUE = Task(
    name="superglue",
    kind="seq2seq",
    metrics=("understanding",),
    truncate_inputs=True,
    datasets=(
        WORDNET_WIC,
        *SUPERGLUE_PARTS,
        mixture(
            "superglue",
            SUPERGLUE_PARTS,
            description="the eight sets as one, each in proportion to its size, as in T5",
        ),
    ),
)


def _distinct(part: Dataset) -> Dataset:
    """Both benchmarks have an `rte`, with the features under other names."""
    return dataclasses.replace(part, name="superglue_rte") if part.name == "rte" else part


_STAND_INS = (MOVIE_SENTIMENT, WORDNET_WIC)
_EN_MIX_PARTS = (*GLUE_PARTS, *map(_distinct, SUPERGLUE_PARTS))

EN_MIX = Task(
    name="en_mix",
    kind="seq2seq",
    metrics=("understanding",),
    truncate_inputs=True,
    datasets=(
        mixture(
            "sentiment_and_wic",
            _STAND_INS,
            splits=("train", "validation", "test"),
            stand_in=True,
            description="movie_sentiment and wordnet_wic as one",
        ),
        *_STAND_INS,
        *_EN_MIX_PARTS,
        mixture(
            "en_mix",
            _EN_MIX_PARTS,
            description="the sixteen sets of GLUE and SuperGLUE as one, in proportion to their "
            "sizes; one model for both of the paper's tables",
        ),
    ),
)
