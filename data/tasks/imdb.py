"""IMDB film reviews, an encoder-only task of the paper."""

from data.tasks.task import ALL_SPLITS, EMBEDDED, Dataset, Task, labelled

IMDB = Task(
    name="imdb",
    kind="classification",
    metrics=("accuracy",),
    truncate_inputs=True,
    labels=("negative", "positive"),
    datasets=(
        Dataset(
            name="movie_sentiment",
            tfds_name=EMBEDDED + "movie_sentiment",
            split_of=ALL_SPLITS,
            to_examples=labelled("text", "label"),
            stand_in=True,
            counts={"train": 7_978, "validation": 1_018, "test": 874},
            description="7,978 sentences of film reviews, embedded; its accuracy says nothing "
            "about whole reviews",
            licence="MIT, the package's, which does not state the terms of the critics it quotes; "
            "see data/corpora/licences",
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
