"""Text to token ids and back: one SentencePiece vocabulary per data set, shared by its languages.

Byte-pair encoding (Vaswani et al. used it for English-German): on the 65 thousand lines of
docs_ende it trains in 1 second where a unigram model takes 13, for 1% more tokens. Text is
never normalised, and characters outside the vocabulary become bytes, so decode(encode(text))
gives any text back: newlines, tabs, accents, emoji, spaces in a row. The one exception is
U+2581, which SentencePiece itself uses for a space and gives back as one.

Ids are fixed: padding 0, end 1, unknown 2, and in vocabularies for span corruption the sentinels
from 3 on. Sentinels are control pieces: no text, not even "<extra_id_0>", is encoded as one.
"""

import hashlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from data.errors import DataError
from data.sources import Split, open_split
from data.tasks.task import Dataset, Example, Task

PAD_ID = 0
EOS_ID = 1
UNK_ID = 2  # never produced: bytes stand in

SENTINELS = tuple(f"<extra_id_{number}>" for number in range(100))  # T5's names and number

# More text does not change a vocabulary of 32 thousand pieces much; it only takes longer.
MAX_EXAMPLES = 1_000_000
MAX_CHARACTERS = 300_000_000  # SentencePiece keeps its sample in memory
_READ = 8192  # examples per read while the sample is collected
_MAX_BYTES = 4192  # SentencePiece learns from no longer line: longer text is cut for it

_SETTINGS: dict[str, Any] = dict(
    model_type="bpe",
    normalization_rule_name="identity",
    remove_extra_whitespaces=False,
    byte_fallback=True,
    # The rarest 0.05% of the characters are left to the bytes; each would cost a piece.
    character_coverage=0.9995,
    pad_id=PAD_ID,
    eos_id=EOS_ID,
    unk_id=UNK_ID,
    bos_id=-1,
    # The thread count is stored in the model, and so is part of its hash.
    num_threads=1,
    minloglevel=2,
)


class Tokenizer:
    """A trained vocabulary. Ids below 3 are padding, end of text, unknown."""

    def __init__(self, model: bytes):
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Reads a model file, at a path of any kind; a `DataError` if there is none."""
        path = Path(path) if isinstance(path, str) else path
        if not path.is_file():
            raise DataError(f"there is no vocabulary at {path}")
        try:
            tokenizer = cls(path.read_bytes())
        except RuntimeError:
            tokenizer = None
        if tokenizer is None or not tokenizer.vocab_size:
            raise DataError(f"{path} is no sentencepiece vocabulary; deleted, it is made again")
        return tokenizer

    @property
    def vocab_size(self) -> int:
        return self._processor.vocab_size()

    @property
    def model(self) -> bytes:
        """Contents of the model file."""
        return self._model

    @property
    def hash(self) -> str:
        """SHA-256 of the model file, in hex: equal hashes give equal token ids."""
        return hashlib.sha256(self._model).hexdigest()

    @property
    def sentinels(self) -> list[int]:
        """Ids of the sentinels of span corruption, in order; none in other vocabularies."""
        if self.vocab_size <= UNK_ID + 1 or not self._processor.is_control(UNK_ID + 1):
            return []
        return list(range(UNK_ID + 1, UNK_ID + 1 + len(SENTINELS)))

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, without an end token. One call for many texts is fastest."""
        return self._processor.encode(texts)

    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """Text of each row of ids: up to its first end token, or all of it without one.

        Padding and ids outside the vocabulary (rows that pad an embedding) are left out.
        """
        rows = [self._cut(row) for row in ids]
        return self._processor.decode(rows) if rows else []  # SentencePiece: '' for no rows

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The name of each piece, for people: U+2581 stands for a space."""
        return [self._processor.id_to_piece(int(token)) for token in ids]

    def _cut(self, ids: Iterable[int]) -> list[int]:
        row = [int(token) for token in ids]
        if EOS_ID in row:
            row = row[: row.index(EOS_ID)]
        return [token for token in row if token != PAD_ID and 0 <= token < self.vocab_size]


def train_tokenizer(
    lines: Iterable[str],
    path: str | os.PathLike[str],
    *,
    vocab_size: int,
    symbols: Sequence[str] = (),
    sentinels: Sequence[str] = (),
) -> Tokenizer:
    """Learns a vocabulary of `vocab_size` pieces and writes it to `path`.

    259 pieces are fixed; `symbols`, characters that get a piece whatever the text, and `sentinels`
    come on top. Equal lines give an equal file. A size the text cannot give is a `DataError` that
    names the nearest possible one.
    """
    if vocab_size < 1:
        raise DataError(f"vocab_size={vocab_size} must be at least 1")
    model = io.BytesIO()
    settings = _settings(symbols, sentinels)
    failed: list[Exception] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_watched(lines, failed),
            model_writer=model,
            vocab_size=vocab_size,
            **settings,
        )
    except RuntimeError as error:
        if failed:  # the text could not be read: SentencePiece wraps that in an error of its own
            raise failed[0] from error
        raise _size_error(vocab_size, str(error)) from error
    tokenizer = Tokenizer(model.getvalue())
    _write_at_once(Path(path), tokenizer.model)
    return tokenizer


def load_or_train(
    task: Task, dataset: Dataset, *, vocab_size: int, data_dir: str | os.PathLike[str]
) -> Tokenizer:
    """The vocabulary of a data set, learned once from its training split and kept in `data_dir`."""
    split = open_split(dataset, "train", data_dir=data_dir)
    sentinels = SENTINELS if task.kind == "span_corruption" else ()
    settings = sorted(_settings(task.symbols, sentinels).items())
    key = repr((split.identity, vocab_size, MAX_EXAMPLES, MAX_CHARACTERS, settings))
    name = (
        f"{task.name}-{dataset.name}-{vocab_size}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    )
    path = Path(data_dir).expanduser() / "vocabularies" / f"{name}.model"
    if path.exists():
        return Tokenizer.load(path)
    print(f"learning {vocab_size} pieces from {dataset.name} into {path}, once", file=sys.stderr)
    return train_tokenizer(
        sample_lines(split),
        path,
        vocab_size=vocab_size,
        symbols=task.symbols,
        sentinels=sentinels,
    )


def sample_lines(
    split: Split, max_examples: int = MAX_EXAMPLES, max_characters: int = MAX_CHARACTERS
) -> Iterator[str]:
    """Inputs and targets of all examples, or of a fixed random sample of a larger split."""
    if not len(split):
        return
    # Generators of their own: the sample does not depend on how its size is found.
    some = np.random.default_rng(1).integers(len(split), size=100).tolist()
    some = split.__getitems__(some)
    characters = sum(len(text) for example in some for text in texts(example)) / len(some)
    most = min(max_examples, round(max_characters / max(characters, 1.0)))
    # Of a larger split only the sampled lines are read, not the 30 million around them.
    indices = np.arange(min(len(split), most))
    if len(split) > most:
        indices = np.sort(np.random.default_rng(0).choice(len(split), most, replace=False))
    for start in range(0, len(indices), _READ):
        for example in split.__getitems__(indices[start : start + _READ].tolist()):
            for text in texts(example):
                yield from _cut_long(text)


def _watched(lines: Iterable[str], failed: list[Exception]) -> Iterator[str]:
    try:
        yield from lines
    except Exception as error:
        failed.append(error)
        raise


def texts(example: Example) -> Iterator[str]:
    """The inputs, if any, and the targets, if they are text."""
    return (example[side] for side in ("inputs", "targets") if side in example)


def _settings(symbols: Sequence[str], sentinels: Sequence[str]) -> dict[str, Any]:
    extra = {"user_defined_symbols": list(symbols), "control_symbols": list(sentinels)}
    return _SETTINGS | {name: pieces for name, pieces in extra.items() if pieces}


def _cut_long(text: str) -> Iterator[str]:
    """The text itself, or parts of it that are short enough to be learned from."""
    if len(text.encode()) <= _MAX_BYTES:
        yield text
        return
    # At most 4 bytes a character; to cut a word now and then costs nothing.
    width = _MAX_BYTES // 4
    yield from (text[start : start + width] for start in range(0, len(text), width))


def _size_error(vocab_size: int, message: str) -> DataError:
    if largest := re.search(r"too high .*<= (\d+)", message):
        return DataError(
            f"data.vocab_size={vocab_size} is more than this text gives: at most {largest[1]}"
        )
    if smallest := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return DataError(
            f"data.vocab_size={vocab_size} is too small for the bytes and characters of this text: "
            f"at least {smallest[1]}"
        )
    return DataError(f"no vocabulary of vocab_size={vocab_size} can be learned: {message}")


def _write_at_once(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="writing.") as scratch:
        part = Path(scratch) / path.name
        part.write_bytes(content)
        # Processes that learn the same vocabulary at once write the same bytes: any may win.
        part.replace(path)
