"""What a model writes for all inputs of a split, kept as it comes so that nothing is done twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from data.tasks.task import Example
from synth import distributed, lines
from synth.decoding import Search, make_decoder
from synth.experiment import Experiment, evaluation_batches
from synth.files import append_text, read_text, write_text
from synth.passes import run_pass
from synth.progress import say


def write_outputs(
    experiment: Experiment,
    params: Any,
    fixed: Any,
    examples: Sequence[Example],
    search: Search,
    *,
    batch_tokens: int,
    part: Path | None = None,
) -> list[str]:
    """The output for each example of a split, in order, each on one line (`lines.to_line`).

    Args:
      experiment, params, fixed: the model.
      examples: of the split, in order; their targets are not looked at.
      search: how outputs are found.
      batch_tokens: input tokens decoded at once.
      part: where outputs are kept until all are there. What an interrupted call left in it is
        taken as it is; the caller removes it. None keeps nothing.
    """
    known = _read(part) if part else {}
    if known:
        say(f"going on after {len(known)} lines of {part}")
    batches = evaluation_batches(
        experiment, examples, batch_tokens=batch_tokens, sources_only=True, skip=known.keys()
    )
    decode_batch = make_decoder(experiment, search)

    def step(batch):
        return decode_batch(params, fixed, batch)

    for tokens_BT, batch in run_pass(experiment, batches, step, "decoding"):
        real = [(i, row) for i, row in zip(batch["index"], tokens_BT, strict=True) if i >= 0]
        texts = experiment.tokenizer.decode([row for _, row in real])
        found = {
            int(index): lines.to_line(line, experiment.task)
            for (index, _), line in zip(real, texts, strict=True)
        }
        known |= found
        if part and distributed.is_first():
            append_text(part, "".join(map(_line, found.items())))
    return [known[index] for index in range(len(examples))]


def _read(part: Path) -> dict[int, str]:
    """Whole lines of a part; what a crash cut off in the middle is made again."""
    known: dict[int, str] = {}
    if jax.process_count() > 1 or not part.exists():
        return known  # processes would have to see the same files
    for line in read_text(part).splitlines():
        try:
            record = json.loads(line)
            known[record["index"]] = record["output"]
        except (ValueError, KeyError, TypeError):
            break
    write_text(part, "".join(map(_line, known.items())))
    return known


def _line(item: tuple[int, str]) -> str:
    return json.dumps({"index": item[0], "output": item[1]}) + "\n"
