"""The tables of fine-tuning: GLUE, SuperGLUE, and the replication by Narang et al."""

from collections.abc import Mapping

from synth.results.columns import Trio, nothing, our_params, our_speed, paper_figure, trio, trios
from synth.results.declaration import PaperTable
from synth.results.paper_tables import C4_TEST, MEAN, SPEED
from synth.results.sources import Family, Metric, Quantity, Source, one


def _glue(part: str, *, split: str = "validation") -> Source:
    return Source({"en_mix": part, "glue": part}, split)


def _superglue(part: str) -> Source:
    # With both benchmarks in one mixture, the name rte is GLUE's.
    mixed = "superglue_rte" if part == "rte" else part
    return Source({"en_mix": mixed, "superglue": part}, "validation")


def _understanding(metrics: Mapping[str, tuple[str, Source, str]]) -> dict[str, Quantity]:
    """Header -> figure, from header -> (key, source, metric); tasks are told apart by their data.

    T5's average, before them, is over tasks: both sets of MNLI are one of them.
    """
    digits = {"digits": 2, "paper_digits": 1}
    tasks: dict[str, list[Metric]] = {}
    for _, source, name in metrics.values():
        tasks.setdefault(next(iter(source.datasets.values())), []).append(Metric(source, name))
    average = Quantity("average", tuple(map(tuple, tasks.values())), **digits)
    return {"Avg": average} | {
        header: one(key, source, name, **digits) for header, (key, source, name) in metrics.items()
    }


GLUE_FIGURES = _understanding(
    {
        "CoLA": ("cola", _glue("cola"), "matthews"),
        "SST-2": ("sst2", _glue("sst2"), "accuracy"),
        "MRPC F1": ("mrpc_f1", _glue("mrpc"), "f1"),
        "MRPC acc": ("mrpc_acc", _glue("mrpc"), "accuracy"),
        "STS-B Pearson": ("stsb_pearson", _glue("stsb"), "pearson"),
        "STS-B Spearman": ("stsb_spearman", _glue("stsb"), "spearman"),
        "QQP F1": ("qqp_f1", _glue("qqp"), "f1"),
        "QQP acc": ("qqp_acc", _glue("qqp"), "accuracy"),
        "MNLI-m": ("mnli_m", _glue("mnli"), "accuracy"),
        "MNLI-mm": ("mnli_mm", _glue("mnli", split="validation_mismatched"), "accuracy"),
        "QNLI": ("qnli", _glue("qnli"), "accuracy"),
        "RTE": ("rte", _glue("rte"), "accuracy"),
    }
)
SUPERGLUE_FIGURES = _understanding(
    {
        "BoolQ": ("boolq", _superglue("boolq"), "accuracy"),
        "CB F1": ("cb_f1", _superglue("cb"), "f1_macro"),
        "CB acc": ("cb_acc", _superglue("cb"), "accuracy"),
        "COPA": ("copa", _superglue("copa"), "accuracy"),
        "MultiRC F1a": ("multirc_f1a", _superglue("multirc"), "f1a"),
        "MultiRC EM": ("multirc_em", _superglue("multirc"), "em"),
        "ReCoRD F1": ("record_f1", _superglue("record"), "f1"),
        "ReCoRD EM": ("record_em", _superglue("record"), "em"),
        "RTE": ("rte", _superglue("rte"), "accuracy"),
        "WiC": ("wic", _superglue("wic"), "accuracy"),
        "WSC": ("wsc", _superglue("wsc"), "accuracy"),
    }
)
UNDERSTANDING_INTRO = (
    "On the development sets. Avg is T5's: the mean over the eight tasks of the mean of a task's "
    "metrics; ours stands only where every part was scored. T5 takes the best checkpoint of each "
    f"task on these very sets, we do not: ours are of one checkpoint. {MEAN}"
)
# The paper's runs start from its C4 runs, whose mixtures are plain sums.
FINE_TUNED_MIXES = ("sum", "softmax")
GLUE = PaperTable(
    name="glue",
    title="GLUE (the paper's Table 5)",
    intro=UNDERSTANDING_INTRO,
    rows="glue",
    quantities=tuple(GLUE_FIGURES.values()),
    lines=trios(GLUE_FIGURES),
    families=(Family(("en_mix", "glue"), fine_tuned=True),),
    mixes=FINE_TUNED_MIXES,
    beside="T5 (Base)",
)
SUPERGLUE = PaperTable(
    name="superglue",
    title="SuperGLUE (the paper's Table 6)",
    intro=UNDERSTANDING_INTRO,
    rows="superglue",
    quantities=tuple(SUPERGLUE_FIGURES.values()),
    lines=trios(SUPERGLUE_FIGURES),
    families=(Family(("en_mix", "superglue"), fine_tuned=True),),
    mixes=FINE_TUNED_MIXES,
    beside="T5 (Base)",
)


FINAL_LOSS = one("final_loss", C4_TEST, "log_ppl_token", digits=3, paper_digits=3)
NARANG_SUPERGLUE = Quantity("superglue", SUPERGLUE_FIGURES["Avg"].parts)


def _paper_only(key: str, digits: int = 2) -> Trio:
    return paper_figure(key, digits), nothing, nothing


NARANG = PaperTable(
    name="narang",
    title="The replication by Narang et al. (2021), their Table 1",
    intro=(
        "T5-base with relative position biases, trained on C4, then tuned on each task; by others "
        f"than the paper's authors. {MEAN}"
    ),
    rows="narang",
    quantities=(FINAL_LOSS, NARANG_SUPERGLUE),
    lines={
        "Params (M)": (paper_figure("params_m", 0), our_params(C4_TEST), nothing),
        "Steps/s": (paper_figure("steps_per_second"), our_speed(C4_TEST), nothing),
        "Early loss": _paper_only("early_loss", 3),
        "Final loss": trio(FINAL_LOSS),
        "SuperGLUE": trio(NARANG_SUPERGLUE),
        "XSum R-2": _paper_only("xsum_rouge2"),
        "WebQuestions": _paper_only("webquestions"),
        "WMT En-De": _paper_only("wmt_ende_bleu"),
    },
    families=(Family(("c4",)), Family(("superglue",), fine_tuned=True)),
    mixes=("softmax",),
    beside="Vanilla Transformer (relative bias)",
    remarks=(
        "Ours have sinusoid positions and no relative bias. We have no task for XSum and "
        "WebQuestions, and record no loss early in training; their En-De is by a T5-base, which "
        "our En-De runs are not.",
        SPEED,
    ),
)
