"""What is written where: Markdown, CSV, LaTeX and the README's part."""

import csv
import io
import re
from functools import partial
from pathlib import Path

import pytest
from result_records import BASE, WMT14, make, render_pages, row

from synth import results
from synth.results import ResultsError


@pytest.fixture
def store(tmp_path) -> Path:
    return tmp_path / "runs.jsonl"


@pytest.fixture
def pages(tmp_path):
    """Renders records: name of a page -> its text."""
    return partial(render_pages, tmp_path)


# Files


def test_nothing_is_written_twice_and_line_order_is_no_matter(tmp_path, pages, store):
    first = pages(*(make(seed=n, value=float(n)) for n in range(4)))
    assert results.render(tmp_path) == []
    store.write_text("\n".join(reversed(store.read_text().splitlines())))
    assert results.render(tmp_path) == []
    assert pages() == first
    kept = {p.name for p in tmp_path.iterdir()} - {p.name for p in tmp_path.glob("*.md")}
    assert kept == {"paper.json", "runs.jsonl", "csv", "latex"}


TABLES = (
    "c4", "cnn_dailymail", "encoder_only", "glue", "lm1b", "narang", "personachat", "superglue",
    "wmt",
)  # fmt: skip


def test_every_table_is_there_in_three_forms(tmp_path, pages):
    pages(BASE)
    names = sorted([*TABLES, "small_wmt_ende_docs_ende_test"])
    assert sorted(path.stem for path in tmp_path.glob("csv/*")) == names
    assert sorted(path.stem for path in tmp_path.glob("latex/*")) == names
    titles = [line for path in tmp_path.glob("*.md") for line in path.read_text().splitlines()]
    assert len([line for line in titles if line.startswith("### ")]) == len(names)


def test_files_of_runs_that_are_gone_go(tmp_path, pages, store):
    pages(BASE, make(task="questions", dataset="ours"))
    mine = tmp_path / "csv" / "mine.csv"
    mine.write_text("a,b\n")
    assert (tmp_path / "small_other.md").exists()
    store.write_text(make(seed=1, dataset="other").to_json() + "\n")
    gone = [path.name for path in results.render(tmp_path) if not path.exists()]
    assert sorted(gone) == [
        "small_other.md",
        *(f"small_questions_ours_test.{kind}" for kind in ("csv", "tex")),
        *(f"small_wmt_ende_docs_ende_test.{kind}" for kind in ("csv", "tex")),
    ]
    assert mine.exists()


def test_a_figure_links_to_the_commands_that_made_it(pages):
    mine = make(**WMT14, metric="bleu_intl", command="python train.py --seed=1")
    other = make(**WMT14, metric="bleu_intl", seed=1, command="python train.py --seed=2")
    vanilla = make(**WMT14, metric="bleu_intl", variant="vanilla", command="python train.py --v")
    text = pages(mine, other, vanilla)["wmt_lm1b.md"]
    (anchor,) = set(re.findall(r"\[10\.00 ± 0\.00 \(n=2\)\]\(#([\w-]+)\)", text))
    block = text.split(f'<a id="{anchor}"></a>Synthesizer (Random):\n\n```sh\n')[1].split("```")[0]
    assert block.splitlines() == [
        "python train.py --seed=1",
        "python eval.py --seed=0",
        "python train.py --seed=2",
    ]
    assert "python train.py --v" in text


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_holds_numbers(pages):
    records = [make(**WMT14, metric="bleu_intl", seed=n, value=27.0 + n) for n in (0, 1)]
    rows = {row["Model"]: row for row in read_csv(pages(*records)["wmt.csv"])}
    assert len(rows) == 11
    random = rows["Synthesizer (Random)"]
    # Sample standard deviation of 27 and 28: sqrt(0.5) = 0.7071.
    assert random["En-De intl, ours"] == "27.50" and random["En-De intl, ours std"] == "0.71"
    assert random["En-De intl, ours n"] == "2" and random["En-De Δ"] == "+0.23"
    assert random["En-De, paper"] == "27.27"
    assert rows["Synthesizer (Dense)"]["En-De intl, ours"] == ""
    assert rows["Synthesizer (Dense)"]["En-De intl, ours n"] == "0"
    assert rows["Transformer (Vaswani et al., 2017)"]["En-De intl, ours n"] == ""


def test_csv_keeps_marks_apart(pages):
    rows = {row["Model"]: row for row in read_csv(pages()["c4.csv"])}
    assert rows["Synthesizer (R)"]["Log ppl, paper"] == "1.972"
    assert rows["Synthesizer (R)"]["Log ppl, paper mark"] == "(M)"
    assert rows["Lightweight Convolution"]["Log ppl, paper mark"] == "(L)"


def test_csv_quotes_what_it_must(pages):
    text = pages(make(device='a,"b"'))["small_wmt_ende_docs_ende_test.csv"]
    assert read_csv(text)[0]["Device"] == 'a,"b"'
    assert read_csv(text)[0]["Steps"] == "2000"


def test_latex_is_of_booktabs_and_escaped(pages):
    ours = {"device": "50% & a_b #1 {x}", "signature": "a^b~c\\d_e|$"}
    text = pages(make(**ours), make(**ours, seed=1, value=11.0))[
        "small_wmt_ende_docs_ende_test.tex"
    ]
    for part in ("\\toprule", "\\midrule", "\\bottomrule", "\\begin{table}", "\\end{table}"):
        assert text.count(part) == 1
    assert "10.50 $\\pm$ 0.71" in text
    assert "50\\% \\& a\\_b \\#1 \\{x\\}" in text
    assert "\\texttt{a\\textasciicircum{}b\\textasciitilde{}c\\textbackslash{}d\\_e|\\$}" in text
    assert "\\label{tab:small_wmt_ende_docs_ende_test}" in text
    assert "\\textbf{not comparable with the paper's figures}" in text


def test_latex_has_balanced_braces_and_ascii_marks(pages):
    text = pages(make(**WMT14, metric="bleu_intl"))
    for name in (name for name in text if name.endswith(".tex")):
        page = text[name].replace("\\{", "").replace("\\}", "")
        assert page.count("{") == page.count("}"), name
        assert not set("±Δ†") & set(page), name
        columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", page)
        assert columns
        body = page.split("\\midrule")[1].split("\\bottomrule")[0].replace("\\&", "")
        for line in filter(None, body.splitlines()):
            if "\\\\" in line:
                assert line.count("&") == len(columns[1]) - 1, name


def test_hostile_names_stay_text(pages):
    text = pages(
        make(device="<script>`x`|y\nz"), make(variant="<b>", command="a ``` b", empty_outputs=1)
    )
    page = text["small_wmt_lm1b.md"]
    assert "<script>" not in page and "<b>" not in page
    assert "&lt;script&gt;`x`\\|y z" in page
    assert "````sh\na ``` b\n" in page


def test_readme_between_its_markers(tmp_path, pages):
    readme = tmp_path / "README"
    readme.write_text("above\n<!-- results:begin -->old<!-- results:end -->\nbelow\n")
    pages(BASE)
    assert results.render(tmp_path, readme) == [readme]
    text = readme.read_text("utf-8")
    assert text.startswith("above\n<!-- results:begin -->\n\n### wmt_ende, scale=small")
    assert text.endswith("\n<!-- results:end -->\nbelow\n") and "old" not in text
    assert row(text, "Synthesizer (Dense)")[3] == "27.43"
    for name in ("generation", "glue", "superglue", "c4", "encoder_only", "narang"):
        assert f"]({name}.md)" in text.replace("(./", "(")
    assert "[CSV](./csv)" in text
    assert results.render(tmp_path, readme) == []


@pytest.mark.parametrize(
    "text", ["", "<!-- results:begin -->", "<!-- results:end --><!-- results:begin -->"]
)
def test_readme_without_markers(tmp_path, pages, text):
    readme = tmp_path / "README"
    readme.write_text(text)
    pages()
    with pytest.raises(ResultsError, match="needs one <!-- results:begin -->"):
        results.render(tmp_path, readme)
    assert readme.read_text() == text
