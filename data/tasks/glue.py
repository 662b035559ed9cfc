"""GLUE as T5 reads it: the paper's dev-set table. WNLI is left out, as in T5 and the paper.

The test labels are not public, so tables show the validation split. Counts are those of the TFDS
catalog for version 2.0.0.
"""

from collections.abc import Mapping

from data.tasks.task import ALL_SPLITS, EMBEDDED, Dataset, Task, ToExamples, mixture
from data.tasks.text_to_text import (
    NLI_LABELS,
    QNLI_LABELS,
    RTE_LABELS,
    classification,
    stsb,
)

_SST2_LABELS = ("negative", "positive")

MOVIE_SENTIMENT = Dataset(
    name="movie_sentiment",
    tfds_name=EMBEDDED + "movie_sentiment",
    split_of=ALL_SPLITS,
    to_examples=classification("sst2", ["sentence"], _SST2_LABELS, renamed={"sentence": "text"}),
    stand_in=True,
    counts={"train": 7_978, "validation": 1_018, "test": 874},
    description="7,978 sentences of film reviews in the form of SST-2, embedded; cut from the "
    "reviews that SST-2 was made of: never train on the one and score on the other",
    licence="MIT, the package's, which does not state the terms of the critics it quotes; see "
    "data/corpora/licences",
)


_SITES = {"glue": "gluebenchmark.com", "super_glue": "super.gluebenchmark.com"}


def part(
    name: str,
    to_examples: ToExamples,
    counts: Mapping[str, int],
    description: str,
    *,
    benchmark: str = "glue",
    tfds_config: str | None = None,
    splits: Mapping[str, str] | None = None,
    one_to_one: bool = True,
    disk_gb: float = 0.1,
) -> Dataset:
    """A set of a benchmark; `splits` where TFDS has other ones than train and validation."""
    return Dataset(
        name=name,
        tfds_name=f"{benchmark}/{tfds_config or name}",
        split_of={"train": "train", "validation": "validation", **(splits or {})},
        to_examples=to_examples,
        one_to_one=one_to_one,
        scored="validation",
        counts=counts,
        disk_gb=disk_gb,
        description=description,
        licence=f"its makers', see {_SITES[benchmark]}; not redistributed here",
    )


GLUE_PARTS = (
    part(
        "cola",
        classification("cola", ["sentence"], ("unacceptable", "acceptable")),
        {"train": 8_551, "validation": 1_043},
        "CoLA: is a sentence of the linguistic literature grammatical?",
    ),
    part(
        "sst2",
        classification("sst2", ["sentence"], _SST2_LABELS),
        {"train": 67_349, "validation": 872},
        "SST-2: sentiment of phrases of film reviews",
    ),
    part(
        "mrpc",
        classification("mrpc", ["sentence1", "sentence2"], ("not_equivalent", "equivalent")),
        {"train": 3_668, "validation": 408},
        "MRPC: do two sentences of the news say the same?",
    ),
    part(
        "stsb",
        stsb,
        {"train": 5_749, "validation": 1_500},
        "STS-B: how similar two sentences are, from 0.0 to 5.0",
    ),
    part(
        "qqp",
        classification("qqp", ["question1", "question2"], ("not_duplicate", "duplicate")),
        {"train": 363_846, "validation": 40_430},
        "QQP: do two questions of Quora ask the same?",
        disk_gb=0.5,
    ),
    part(
        "mnli",
        classification("mnli", ["hypothesis", "premise"], NLI_LABELS),
        {"train": 392_702, "validation_matched": 9_815, "validation_mismatched": 9_832},
        "MNLI: does a premise entail a hypothesis? Genres of training, and others (mismatched)",
        splits={
            "validation": "validation_matched",
            "validation_mismatched": "validation_mismatched",
        },
        disk_gb=2,
    ),
    part(
        "qnli",
        classification("qnli", ["question", "sentence"], QNLI_LABELS),
        {"train": 104_743, "validation": 5_463},
        "QNLI: does a sentence of Wikipedia answer a question?",
        disk_gb=0.2,
    ),
    part(
        "rte",
        classification("rte", ["sentence1", "sentence2"], RTE_LABELS),
        {"train": 2_490, "validation": 277},
        "RTE: does the first text entail the second?",
    ),
)

GLUE = Task(
    name="glue",
    kind="seq2seq",
    metrics=("understanding",),
    truncate_inputs=True,
    datasets=(
        MOVIE_SENTIMENT,
        *GLUE_PARTS,
        mixture(
            "glue",
            GLUE_PARTS,
            description="the eight sets as one, each in proportion to its size, as in T5",
        ),
    ),
)
