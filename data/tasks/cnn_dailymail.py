"""CNN/Daily Mail summaries: the left half of the paper's Table 3.

A summary keeps its lines, one highlight each: ROUGE-L is computed over them (the paper's is the
summary-level score, as its ratio to ROUGE-1 shows). So the newline is a piece of the vocabulary.
"""

from data.tasks.task import ALL_SPLITS, EMBEDDED, Dataset, Task, pair

CNN_DAILYMAIL = Task(
    name="cnn_dailymail",
    kind="seq2seq",
    metrics=("rouge", "perplexity"),
    truncate_inputs=True,
    symbols=("\n",),
    datasets=(
        Dataset(
            name="help_summaries",
            tfds_name=EMBEDDED + "help_summaries",
            split_of=ALL_SPLITS,
            to_examples=pair("document", "summary"),
            stand_in=True,
            description="1,784 help pages with their one-line descriptions, embedded; its ROUGE "
            "says nothing about news",
            licence="each line keeps the licence of its source: MPL-2.0 (LibreOffice help) or "
            "CC-BY-SA-3.0 (GNOME user docs); see data/corpora/licences",
        ),
        Dataset(
            name="cnn_dailymail",
            tfds_name="cnn_dailymail",
            split_of=ALL_SPLITS,
            to_examples=pair("article", "highlights"),
            counts={"train": 287_113, "validation": 13_368, "test": 11_490},
            disk_gb=6,
            description="CNN/Daily Mail, not anonymised: news articles and their highlights",
            licence="not stated for the articles; not redistributed here",
        ),
    ),
)
