"""A finished table as Markdown, CSV and LaTeX."""

import csv
import io
import re
from collections.abc import Sequence

from tabulate import tabulate

from synth.results.figures import NONE, NOT_RUN, Cell, Table


def markdown(table: Table) -> str:
    """A section: heading, what the table is, the table, its notes, and the commands folded away.

    A figure of ours links to the commands that made it.
    """
    parts = [
        f"### {table.title}",
        table.intro,
        _grid(table, "pipe", [[_linked(cell) for cell in row] for row in table.rows]),
        "\n".join(f"- {_prose(note)}" for note in table.notes),
    ]
    if table.commands:
        blocks = (
            f'<a id="{anchor}"></a>{_text(made.label)}:\n\n{_fenced(made.lines)}'
            for anchor, made in table.commands.items()
        )
        body = "\n\n".join(blocks)
        parts.append(f"<details><summary>Commands</summary>\n\n{body}\n\n</details>")
    return "\n\n".join(part for part in parts if part) + "\n"


def _grid(table: Table, tablefmt: str, rows: Sequence[Sequence[str]]) -> str:
    # Numbers stay the strings they are: one "-" would make tabulate reformat its whole column.
    return tabulate(
        rows,
        list(table.header),
        tablefmt=tablefmt,
        disable_numparse=True,
        colalign=["left", *["right"] * (len(table.header) - 1)],
    )


def _linked(cell: Cell) -> str:
    text = _text(str(cell))
    return f"[{text}](#{cell.anchor})" if cell.anchor else text


def _text(words: str) -> str:
    """What Markdown would take for mark-up, in a cell, is text."""
    return _no_tags(_one_line(words)).replace("|", "\\|")


def _prose(note: str) -> str:
    """A note, whose bold and code are mark-up, and nothing else is."""
    parts = re.split("(`[^`]*`)", _one_line(note))
    return "".join(part if part.startswith("`") else _no_tags(part) for part in parts)


def _no_tags(words: str) -> str:
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _fenced(lines: Sequence[str]) -> str:
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join((f"{fence}sh", *lines, fence))


def to_csv(table: Table) -> str:
    """Columns of plain values: where figures have them, their std, n and mark stand in columns of
    their own. A figure that there is not is empty, with n = 0 if it was not run."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.header)
    header: list[str] = []
    written: list[list[str]] = []
    for name, cells in zip(table.header, columns, strict=True):
        for suffix, values in _csv_columns(cells).items():
            header.append(f"{name}{suffix}")
            written.append(values)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*written, strict=True))
    return out.getvalue()


def _csv_columns(cells: Sequence[Cell]) -> dict[str, list[str]]:
    columns = {"": ["" if c.text in (NONE, NOT_RUN) else _plain_number(c.text) for c in cells]}
    if any(c.n is not None or c.text == NOT_RUN for c in cells):
        columns[" n"] = ["0" if c.text == NOT_RUN else str(c.n or "") for c in cells]
    if any(c.spread for c in cells):
        columns[" std"] = [c.spread for c in cells]
    if any(c.mark for c in cells):
        columns[" mark"] = [c.mark for c in cells]
    return columns


def _plain_number(text: str) -> str:
    """1,200 without its comma."""
    return text.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", text) else text


# tabulate escapes what LaTeX reserves; these are letters to it.
_LATEX_SIGNS = {"±": r"$\pm$", "Δ": r"$\Delta$", "†": r"$^\dagger$"}
_LATEX_RESERVED = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def latex(table: Table) -> str:
    """A table for `\\usepackage{booktabs,graphicx}`: caption, grid at most a line wide, notes."""
    plain = [[_one_line(str(cell)) for cell in row] for row in table.rows]
    grid = _signs(_grid(table, "latex_booktabs", plain))
    notes = "\n".join(f"{_latex_text(note)}\\\\" for note in table.notes)
    parts = [
        "% Generated from runs.jsonl and paper.json; needs \\usepackage{booktabs,graphicx}.",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{_latex_text(table.title)}. {_latex_text(table.intro)}}}",
        f"\\label{{tab:{table.name}}}",
        "% as small as the line is wide, and no larger than it is",
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
        f"{grid}}}",
        f"\\par\\smallskip\\raggedright\\footnotesize\n{notes}",
        "\\end{table}",
    ]
    return "\n".join(parts) + "\n"


def _latex_text(text: str) -> str:
    """Prose: Markdown's code and bold become LaTeX's, the rest is escaped."""
    found = re.split(r"(`[^`]*`|\*\*[^*]*\*\*)", _one_line(text))
    return _signs("".join(map(_latex_span, found)))


def _latex_span(part: str) -> str:
    for sign, command in (("`", "texttt"), ("**", "textbf")):
        if len(part) > 2 * len(sign) and part.startswith(sign) and part.endswith(sign):
            return f"\\{command}{{{_escaped(part.strip(sign))}}}"
    return _escaped(part)


def _escaped(text: str) -> str:
    return "".join(_LATEX_RESERVED.get(letter, letter) for letter in text)


def _signs(text: str) -> str:
    for sign, command in _LATEX_SIGNS.items():
        text = text.replace(sign, command)
    return text
