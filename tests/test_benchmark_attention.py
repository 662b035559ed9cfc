"""The benchmark of attention has a row for every variant."""

from benchmarks import attention, measure


def test_a_row_for_each_variant(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(attention, "TOKENS", 32)
    page = tmp_path / "page.md"
    assert attention.main(["--lengths=16", "--masks=causal", "--rounds=1", f"--write={page}"]) == 0
    assert capsys.readouterr().out.strip() in page.read_text("utf-8")
    rows = [
        line.split("|")[1:-1] for line in page.read_text("utf-8").splitlines() if "16 x" in line
    ]
    assert [row[2].strip() for row in rows] == list(measure.VARIANTS)
    assert all(float(cell) > 0 for row in rows for cell in row[3:])
