"""A line chart as SVG, by hand: no colours of its own, so that the page's style gives them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# Small in units, so that its letters stay readable on a phone.
WIDTH, HEIGHT = 400, 270
LEFT, RIGHT, TOP, BOTTOM = 44, 22, 26, 40
COLOURS = 8  # classes c0 to c7 of the page's style
MOST_POINTS = 240


@dataclass(frozen=True)
class Line:
    """One line; its colour and dashes are those of its number."""

    label: str
    number: int
    points: Sequence[tuple[float, float]]


def style(number: int) -> str:
    """The classes of a line: eight colours, then the same dashed, then dotted."""
    return f"c{number % COLOURS} d{number // COLOURS % 3}"


def line_chart(title: str, x_name: str, y_name: str, lines: Sequence[Line]) -> str:
    """An `<svg>` of the lines that have points."""
    drawn = [Line(line.label, line.number, thinned(line.points)) for line in lines if line.points]
    points = [point for line in drawn for point in line.points]
    if not points:
        return ""
    x_low, x_high = _span([x for x, _ in points])
    y_low, y_high = _span([y for _, y in points])

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)
        up = (y - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)
        return LEFT + across, HEIGHT - BOTTOM - up

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        f'<text x="{LEFT}" y="15" class="title">{escape(title)}</text>',
    ]
    for tick in ticks(x_low, x_high):
        x, _ = at(tick, y_low)
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}" class="x">{tick:,g}</text>')
    for tick in ticks(y_low, y_high):
        _, y = at(x_low, tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" class="y">{tick:,g}</text>')
    corner = f"M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"
    parts.append(f'<path class="axis" d="{corner}"/>')
    for line in drawn:
        places = [at(x, y) for x, y in line.points]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        name = f"<title>{escape(line.label)}</title>"
        parts.append(f'<path class="line {style(line.number)}" d="{path}">{name}</path>')
        if len(places) <= 12:
            parts += [
                f'<circle class="dot {style(line.number)}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>'
                for x, y in places
            ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" class="x">{escape(x_name)}</text>')
    parts.append(
        f'<text transform="translate(11 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" class="x">'
        f"{escape(y_name)}</text></svg>"
    )
    return "\n".join(parts)


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from low to high, at most `most`: steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `MOST_POINTS`: neighbours become their mean; the last one stays what it is."""
    width = math.ceil(len(points) / MOST_POINTS)
    if width <= 1:
        return list(points)
    groups = [points[i : i + width] for i in range(0, len(points), width)]
    means = [
        (sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group))
        for group in groups
    ]
    return [*means[:-1], points[-1]]
