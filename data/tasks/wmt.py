"""WMT'14 translation: the left half of the paper's Table 2."""

from data.tasks.task import ALL_SPLITS, EMBEDDED, Dataset, Task, pair

_METRICS = ("bleu", "perplexity")

_DOCS_LICENCE = (
    "each line keeps the licence of its source: MPL-2.0 (LibreOffice help) or CC-BY-SA-3.0 "
    "(Debian handbook, GNOME user docs); see data/corpora/licences"
)

WMT_ENDE = Task(
    name="wmt_ende",
    kind="seq2seq",
    target_language="de",
    metrics=_METRICS,
    datasets=(
        Dataset(
            name="docs_ende",
            tfds_name=EMBEDDED + "docs_ende",
            split_of=ALL_SPLITS,
            to_examples=pair("en", "de"),
            stand_in=True,
            description="32,667 aligned sentences of software manuals, embedded; its BLEU says "
            "nothing about newstest",
            licence=_DOCS_LICENCE,
        ),
        Dataset(
            # Tensor2Tensor's own mixture: Europarl v7, Common Crawl, News Commentary v13.
            name="wmt_t2t_translate",
            tfds_name="wmt_t2t_translate/de-en",
            split_of=ALL_SPLITS,  # validation is newstest2013, test is newstest2014
            to_examples=pair("en", "de"),
            counts={"train": 4_592_289, "validation": 3_000, "test": 3_003},
            disk_gb=10,
            description="WMT'14 English-German as Tensor2Tensor prepared it; "
            "newstest2013 validates, newstest2014 tests",
            licence="see the WMT'14 site; not redistributed here",
        ),
    ),
)

WMT_ENFR = Task(
    name="wmt_enfr",
    kind="seq2seq",
    target_language="fr",
    metrics=_METRICS,
    datasets=(
        Dataset(
            name="docs_enfr",
            tfds_name=EMBEDDED + "docs_enfr",
            split_of=ALL_SPLITS,
            to_examples=pair("en", "fr"),
            stand_in=True,
            description="30,031 aligned sentences of software manuals, embedded; its BLEU says "
            "nothing about newstest",
            licence=_DOCS_LICENCE,
        ),
        Dataset(
            name="wmt14_translate",
            tfds_name="wmt14_translate/fr-en",
            split_of=ALL_SPLITS,  # validation is newstest2013, test is newstest2014
            to_examples=pair("en", "fr"),
            counts={"train": 40_836_715, "validation": 3_000, "test": 3_003},
            disk_gb=50,
            description="WMT'14 English-French; newstest2013 validates, newstest2014 tests",
            licence="see the WMT'14 site; not redistributed here",
        ),
    ),
)
