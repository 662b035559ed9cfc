"""How full the training batches are, and what was left out of them: one line for a run's log."""

import dataclasses
from collections.abc import Sequence

import grain

from data.pipelines import Window

Shapes = tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FillReport:
    """Counts over some windows; `fill` is the share of positions that hold a token."""

    examples: int
    total: int  # examples of an epoch, about
    too_long: int
    empty: int
    truncated: int
    batches: int
    shapes: tuple[Shapes, ...]  # the distinct (B, L) of all sides: each costs one compilation
    tokens: dict[str, int]  # inputs, targets
    fill: dict[str, float]

    def __str__(self) -> str:
        seen = f"{self.examples:,} examples"
        if self.examples < self.total:
            seen = f"the first {seen} of {self.total:,}"
        fill = ", ".join(f"{name} {share:.0%} full" for name, share in self.fill.items())
        left_out = f"left out {self.too_long} too long, {self.empty} empty"
        if self.truncated:
            left_out += f"; cut {self.truncated} inputs ({self.truncated / self.examples:.1%})"
        return (
            f"{seen} in {self.batches:,} batches of {len(self.shapes)} shapes, {fill}; {left_out}"
        )


def fill_report(windows: grain.MapDataset[Window], first: int | None = 1) -> FillReport:
    """Looks at the first windows of `pipelines.plan_windows` (None: at a whole epoch)."""
    count = len(windows) if first is None else min(first, len(windows))
    seen = [window for number in range(count) if (window := windows[number])]
    return _report(seen, total=sum(window.examples for window in seen) * len(windows) // count)


def _report(windows: Sequence[Window], total: int) -> FillReport:
    batches = [batch for window in windows for batch in window.batches]
    names = [name for name in ("inputs", "targets") if name in batches[0]]
    tokens = {name: sum(int((batch[name] != 0).sum()) for batch in batches) for name in names}
    places = {name: sum(batch[name].size for batch in batches) for name in names}
    shapes = {tuple(batch[name].shape for name in names) for batch in batches}
    return FillReport(
        examples=sum(window.examples for window in windows),
        total=total,
        too_long=sum(window.too_long for window in windows),
        empty=sum(window.empty for window in windows),
        truncated=sum(window.truncated for window in windows),
        batches=len(batches),
        shapes=tuple(sorted(shapes)),
        tokens=tokens,
        fill={name: tokens[name] / places[name] for name in names},
    )
