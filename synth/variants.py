"""Names of the synthesizing functions and of their mixtures."""

from collections.abc import Iterable

# In the order in which the paper's tables write a mixture: "random+vanilla", "dense+vanilla".
VARIANTS = (
    "random",
    "fixed_random",
    "factorized_random",
    "dense",
    "factorized_dense",
    "vanilla",
)
MIXES = ("softmax", "sum", "sigmoid")


def parse_variant(variant: str) -> tuple[str, ...]:
    """Splits a variant name into its terms, in canonical order.

    Args:
      variant: names of `VARIANTS` joined by `+`, in any order.

    Returns:
      The names, ordered as in `VARIANTS`: `vanilla+random` is the same model as `random+vanilla`.

    Raises:
      ValueError: for an unknown or repeated name; the message lists what exists.
    """
    names = variant.split("+")
    for name in names:
        if name not in VARIANTS:
            raise ValueError(
                f"unknown attention variant {name!r} in {variant!r}; known: "
                f"{', '.join(VARIANTS)}, and mixtures of them joined by '+'"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"attention variant {variant!r} names a term twice")
    return in_order(names)


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Terms in the order of `VARIANTS`; names it lacks (the paper's baselines) before vanilla."""

    def place(name: str) -> tuple[bool, int, str]:
        known = VARIANTS.index(name) if name in VARIANTS else len(VARIANTS)
        return name == "vanilla", known, name

    return tuple(sorted(names, key=place))


def check_mix(mix: str, num_terms: int) -> None:
    """Raises ValueError if `mix` is no way to mix `num_terms` terms."""
    if mix not in MIXES:
        raise ValueError(f"unknown mix {mix!r}; known: {', '.join(MIXES)}")
    if mix == "sigmoid" and num_terms > 2:
        raise ValueError(
            f"mix='sigmoid' weighs two terms by s and 1 - s, but there are {num_terms}; "
            "use mix='softmax' or mix='sum'"
        )
