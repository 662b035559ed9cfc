"""The page of what fits: every row is there, and what was compiled is not compiled again."""

import pytest
from conftest import ROOT

from benchmarks import fits
from configs import lm1b, wmt_ende, wmt_enfr

pytestmark = pytest.mark.usefixtures("in_root")


def fake_report(config, name):
    memory = {"total": 3 << 30, "temporaries": 1 << 30, "limit": 15 << 30}
    program = {
        "memory": memory,
        "flops": 5e12,
        "collectives": {"all-reduce": {"bytes": 7_000_000}},
        "rematerialised": 0,
    }
    fit = "random" not in config.model.attention.variant
    return {"programs": [program], "memory_limit": 15 << 30, "fits": fit}


def test_every_row_of_a_run_card_is_there(tmp_path, capsys, monkeypatch):
    page = tmp_path / "fits.md"
    flags = ["--topologies=v3-8,v5e-16", f"--store={tmp_path}/fits.jsonl", f"--write={page}"]
    compiled = []

    def compile_row(config, name):
        compiled.append((name, config.data.task, config.model.attention.variant))
        return fake_report(config, name)

    assert fits.main(flags, compile_row) == 0
    text = page.read_text("utf-8")
    assert capsys.readouterr().out.strip() == text.strip()
    assert len(compiled) == len(set(compiled)) == 2 * len(fits.paper_rows(ROOT / "configs"))
    for section in text.split("\n## ")[1:]:
        rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")]
        cells = {(row[0].strip(), row[1].strip()): [c.strip() for c in row[2:]] for row in rows}
        assert cells["wmt_ende, wmt_enfr", "vanilla"] == ["3.00", "yes", "5,000", "7"]
        assert cells["lm1b", "random+vanilla"][1] == "NO"
        assert cells["c4", "dense+vanilla"][1] == "yes"
    assert fits.main(flags, lambda *_: pytest.fail("compiled again")) == 0
    capsys.readouterr()

    # Other versions may give other figures: theirs are not taken.
    monkeypatch.setattr(fits.measure, "version", lambda package: f"{package} of tomorrow")
    assert fits.read(tmp_path / "fits.jsonl") == {}


def test_a_row_that_was_not_compiled_says_so():
    rows = fits.paper_rows(ROOT / "configs")
    assert fits.section("it", "v5e-16", rows, {}).count("not compiled") == len(rows)
    assert sum(len(row.names) for row in rows) == 63


def test_what_differs_in_the_program_is_not_compiled_as_one():
    keys = {
        fits.program_key(config)
        for config in (
            wmt_ende.get_config("random"),
            wmt_ende.get_config("dense"),
            lm1b.get_config("random"),
        )
    }
    assert len(keys) == 3
    same = (wmt_ende.get_config("random"), wmt_enfr.get_config("random"))
    assert len({fits.program_key(config) for config in same}) == 1


def test_a_mistake_in_the_config_is_told_on_the_page():
    (row, *_) = fits.paper_rows(ROOT / "configs")

    def refuse(config, name):
        raise fits.UserError("64 devices do not divide 32 rows")

    found = fits.summary(refuse, row, "v5e-16")
    assert fits.cells(found) == ("-", "64 devices do not divide 32 rows", "-", "-")
