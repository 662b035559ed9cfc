"""IMDB film reviews, an encoder-only task of the paper."""

import dataclasses

from data.tasks.glue import MOVIE_SENTIMENT
from data.tasks.task import Dataset, Task, labelled

IMDB = Task(
    name="imdb",
    kind="classification",
    metrics=("accuracy",),
    truncate_inputs=True,
    labels=("negative", "positive"),
    datasets=(
        dataclasses.replace(
            MOVIE_SENTIMENT,
            to_examples=labelled("text", "label"),
            description="7,978 sentences of film reviews, embedded; its accuracy says nothing "
            "about whole reviews",
        ),
        Dataset(
            name="imdb_reviews",
            tfds_name="imdb_reviews/plain_text",
            # There is no validation split: Tensor2Tensor trains on all 25,000 and looks at the
            # test split on the way. TFDS shuffles the rows when it prepares a set, so a slice is
            # a random sample.
            split_of={"train": "train[2000:]", "validation": "train[:2000]", "test": "test"},
            to_examples=labelled("text", "label"),
            counts={"train": 25_000, "test": 25_000},
            disk_gb=0.5,
            description="whole film reviews, half of them positive, mark-up kept; 2,000 of the "
            "training rows validate",
            licence="not stated, to be cited; not redistributed here",
        ),
    ),
)
