"""AG News topics, an encoder-only task of the paper.

There is no stand-in: no package has news with topics, so the set must be prepared.
"""

from data.tasks.task import Dataset, Example, Row, Task


def _title_and_description(row: Row, split: str) -> list[Example]:
    """The whole item, as in the character-level networks of those who made the set."""
    del split
    return [{"inputs": f"{row['title']} {row['description']}", "label": int(row["label"])}]


AGNEWS = Task(
    name="agnews",
    kind="classification",
    metrics=("accuracy",),
    truncate_inputs=True,
    labels=("World", "Sports", "Business", "Sci/Tech"),
    datasets=(
        Dataset(
            name="ag_news_subset",
            tfds_name="ag_news_subset",
            # TFDS shuffles the rows when it prepares a set, so a slice is a random sample.
            split_of={"train": "train[2000:]", "validation": "train[:2000]", "test": "test"},
            to_examples=_title_and_description,
            counts={"train": 120_000, "test": 7_600},
            disk_gb=0.2,
            description="AG's news: titles and descriptions in four topics; 2,000 of the training "
            "rows validate. No text is embedded for this task",
            licence="for research and non-commercial use; not redistributed here",
        ),
    ),
)
