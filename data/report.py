"""How full the training batches are, and what was left out of them: one line for a run's log."""

import dataclasses
from collections.abc import Sequence

import grain

from data.pipelines import Window


@dataclasses.dataclass(frozen=True, kw_only=True)
class FillReport:
    """Counts over some windows; `fill` is the share of positions that hold a token."""

    examples: int
    too_long: int
    empty: int
    batches: int
    shapes: tuple[tuple[int, int], ...]  # the distinct (B, L): each costs one compilation
    tokens: dict[str, int]  # inputs, targets
    fill: dict[str, float]

    def __str__(self) -> str:
        fill = ", ".join(f"{name} {share:.0%} full" for name, share in self.fill.items())
        left_out = f"left out {self.too_long} too long, {self.empty} empty"
        return (
            f"{self.examples:,} examples in {self.batches:,} batches of {len(self.shapes)} shapes, "
            f"{fill}; {left_out}"
        )


def fill_report(windows: grain.MapDataset[Window], first: int | None = 1) -> FillReport:
    """Looks at the first windows of `pipelines.plan_windows` (None: at a whole epoch)."""
    count = len(windows) if first is None else min(first, len(windows))
    return _report([window for number in range(count) if (window := windows[number])])


def _report(windows: Sequence[Window]) -> FillReport:
    batches = [batch for window in windows for batch in window.batches]
    names = [name for name in ("inputs", "targets") if name in batches[0]]
    tokens = {name: sum(int((batch[name] != 0).sum()) for batch in batches) for name in names}
    places = sum(batch["targets"].size for batch in batches)
    return FillReport(
        examples=sum(window.examples for window in windows),
        too_long=sum(window.too_long for window in windows),
        empty=sum(window.empty for window in windows),
        batches=len(batches),
        shapes=tuple(sorted({batch["targets"].shape for batch in batches}, key=lambda s: s[1])),
        tokens=tokens,
        fill={name: tokens[name] / places for name in names},
    )
