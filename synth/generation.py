"""Outputs of a trained run for lines of text: translations, summaries, continuations, labels."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from data import batching, tasks
from synth import decoding_memory, lines, sharding
from synth.decoding import Sampling, Search, make_decoder, output_length
from synth.errors import UserError
from synth.experiment import Experiment, layout
from synth.progress import say
from synth.rundir import RunDir
from synth.steps import make_label_step
from synth.trained import load_trained

_WINDOW = 512  # lines planned at once, at least


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What a user may choose; None takes the run's config or the default.

    Attributes:
      beam, alpha: of the search.
      sample: draw the outputs; the next five need it.
      temperature, top_k, top_p: see `decode.sample`.
      seed: of the draws.
      n: samples of each line.
      max_tokens: the most tokens of an output.
    """

    beam: int | None = None
    alpha: float | None = None
    sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    n: int | None = None
    max_tokens: int | None = None

    def check(self, kind: str) -> None:
        """Raises UserError for values that do not exist, fit together or have a use."""
        given = {
            name: value
            for name, value in dataclasses.asdict(self).items()
            if value is not None and value is not False
        }
        searching, sampling = {"beam", "alpha"} & given.keys(), _DRAWING & given.keys()
        if kind == "classification" and given:
            raise UserError(f"--{min(given)} has no use: this run gives labels, not text")
        if self.sample and searching:
            raise UserError(f"--{min(searching)} is for searching, not for --sample: give one")
        if sampling and not self.sample:
            raise UserError(f"--{min(sampling)} goes with --sample")
        for name, value in given.items():
            fits, told = _RANGES.get(name, (lambda _: True, ""))
            if not fits(value):
                raise UserError(f"--{name}={value} must be {told}")

    def search(self, config: Any) -> Search:
        """The search, with what is not chosen from the config."""
        settings = config.decode
        sampling = None
        if self.sample:
            chosen = {f.name: getattr(self, f.name) for f in dataclasses.fields(Sampling)}
            sampling = Sampling(**{k: v for k, v in chosen.items() if v is not None})
        return Search(
            beam=settings.beam if self.beam is None else self.beam,
            alpha=settings.alpha if self.alpha is None else self.alpha,
            extra_length=settings.extra_length,
            max_tokens=self.max_tokens,
            sampling=sampling,
        )


_DRAWING = {"temperature", "top_k", "top_p", "seed", "n"}
_AT_LEAST_1 = (lambda value: value >= 1, "at least 1")
_RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "beam": _AT_LEAST_1,
    "alpha": (lambda value: 0.0 <= value < math.inf, "at least 0"),
    "temperature": (lambda value: 1e-3 <= value <= 100.0, "from 0.001 to 100"),
    "top_k": _AT_LEAST_1,
    "top_p": (lambda value: 0.0 < value <= 1.0, "above 0 and at most 1"),
    "seed": (lambda value: 0 <= value < 2**32, "from 0 to 4294967295"),
    "n": _AT_LEAST_1,
    "max_tokens": _AT_LEAST_1,
}


@dataclasses.dataclass(frozen=True)
class _Row:
    """One output to be made: its place in the window, and the line and sample it is."""

    place: int
    line: int
    sample: int
    ids: list[int]


class Generator:
    """A trained run that answers lines of text.

    Outputs depend on the line, its number where they are sampled, and the options: not on the
    lines around it.
    """

    def __init__(self, run: RunDir, options: Options, checkpoint: str = "last"):
        """Reads the checkpoint.

        Raises:
          UserError, data.DataError: for a run or options that cannot be had.
        """
        options.check(tasks.get_task(run.info().config.data.task).kind)
        self.experiment, self.step, self._params, self._fixed = load_trained(run, checkpoint)
        self._task, self._config = self.experiment.task, self.experiment.config
        self._samples, self._seed = options.n or 1, options.seed or 0
        self._search = options.search(self._config)
        tokens = decoding_memory.batch_tokens(self.experiment, self._search)
        self._layout = layout(self._config, self._task, tokens)
        self._rows: dict[int, int] = {}  # bucket length -> rows of the batches so far
        self._decode = _make_program(self.experiment, self._search)
        self._notes = _Notes()
        self.window = max(_WINDOW, 2 * self._layout.rows(self._layout.bucket_lengths[0]))

    @property
    def told(self) -> str:
        """How outputs are found, in words."""
        search = self._search
        if self._task.kind == "classification":
            return "the likeliest label"
        if search.sampling:
            how = dataclasses.asdict(search.sampling) | {"seed": self._seed}
            return "sampling, " + ", ".join(f"{name}={value}" for name, value in how.items())
        return "greedy" if search.beam == 1 else f"beam={search.beam}, alpha={search.alpha:g}"

    def answer(self, windows: Iterable[Sequence[bytes]], called: str = "line") -> Iterator[str]:
        """Outputs in the order of the lines, each as soon as it and all before it are there.

        Args:
          windows: lines of UTF-8, in groups that are sorted by length and decoded together.
          called: what notes call a line.

        Raises:
          UserError: for a prompt of a language model that leaves no room.
        """
        count = 0
        for window in windows:
            yield from self._answer(window, count, called)
            count += len(window)

    def _answer(self, window: Sequence[bytes], start: int, called: str) -> Iterator[str]:
        rows = self._encode(window, start, called)
        total, next_place = len(window) * self._samples, 0
        ready = dict.fromkeys(set(range(total)) - {row.place for row in rows}, "")
        for group, length in self._batches(rows):
            ready.update(self._run(group, length))
            while next_place in ready:
                yield ready.pop(next_place)
                next_place += 1
        yield from (ready[place] for place in range(next_place, total))

    def _encode(self, window: Sequence[bytes], start: int, called: str) -> list[_Row]:
        """The rows of all lines but the empty ones."""
        texts = {}
        for place, raw in enumerate(window):
            text, valid = lines.to_text(raw, self._task)
            name = f"{called} {start + place + 1}"
            if not valid:
                self._notes.tell(f"{name} is not UTF-8; its bad bytes became U+FFFD")
            if text.strip():
                texts[place] = text
            else:
                self._notes.once("empty", f"{name} is empty, and so is its output")
        encoded = lines.encode(list(texts.values()), self.experiment.tokenizer, self._task.kind)
        rows = []
        for place, ids in zip(texts, encoded, strict=True):
            ids = self._cut(ids, f"{called} {start + place + 1}")
            rows += [
                _Row(place * self._samples + sample, start + place, sample, ids)
                for sample in range(self._samples)
            ]
        return rows

    def _cut(self, ids: list[int], name: str) -> list[int]:
        longest = self._layout.max_length
        if self._task.kind == "language_model":
            if len(ids) >= longest:
                raise UserError(
                    f"{name} has {len(ids)} tokens and leaves no room to go on: the model takes "
                    f"{longest} in all (max_length={longest})"
                )
            return ids
        if len(ids) > longest:
            self._notes.tell(
                f"{name} has {len(ids)} tokens, its end included, and was cut to the first "
                f"{longest} (max_length={longest})"
            )
        return batching.truncate(ids, longest)

    def _batches(self, rows: list[_Row]) -> Iterator[tuple[list[_Row], int]]:
        """Rows of one length side by side; the shortest first."""
        lengths = {row.place: self._padded_length(len(row.ids)) for row in rows}
        for length in sorted(set(lengths.values())):
            members = [row for row in rows if lengths[row.place] == length]
            size = self._batch_rows(length, len(members))
            for first in range(0, len(members), size):
                yield members[first : first + size], length

    def _padded_length(self, size: int) -> int:
        """Length of the arrays that a line of `size` tokens goes into."""
        buckets = self._layout.bucket_lengths
        bucket = buckets[np.searchsorted(buckets, size)]
        if self._task.kind == "language_model":
            return output_length(self.experiment, self._search, bucket)
        return bucket

    def _batch_rows(self, length: int, count: int) -> int:
        """Rows of a batch: as evaluation has them, or fewer if there are fewer lines.

        Never fewer than before, so that few shapes are compiled: one a bucket in a long input.
        """
        rows = self._layout.batch_multiple
        while rows < count:
            rows *= 2
        rows = max(min(rows, self._layout.rows(length)), self._rows.get(length, 0))
        self._rows[length] = rows
        return rows

    def _run(self, group: list[_Row], length: int) -> dict[int, str]:
        """The outputs of a batch by place."""
        # What only fills up repeats the group: rows of nothing would be decoded to the very end.
        size = self._rows[length]
        filled = [group[i % len(group)] for i in range(size)]
        side = "prompts" if self._task.kind == "language_model" else "inputs"
        batch = {side: batching.pad([row.ids for row in filled], batch=size, length=length)}
        if self._search.sampling:
            draws = [(self._seed, row.line, row.sample) for row in filled]
            batch["draws"] = np.array(draws, np.uint32)
        arrays = sharding.to_devices(batch, self.experiment.mesh)
        outputs = jax.device_get(self._decode(self._params, self._fixed, arrays))
        return {
            row.place: self._to_line(output, row)
            for row, output in zip(group, outputs[: len(group)], strict=True)
        }

    def _to_line(self, output: np.ndarray, row: _Row) -> str:
        if self._task.kind == "classification":
            return self._task.labels[int(output)]
        tokens = output.tolist()
        prompt = row.ids if self._task.kind == "language_model" else []
        if self._search.max_tokens is not None:
            tokens = tokens[: len(prompt) + self._search.max_tokens]
        text = lines.decode(tokens, prompt, self.experiment.tokenizer, self._task.kind)
        return lines.to_line(text, self._task)


def answer_all(
    workdir: str, checkpoint: str, texts: Sequence[str] | None, options: Options
) -> None:
    """Writes the outputs of `texts`, or of the lines on standard input, to standard output.

    Raises:
      UserError, data.DataError: as `Generator`.
    """
    if texts is None and sys.stdin is None:
        raise UserError("standard input is closed: give lines there, or as --text")
    generator = Generator(RunDir(workdir), options, checkpoint)
    say(f"{workdir}, step {generator.step}: {generator.told}")
    # Bytes, as the lines of a file are: an argument may be no UTF-8, either.
    windows: Iterable[Sequence[bytes]] = [[os.fsencode(text) for text in texts or ()]]
    if texts is None:
        windows = lines.read_windows(sys.stdin.fileno(), generator.window)
    out = sys.stdout.buffer  # UTF-8 whatever the terminal's language
    for line in generator.answer(windows, "line" if texts is None else "text"):
        out.write(line.encode() + b"\n")
        out.flush()


def _make_program(experiment: Experiment, search: Search) -> Callable[..., Any]:
    if experiment.task.kind == "classification":
        return make_label_step(experiment)
    return make_decoder(experiment, search)


class _Notes:
    """Remarks on standard error; of some kinds the first only."""

    def __init__(self):
        self._told: set[str] = set()

    def tell(self, text: str) -> None:
        say(f"note: {text}")

    def once(self, kind: str, text: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            self.tell(f"{text} (further ones are not told)")
