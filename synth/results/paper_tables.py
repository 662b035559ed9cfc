"""The paper's tables, declared: which of our figures stand beside which of theirs."""

from synth.results.columns import (
    difference,
    our_figure,
    our_log_ratio,
    our_params,
    our_speed,
    paper_figure,
    paper_log_ratio,
    trios,
)
from synth.results.declaration import PaperTable
from synth.results.sources import Family, Source, one

# tensor2tensor's decoding defaults; the paper gives none of its own.
DEFAULT_DECODING = {"beam": 4, "alpha": 0.6}
# At scale=paper, Vaswani et al.'s limit on the length of a translation, too.
PAPER_DECODING = DEFAULT_DECODING | {"extra_length": 50}
MEAN = "Ours: mean ± sample standard deviation over n seeds."

ENDE = Source({"wmt_ende": "wmt_t2t_translate"}, settings=PAPER_DECODING)
ENFR = Source({"wmt_enfr": "wmt14_translate"}, settings=PAPER_DECODING)
LM1B = Source({"lm1b": "lm1b"})
THEIR_RUN = "Transformer (their run)"

ENDE_INTL = one("wmt_ende_bleu", ENDE, "bleu_intl")
ENDE_13A = one("wmt_ende_bleu", ENDE, "bleu")
ENDE_ATAT = one("wmt_ende_bleu", ENDE, "bleu_tok_atat")
ENFR_INTL = one("wmt_enfr_bleu", ENFR, "bleu_intl")
ENFR_13A = one("wmt_enfr_bleu", ENFR, "bleu")
PPL_TOKEN = one("lm1b_ppl", LM1B, "ppl_token")
PPL_WORD = one("lm1b_ppl", LM1B, "ppl_word")

WMT = PaperTable(
    name="wmt",
    title="WMT'14 (the paper's Table 2, left half)",
    intro=(
        "Paper beside ours, on newstest2014. `intl` equals tensor2tensor's `t2t-bleu` (cased) and "
        "is what we set against the paper (Δ = ours - paper); `13a` is sacreBLEU's default; "
        "`tok+atat`, with compounds split, is comparable with Vaswani et al. "
        f"Which script the authors ran is not known: compare differences between rows first. {MEAN}"
    ),
    rows="wmt_lm1b",
    quantities=(ENDE_INTL, ENDE_13A, ENDE_ATAT, ENFR_INTL, ENFR_13A),
    columns={
        "Params, paper (M)": paper_figure("nmt_params_m", 0),
        "Params, ours (M)": our_params(ENDE, ENFR),
        "En-De, paper": paper_figure("wmt_ende_bleu"),
        "En-De intl, ours": our_figure(ENDE_INTL),
        "En-De Δ": difference(ENDE_INTL),
        "En-De 13a, ours": our_figure(ENDE_13A),
        "En-De tok+atat, ours": our_figure(ENDE_ATAT),
        "En-Fr, paper": paper_figure("wmt_enfr_bleu"),
        "En-Fr intl, ours": our_figure(ENFR_INTL),
        "En-Fr Δ": difference(ENFR_INTL),
        "En-Fr 13a, ours": our_figure(ENFR_13A),
    },
    families=(Family(("wmt_ende",)), Family(("wmt_enfr",))),
    beside=THEIR_RUN,
)
LANGUAGE_MODEL = PaperTable(
    name="lm1b",
    title="LM1B (the paper's Table 2, right half)",
    intro=(
        "Paper beside ours. The paper does not say whether its perplexity is per token or per "
        "word, so both of ours are set against it. The log ratio, log ppl of a row over log ppl of "
        "the Transformer, is the same under either reading: compare it first. Ours are scored on "
        "heldout shard 00000, as tensor2tensor's, with no word made UNK."
    ),
    rows="wmt_lm1b",
    quantities=(PPL_TOKEN, PPL_WORD),
    columns={
        "Params, paper (M)": paper_figure("lm_params_m", 0),
        "Params, ours (M)": our_params(LM1B),
        "Ppl, paper": paper_figure("lm1b_ppl"),
        "Ppl/token, ours": our_figure(PPL_TOKEN),
        "Δ/token": difference(PPL_TOKEN),
        "Ppl/word, ours": our_figure(PPL_WORD),
        "Δ/word": difference(PPL_WORD),
        "Log ratio, paper": paper_log_ratio("lm1b_ppl"),
        "Log ratio, ours": our_log_ratio(PPL_TOKEN),
    },
    families=(Family(("lm1b",)),),
    beside=THEIR_RUN,
)

CNN = Source({"cnn_dailymail": "cnn_dailymail"}, settings=DEFAULT_DECODING)
CONVAI2 = Source({"personachat": "convai2"}, settings=DEFAULT_DECODING)
ROUGE = {
    "R-1": one("rouge1", CNN, "rouge1"),
    "R-2": one("rouge2", CNN, "rouge2"),
    "R-L": one("rougeL", CNN, "rougeLsum"),
}
DIALOGUE = {
    "BLEU-1": one("bleu1", CONVAI2, "dialogue_bleu1"),
    "BLEU-4": one("bleu4", CONVAI2, "dialogue_bleu4"),
    "ROUGE-L": one("dialogue_rougeL", CONVAI2, "dialogue_rougeL"),
    "METEOR": one("meteor", CONVAI2, "meteor"),
    "CIDEr": one("cider", CONVAI2, "cider"),
    "Emb": one("embedding", CONVAI2, "embedding_average"),
}


SUMMARIES = PaperTable(
    name="cnn_dailymail",
    title="CNN/DailyMail summaries (the paper's Table 3, left half)",
    intro=(
        "ROUGE F1 x 100 with stemming. Ours in R-L is the summary-level rougeLsum, which is what "
        f"the paper's ratio of R-L to R-1 shows it to be [inferred]. {MEAN}"
    ),
    rows="generation",
    quantities=tuple(ROUGE.values()),
    lines=trios(ROUGE),
    families=(Family(("cnn_dailymail",)),),
    beside="Transformer",
)
REPLIES = PaperTable(
    name="personachat",
    title="PersonaChat replies (the paper's Table 3, right half)",
    intro=(
        "All x 100, on whitespace tokens, as nlg-eval computes them [inferred]; Emb is the "
        "embedding average. Ours are scored against the raw text, without `<unk>`. CIDEr depends "
        f"on the whole set of references: compare it on the same test set only. {MEAN}"
    ),
    rows="generation",
    quantities=tuple(DIALOGUE.values()),
    lines=trios(DIALOGUE),
    families=(Family(("personachat",)),),
    beside="Transformer",
)


C4_TEST = Source({"c4": "c4"})
C4_LOG_PPL = one("log_ppl", C4_TEST, "log_ppl_token", digits=3, paper_digits=3)
SPEED = (
    "Steps a second are of other machines: compare ratios between rows. Ours include compilation "
    "and validation, and records name the machine that scored, not the one that trained."
)
C4 = PaperTable(
    name="c4",
    title="C4 masked language modelling (the paper's Table 4)",
    intro=f"Log perplexity per token of the hidden spans; the paper's mixtures are sums. {MEAN}",
    rows="c4",
    quantities=(C4_LOG_PPL,),
    columns={
        "Log ppl, paper": paper_figure("log_ppl", 3),
        "Log ppl, ours": our_figure(C4_LOG_PPL),
        "Δ": difference(C4_LOG_PPL),
        "Params, paper (M)": paper_figure("params_m", 0),
        "Params, ours (M)": our_params(C4_TEST),
        "Steps/s, paper": paper_figure("steps_per_second"),
        "Steps/s, ours": our_speed(C4_TEST),
        "TFLOPS, paper": paper_figure("tflops"),
    },
    families=(Family(("c4",)),),
    mixes=("sum",),
    beside="Transformer",
    weak={
        ("lightweight_conv", "log_ppl"): "L",
        ("lightweight_conv", "tflops"): "L",
        ("random+vanilla", "tflops"): "L",
    },
    remarks=(SPEED,),
)

AGNEWS = one("agnews_acc", Source({"agnews": "ag_news_subset"}), "accuracy")
IMDB = one("imdb_acc", Source({"imdb": "imdb_reviews"}), "accuracy")
ENCODER_ONLY = PaperTable(
    name="encoder_only",
    title="AG News and IMDB, encoder only (the paper's Table 7)",
    intro=f"Accuracy, percent, on the test sets. {MEAN}",
    rows="encoder_only",
    quantities=(AGNEWS, IMDB),
    columns={
        "AG News, paper": paper_figure("agnews_acc"),
        "AG News, ours": our_figure(AGNEWS),
        "AG News Δ": difference(AGNEWS),
        "IMDB, paper": paper_figure("imdb_acc"),
        "IMDB, ours": our_figure(IMDB),
        "IMDB Δ": difference(IMDB),
    },
    families=(Family(("agnews",)), Family(("imdb",))),
    beside="Transformer",
)
