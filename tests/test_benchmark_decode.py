"""The benchmark of decoding runs, and all ways in it find as many tokens."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import decode
from benchmarks.peers import flax_wmt


def test_the_table_of_decoding_has_a_row_for_each_way(tmp_path, capsys):
    page = tmp_path / "decode.md"
    flags = ["--size=tiny", "--lines=4", "--rounds=1", "--variants=random", f"--write={page}"]
    assert decode.main(flags) == 0
    assert capsys.readouterr().out.strip() in page.read_text("utf-8")
    rows = [line.split("|")[1:-1] for line in page.read_text("utf-8").splitlines() if "|" in line]
    found = {(row[0].strip(), row[1].strip()) for row in rows}
    assert {(way, how) for way in ("random", "flax wmt") for how in ("greedy", "beam 4")} <= found


def test_all_ways_of_decoding_find_as_many_tokens(monkeypatch):
    """As many as each line is to have, the example too."""
    monkeypatch.setattr(decode, "PEER_LENGTH", 24)
    sizes, lines = decode.SIZES["tiny"], decode.make_lines(4, 22, 50)
    for beam in (1, 4):
        (found,) = decode.the_example(sizes, beam, lines)()
        np.testing.assert_array_equal((np.asarray(found) != 0).sum(axis=1), lines.ends_N)
        total = sum(int((out != 0).sum()) for out in decode.ours("tiny", "random", beam, lines)())
        batches = decode.sorted_batches("tiny", lines)
        assert total == sum(int(ends_B.sum()) for _, ends_B, _ in batches)


def test_a_step_of_the_example_equals_its_full_pass():
    sizes = decode.SIZES["tiny"]
    inputs, targets = jnp.array([[3, 4, 1, 0]]), jnp.array([[0, 5, 6, 7]])
    params = flax_wmt.variables(sizes, inputs, 4, params=True)
    cache = flax_wmt.variables(sizes, inputs, 4, params=False)
    model = flax_wmt.Translator(sizes, 4, decode=True)
    encoded = model.apply({"params": params}, inputs, method="encode")
    rows: list[Any] = []
    for index in range(4):
        one = targets[:, index : index + 1]
        logits, changed = cast(Any, model).apply(
            {"params": params, "cache": cache},
            *(encoded, inputs, one, index),
            mutable=["cache"],
            method="logits",
        )
        cache = changed["cache"]
        rows.append(logits[:, 0])
    longer = jax.tree.leaves(cache)
    assert longer and all(leaf.ndim == 0 or leaf.shape[1] == 4 for leaf in longer)
    plain = flax_wmt.Translator(sizes, 4)
    whole = cast(Any, plain).apply({"params": params}, inputs, targets)
    np.testing.assert_allclose(jnp.stack(rows, axis=1), whole, rtol=1e-4, atol=1e-5)
