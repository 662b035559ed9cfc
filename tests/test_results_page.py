"""The HTML page: complete in itself, safe with any text, and readable on a phone."""

import json
import math
import os
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from result_records import BASE, ROOT, WMT14, make

from synth import results
from synth.results import Text, append
from synth.results.charts import MOST_POINTS, Line, line_chart, thinned, ticks
from synth.results.runs import collect

KEY = ("wmt_ende", "docs_ende", "test")
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> & \"quotes\" 'single' <!-- \u2028 \u202e"
)
TEXT = Text([f"source {n} {HOSTILE}" for n in range(3)], [f"reference {n}" for n in range(3)])


def add_run(directory: Path, variant: str = "random", seed: int = 0, **overrides: Any) -> Path:
    """A run directory with four logged losses and three hypotheses."""
    (directory / "eval").mkdir(parents=True)
    config = {
        "seed": seed,
        "scale": "small",
        "data": {"task": "wmt_ende", "dataset": "docs_ende"},
        "model": {"attention": {"variant": variant, "mix": "softmax"}},
    }
    (directory / "run.json").write_text(json.dumps({"config": config, "overrides": overrides}))
    lines = [{"step": n, "train/loss": 5.0 - n / 10, "timing": {}} for n in (10, 20, 30)]
    lines.append({"step": 30, "validation/loss": 2.5, "timing": {}})
    lines.append({"step": 40, "train/loss": math.nan, "timing": {}})
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_output(directory, "test-step30-beam4-alpha0.6.txt", f"{variant} {HOSTILE}")
    return directory


def write_output(run: Path, name: str, words: str, count: int = 3):
    (run / "eval" / name).write_text("".join(f"{words} {n}\n" for n in range(count)), "utf-8")


@pytest.fixture
def directory(tmp_path) -> Path:
    """A results directory with records, and two runs beside it."""
    (tmp_path / "paper.json").write_bytes((ROOT / "results" / "paper.json").read_bytes())
    hostile = make(device=HOSTILE, command=HOSTILE, signature=HOSTILE, seed=1, variant="dense")
    append(tmp_path / "runs.jsonl", [BASE, hostile, make(**WMT14, metric="bleu_intl")])
    add_run(tmp_path / "runs" / "a")
    add_run(tmp_path / "runs" / "b", "vanilla", **{"model.num_layers": 3})
    return tmp_path


@pytest.fixture
def page(directory) -> Path:
    path = directory / "page.html"
    runs = (directory / "runs").iterdir()
    assert results.write_html(directory, path, runs, {KEY: TEXT}) == []
    return path


class Outline(HTMLParser):
    """Tags in order, properly nested; ids, links and addresses."""

    VOID = ("meta", "br", "img", "link")

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.links.append(value or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_is_well_formed_and_needs_nothing_else(page):
    outline = Outline(page.read_text("utf-8"))
    assert outline.open == []
    assert outline.tags["h1"] == outline.tags["main"] == 1
    assert not {"script", "img", "link", "iframe", "object"} & outline.tags.keys()
    assert not [name for name in outline.attributes if name.startswith("on") or name == "style"]
    assert all(link.startswith("#") for link in outline.links)
    assert {link[1:] for link in outline.links} <= set(outline.ids)
    assert len(outline.ids) == len(set(outline.ids))
    assert "url(" not in page.read_text("utf-8") and "@import" not in page.read_text("utf-8")


def test_every_table_is_on_it(page):
    text = page.read_text("utf-8")
    outline = Outline(text)
    assert outline.tags["table"] == 9 + 1
    assert 'href="#wmt-5">10.00 (n=1)</a>' in text  # the fifth row of the paper's table
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "prefers-color-scheme: dark" in text


def test_hostile_text_stays_text(page):
    outline = Outline(page.read_text("utf-8"))
    words = "".join(outline.words)
    # Three sources, two hypotheses of each, and device, command and signature of a record.
    assert words.count("<script>alert(1)</script><img src=x onerror=alert(2)>") == 3 + 6 + 3


def test_samples_stand_side_by_side(page):
    text = page.read_text("utf-8")
    assert text.count('<dl class="sample">') == 3
    first = text.split('<dl class="sample">')[1].split("</dl>")[0]
    assert re.findall("<dt>(.*?)</dt>", first) == [
        "source", "reference", "random, seed 0 (a)", "vanilla, seed 0 (b; model.num_layers=3)",
    ]  # fmt: skip
    assert '<dd dir="auto">reference 0</dd>' in first


def test_curves_are_of_the_runs_and_without_nan(directory):
    found = collect((directory / "runs").iterdir(), {})
    assert [curve.label for curve in found.curves] == [
        "random, seed 0 (a)", "vanilla, seed 0 (b; model.num_layers=3)",
    ]  # fmt: skip
    assert found.curves[0].train == [(10, 4.0), (20, 3.0), (30, 2.0)]
    assert found.curves[0].validation == [(30, 2.5)]
    assert found.curves[0].group == "wmt_ende, scale=small, on docs_ende"
    assert found.samples == [] and found.problems == []


def test_the_last_step_and_the_widest_beam_are_shown(directory):
    run = directory / "runs" / "a"
    write_output(run, "test-step30-beam1-alpha0.txt", "greedy")
    write_output(run, "test-step30-beam10-alpha1.txt", "wide\u2028line")
    write_output(run, "test-step9-beam20-alpha1.txt", "early")
    write_output(run, "validation-step30-beam4.txt", "other split")
    write_output(run, "notes.txt", "no output")
    (samples,) = collect([run], {KEY: TEXT}).samples
    assert [row[2] for row in samples.rows] == [f"wide\u2028line {n}" for n in range(3)]
    assert samples.title == "wmt_ende, scale=small, on docs_ende (test)"


@pytest.mark.parametrize(("count", "places"), [(1, [0]), (2, [0, 99]), (4, [0, 33, 66, 99])])
def test_samples_are_spread_over_the_test_set(directory, count, places):
    write_output(directory / "runs" / "a", "test-step40-beam4.txt", "line", 100)
    lines = [str(n) for n in range(100)]
    (samples,) = collect([directory / "runs" / "a"], {KEY: Text(lines, lines)}, count).samples
    assert samples.rows == [[str(n), str(n), f"line {n}"] for n in places]


def test_what_cannot_be_shown_is_told_and_the_rest_is_shown(directory):
    runs = directory / "runs"
    write_output(runs / "a", "test-step40-beam4.txt", "short", 2)
    (add_run(runs / "c", "dense") / "run.json").write_text("{}")
    (add_run(runs / "d", "dense") / "metrics.jsonl").write_text('{"step": 1\n{"step": 2}\n')
    (add_run(runs / "e", "dense") / "metrics.jsonl").write_text(
        '{"step": 1, "train/loss": 4.0}\n{"step": 2, "train/lo'
    )
    (runs / "empty").mkdir()
    path = directory / "page.html"
    problems = results.write_html(directory, path, runs.iterdir(), {KEY: TEXT})
    assert [problem.partition(": ")[0] for problem in problems] == [str(runs / n) for n in "acd"]
    assert "2 hypotheses for 3 lines of wmt_ende, docs_ende, test" in problems[0]
    text = path.read_text("utf-8")
    assert "<h2>Not shown</h2>" in text
    assert "dense, seed 0 (e)" in text and "vanilla, seed 0 (b;" in text


def test_a_page_without_runs(directory):
    path = directory / "page.html"
    results.write_html(directory, path)
    assert "Learning curves" not in path.read_text("utf-8")
    assert "Samples" not in path.read_text("utf-8")


# --- Charts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0, 1200, [0, 500, 1000]),
        (2.43, 2.71, [2.5, 2.6, 2.7]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
        (3, 524_288, [200_000, 400_000]),
    ],
)
def test_ticks_are_round_numbers(low, high, expected):
    assert ticks(low, high) == expected


def test_long_curves_are_thinned_to_means():
    points = [(float(n), float(n % 2)) for n in range(1, 3001)]
    found = thinned(points)
    assert len(found) <= MOST_POINTS and found[-1] == points[-1]
    # 3,000 / 240 = 12.5: groups of 13. Of 1 to 13 the mean is 7, and seven are odd.
    assert found[0] == (7.0, 7 / 13)
    assert thinned(points[:MOST_POINTS]) == points[:MOST_POINTS]


def test_a_chart_is_drawn_where_its_axes_say():
    svg = line_chart("loss", "step", "nats", [
        Line("a<b>&", 0, [(0, 1.0), (100, 3.0)]),
        Line("ninth", 8, [(50, 2.0), (100, 1.0)]),
        Line("none", 2, []),
    ])  # fmt: skip
    root = ElementTree.fromstring(svg)
    lines = [path for path in root.iter("path") if (path.get("class") or "").startswith("line")]
    # The drawing is 44 to 378 across and 230 (low) up to 26: 100 steps, losses 1 to 3.
    assert [path.get("d") for path in lines] == [
        "M44.0 230.0L378.0 26.0",
        "M211.0 128.0L378.0 230.0",
    ]
    assert [path.get("class") for path in lines] == ["line c0 d0", "line c0 d1"]
    assert [title.text for title in root.iter("title")] == ["a<b>&", "ninth"]


def test_a_chart_of_one_point_or_none():
    assert line_chart("t", "x", "y", [Line("a", 0, [])]) == ""
    root = ElementTree.fromstring(line_chart("t", "x", "y", [Line("a", 0, [(5, 1.0)])]))
    (dot,) = root.iter("circle")
    assert (dot.get("cx"), dot.get("cy")) == ("211.0", "128.0")


# --- In a browser: pytest -m browser --------------------------------------------------------------

PROBE = """<script>addEventListener("load", () => {
  document.title = JSON.stringify({wide: document.documentElement.scrollWidth,
    window: innerWidth, open: document.querySelectorAll("details[open]").length,
    ground: getComputedStyle(document.body).backgroundColor,
    lines: [...document.querySelectorAll("svg .line")].every((l) => l.getTotalLength() >= 0),
    alerts: window.alerts || 0});
}); window.alert = () => { window.alerts = (window.alerts || 0) + 1; };</script>"""


def look(page: Path, width: int, *flags: str, fragment: str = "") -> dict[str, Any]:
    """What Chromium says of the page in a window of this width."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    assert browser, "no Chromium on the PATH; name one in CHROMIUM"
    text = re.sub(r"<meta http-equiv[^>]*>", PROBE, page.read_text("utf-8"))
    copy = page.with_name("probe.html")
    copy.write_text(text, "utf-8")
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
        f"--user-data-dir={page.parent / 'browser'}", *flags, "--dump-dom",
        copy.as_uri() + fragment,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    (found,) = re.findall("<title>(\\{.*?\\})</title>", done.stdout)
    return json.loads(found)


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_is_wider_than_the_window(page, width):
    found = look(page, width)
    assert found["wide"] <= found["window"]
    assert found["lines"] and found["alerts"] == 0


@pytest.mark.browser
def test_a_link_to_commands_unfolds_them(page):
    assert look(page, 800)["open"] == 0
    assert look(page, 800, fragment="#wmt-5")["open"] == 1


@pytest.mark.browser
def test_dark_and_light(page):
    light = look(page, 800, "--blink-settings=preferredColorScheme=1")["ground"]
    dark = look(page, 800, "--blink-settings=preferredColorScheme=0")["ground"]
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(22, 22, 26)")
