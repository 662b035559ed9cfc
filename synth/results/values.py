"""What a figure can be: its range, and what its own sums say it is."""

import math
from collections.abc import Mapping
from typing import Any

P_VALUE = "_p_vs_vanilla"  # ends the names of p-values, see `significance`

_PERCENT = (0.0, 100.0)
_CORRELATION = (-100.0, 100.0)
_RANGES = {
    **dict.fromkeys(("bleu", "bleu_intl", "bleu_intl_uncased", "bleu_tok_atat"), _PERCENT),
    **dict.fromkeys((f"dialogue_bleu{n}" for n in (1, 2, 3, 4)), _PERCENT),
    **dict.fromkeys(("rouge1", "rouge2", "rougeLsum", "dialogue_rougeL", "meteor"), _PERCENT),
    **dict.fromkeys(("accuracy", "f1", "f1_macro", "f1a", "em"), _PERCENT),
    **dict.fromkeys(("matthews", "pearson", "spearman"), _CORRELATION),
    **dict.fromkeys((f"embedding_{k}" for k in ("average", "extrema", "greedy")), _CORRELATION),
    "cider": (0.0, 1000.0),
    "ppl_token": (1.0, math.inf),
    "ppl_word": (1.0, math.inf),
    "bits_per_byte": (0.0, math.inf),
    "log_ppl_token": (0.0, math.inf),
}
_SLACK = 1e-6  # relative: sums are written in full


def problem(metric: str, value: float, sums: Mapping[str, Any]) -> str | None:
    """Why this value cannot be one of this metric; None if it can, or if nothing is known of it."""
    low, high = (
        (0.0, 1.0) if metric.endswith(P_VALUE) else _RANGES.get(metric, (-math.inf, math.inf))
    )
    if not low - _SLACK <= value <= high + _SLACK:
        return f"{metric} must be from {low:g} to {high:g}, got {value!r}"
    expected = _from_sums(metric, sums)
    if expected is not None and not math.isclose(value, expected, rel_tol=_SLACK):
        return f"{metric} is {value!r}, but its own sums give {expected!r}"
    return None


def _from_sums(metric: str, sums: Mapping[str, Any]) -> float | None:
    try:
        match metric:
            case "ppl_token":
                return math.exp(sums["nll"] / sums["tokens"])
            case "ppl_word":
                return math.exp(sums["nll"] / sums["words"])
            case "log_ppl_token":
                return sums["nll"] / sums["tokens"]
            case "bits_per_byte":
                return sums["nll"] / (math.log(2) * sums["bytes"])
            case "accuracy":
                return 100.0 * sums["right"] / sums["examples"]
    except (KeyError, TypeError, ZeroDivisionError, OverflowError):
        return None  # other sums, or none
    return None
