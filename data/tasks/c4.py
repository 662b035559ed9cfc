"""C4 masked language modelling: the paper's table of span corruption, and what GLUE starts from."""

from data.tasks.lm1b import WEB_LM
from data.tasks.task import Dataset, Task, line

C4 = Task(
    name="c4",
    kind="span_corruption",
    metrics=("perplexity",),
    datasets=(
        WEB_LM,
        Dataset(
            # TFDS' own `c4` starts from 7 TB of Common Crawl and needs Beam; our builder reads the
            # same documents from the published json.gz files. The paper's runs see less than a
            # quarter of the training files: prepare as many as the disk takes.
            name="c4",
            tfds_name="c4_json",
            # 2,048 documents, about a million tokens, are enough to validate on.
            split_of={
                "train": "train",
                "validation": "validation[:2048]",
                "test": "validation[2048:10240]",
            },
            to_examples=line("text"),
            counts={"train": 364_868_892, "validation": 364_608},
            disk_gb=1200,
            description="Colossal Clean Crawled Corpus, English; hidden spans are made on the fly",
            licence="ODC-BY; the text under Common Crawl's terms of use; not redistributed here",
        ),
    ),
)
