"""The benchmark runs, and its plain loop makes the same batches of the same text."""

import numpy as np
from conftest import ROOT

from benchmarks import data as benchmark
from data import batching, command
from data.sources import open_split
from data.tasks import get_task
from data.tokenizer import load_or_train


def test_the_table_has_a_row_for_each_way(data_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(benchmark, "SECONDS", 0.02)
    monkeypatch.setattr(benchmark, "ROUNDS", 1)
    page = tmp_path / "data.md"
    tasks = "lm1b,imdb"
    assert benchmark.main([f"--data_dir={data_dir}", f"--tasks={tasks}", f"--write={page}"]) == 0
    assert page.read_text("utf-8") == capsys.readouterr().out
    rows = [
        line.split("|")[1:-1] for line in page.read_text("utf-8").splitlines() if "web_" in line
    ]
    assert [row[2].strip() for row in rows][:2] == ["ours", "plain loop"]
    assert all(int(row[4].replace(",", "")) > 0 for row in rows)


def test_the_plain_loop_does_the_same_work(data_dir, monkeypatch):
    monkeypatch.chdir(ROOT)
    task, config = get_task("wmt_ende"), command.config_of("wmt_ende", "small")
    dataset = task.dataset("docs_ende")
    split = open_split(dataset, "test", data_dir=data_dir)
    tokenizer = load_or_train(task, dataset, vocab_size=2000, data_dir=data_dir)
    layout = batching.make_layout(task, max_length=96, data=config.data.to_dict())
    batch = next(benchmark.plain_loop(split, tokenizer, layout))
    ids_of = batching.encode(split.__getitems__(range(layout.rows(96))), tokenizer)
    for side, ids in ids_of.items():
        for row_L, expected in zip(batch[side], ids, strict=True):
            np.testing.assert_array_equal(row_L[row_L > 0], batching.truncate(expected, 96))
    assert benchmark.count_examples(batch) == layout.rows(96)
