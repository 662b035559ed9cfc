"""The benchmark runs, and its plain loop makes the same batches of the same text."""

import numpy as np
from conftest import ROOT

from benchmarks import data as benchmark
from data import batching, show


def test_the_table_has_a_row_for_each_way(data_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(benchmark, "SECONDS", 0.02)
    monkeypatch.setattr(benchmark, "ROUNDS", 1)
    page = tmp_path / "data.md"
    tasks = "lm1b,imdb"
    assert benchmark.main([f"--data_dir={data_dir}", f"--tasks={tasks}", f"--write={page}"]) == 0
    assert capsys.readouterr().out.strip() in page.read_text("utf-8")
    rows = [
        line.split("|")[1:-1] for line in page.read_text("utf-8").splitlines() if "web_" in line
    ]
    assert [row[2].strip() for row in rows][:2] == ["ours", "plain loop"]
    assert all(int(row[4].replace(",", "")) > 0 for row in rows)


def test_the_plain_loop_does_the_same_work(data_dir, monkeypatch):
    monkeypatch.chdir(ROOT)
    view = show.open_view("wmt_ende", split="test", data_dir=data_dir)
    layout, tokenizer = view.layout, view.tokenizer
    batch = next(benchmark.plain_loop(view.split, tokenizer, layout))
    ids_of = batching.encode(view.split.__getitems__(range(layout.rows(96))), tokenizer)
    for side, ids in ids_of.items():
        for row_L, expected in zip(batch[side], ids, strict=True):
            np.testing.assert_array_equal(row_L[row_L > 0], batching.truncate(expected, 96))
    assert benchmark.count_examples(batch) == layout.rows(96)
