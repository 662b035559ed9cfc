"""The results as one HTML file that needs nothing else: tables, learning curves, samples."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from synth.files import write_text
from synth.results.charts import Line, line_chart, style
from synth.results.figures import Cell, Table
from synth.results.runs import Curve, Samples

Chapters = Mapping[str, Sequence[Table]]

# Colours that the colour-blind tell apart (Okabe and Ito), lighter ones on a dark ground.
STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #1b1b1f; --soft: #5d5d66;
  --line: #d9d9e0; --band: #f4f4f8; --link: #0b57a4;
  --c0: #0072b2; --c1: #d55e00; --c2: #00805a; --c3: #b4528d; --c4: #8a6d00; --c5: #2a9fd6;
  --c6: #a33f2f; --c7: #555; }
@media (prefers-color-scheme: dark) { :root { --ground: #16161a; --text: #e8e8ee; --soft: #a5a5b0;
  --line: #3a3a44; --band: #202027; --link: #7cb8ff;
  --c0: #56b4e9; --c1: #ff8a3d; --c2: #2ecc9b; --c3: #e48fc4; --c4: #e6c229; --c5: #9ad7f5;
  --c6: #e57c6a; --c7: #bbb; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 75rem; background: var(--ground);
  color: var(--text); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
a { color: var(--link); }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; padding: 0; list-style: none; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th { background: var(--band); }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0;
  background: var(--ground); }
th:first-child { background: var(--band); }
@media (max-width: 40rem) { th:first-child, td:first-child { max-width: 9rem;
  white-space: normal; } }
.notes, .soft, summary { color: var(--soft); font-size: .875rem; }
pre { overflow-x: auto; padding: .6rem; background: var(--band); font-size: .8125rem; }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(20rem,
  100%), 1fr)); }
svg { width: 100%; height: auto; max-width: 40rem; }
svg text { fill: var(--text); font-size: 12px; }
svg .title { font-weight: 600; } svg .x { text-anchor: middle; } svg .y { text-anchor: end; }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--soft); fill: none; }
svg .line { fill: none; stroke-width: 1.6; }
svg .d1 { stroke-dasharray: 6 3; } svg .d2 { stroke-dasharray: 2 3; }
""" + "".join(
    f".c{n} {{ stroke: var(--c{n}); }} svg .dot.c{n} {{ fill: var(--c{n}); }}\n" for n in range(8)
)
STYLE += """.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0;
  list-style: none; font-size: .875rem; }
.legend svg { width: 2rem; height: .7rem; vertical-align: middle; margin-right: .4rem; }
.legend path { stroke-width: 3; fill: none; }
.sample { margin: 1rem 0; padding: .5rem .8rem; border: 1px solid var(--line);
  border-radius: .4rem; display: grid; gap: .6rem 1.2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(15rem, 100%), 1fr)); }
.sample dt { color: var(--soft); font-size: .8125rem; }
.sample dd { margin: 0; white-space: pre-line; max-height: 15rem; overflow-y: auto; }
.none { color: var(--soft); font-style: italic; }
"""


def write_page(
    path: Path,
    tables: Chapters,
    curves: Sequence[Curve] = (),
    samples: Sequence[Samples] = (),
    *,
    title: str = "Synthesizer experiments: results",
    problems: Sequence[str] = (),
) -> None:
    """Writes the page.

    Args:
      path: of the file.
      tables: heading -> its tables; a heading without tables is left out.
      curves, samples: as `runs.collect` finds them.
      title: of the page.
      problems: what could not be shown, told at the end.
    """
    chapters = [(head, "\n".join(map(_table, found))) for head, found in tables.items() if found]
    if curves:
        chapters.append(("Learning curves", _curves(curves)))
    if samples:
        chapters.append(("Samples", "\n".join(map(_samples, samples))))
    if problems:
        items = "".join(f"<li>{_text(line)}</li>" for line in problems)
        chapters.append(("Not shown", f"<ul>{items}</ul>"))
    links = "".join(
        f'<li><a href="#part-{n}">{escape(head)}</a></li>' for n, (head, _) in enumerate(chapters)
    )
    body = "\n".join(
        f'<section id="part-{n}"><h2>{escape(head)}</h2>\n{text}\n</section>'
        for n, (head, text) in enumerate(chapters)
    )
    write_text(
        path,
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # Nothing is loaded, and text of a model can do nothing.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<nav><ul>{links}</ul></nav>\n<main>\n{body}\n</main>\n</body>\n</html>\n",
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    rows = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    notes = "".join(f"<li>{_text(note)}</li>" for note in table.notes)
    made = "\n".join(
        f'<p id="{escape(anchor)}" class="soft">{escape(commands.label)}</p>\n'
        f"<pre>{escape(chr(10).join(commands.lines))}</pre>"
        for anchor, commands in table.commands.items()
    )
    folded = f"<details><summary>Commands</summary>\n{made}\n</details>" if made else ""
    return (
        f"<h3>{escape(table.title)}</h3>\n<p>{_text(table.intro)}</p>\n"
        f'<div class="scroll" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n'
        f'<tbody>\n{rows}\n</tbody></table></div>\n<ul class="notes">{notes}</ul>\n{folded}'
    )


def _cell(cell: Cell) -> str:
    text = escape(str(cell))
    return (
        f'<td><a href="#{escape(cell.anchor)}">{text}</a></td>'
        if cell.anchor
        else f"<td>{text}</td>"
    )


def _text(words: str) -> str:
    """Prose with Markdown's code and bold."""
    words = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(words))
    return re.sub(r"\*\*([^*]*)\*\*", r"<strong>\1</strong>", words)


def _curves(curves: Sequence[Curve]) -> str:
    colours = {row: number for number, row in enumerate(dict.fromkeys(c.row for c in curves))}
    parts = []
    for group in dict.fromkeys(curve.group for curve in curves):
        mine = [curve for curve in curves if curve.group == group]
        charts = [
            line_chart(name, "step", "loss", lines)
            for name, lines in (
                ("training loss", [Line(c.label, colours[c.row], c.train) for c in mine]),
                ("validation loss", [Line(c.label, colours[c.row], c.validation) for c in mine]),
            )
        ]
        legend = "".join(
            f'<li><svg viewBox="0 0 32 10" aria-hidden="true"><path class="{style(colours[row])}" '
            f'd="M0 5H32"/></svg>{escape(", ".join(c.label for c in mine if c.row == row))}</li>'
            for row in dict.fromkeys(curve.row for curve in mine)
        )
        parts.append(
            f'<h3>{escape(group)}</h3>\n<ul class="legend">{legend}</ul>\n'
            f'<div class="charts">{"".join(charts)}</div>'
        )
    return "\n".join(parts)


def _samples(samples: Samples) -> str:
    parts = [f"<h3>{escape(samples.title)}</h3>"]
    for row in samples.rows:
        texts = "".join(
            f'<div><dt>{escape(name)}</dt><dd dir="auto">{_words(words)}</dd></div>'
            for name, words in zip(samples.columns, row, strict=True)
        )
        parts.append(f'<dl class="sample">{texts}</dl>')
    return "\n".join(parts)


def _words(words: str) -> str:
    return escape(words) if words.strip() else '<span class="none">empty</span>'
