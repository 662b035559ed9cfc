"""Lines of text as people and pipes give them, and outputs as lines again. No JAX here."""

from __future__ import annotations

import os
import re
import select
import unicodedata
from collections.abc import Iterator, Sequence

from data.tasks.task import Task
from data.tokenizer import EOS_ID, SENTINELS, Tokenizer

LINE_BREAK = "<n>"  # how a line break inside a text is written on its one line

_SENTINEL = re.compile("(" + "|".join(map(re.escape, SENTINELS)) + ")")
_PATIENCE = 0.1


def read_windows(descriptor: int, size: int, patience: float = _PATIENCE) -> Iterator[list[bytes]]:
    """Lines of a file, pipe or terminal, at most `size` at a time, without their ends.

    Waits for the first line of a window; of the others it takes what comes without a pause longer
    than `patience` seconds. So a file comes in full windows, and a line that is typed at once.
    """
    lines: list[bytes] = []
    rest, ended = b"", False
    while not ended:
        if lines and (len(lines) >= size or not select.select([descriptor], [], [], patience)[0]):
            yield lines[:size]
            lines = lines[size:]
            continue
        block = os.read(descriptor, 1 << 16)
        ended = not block
        *whole, rest = (rest + block).split(b"\n")
        lines += whole
    if rest:
        lines.append(rest)
    for start in range(0, len(lines), size):
        yield lines[start : start + size]


def to_text(raw: bytes, task: Task) -> tuple[str, bool]:
    """(text as training sees it, whether `raw` was UTF-8): bad bytes become U+FFFD, and NFC."""
    raw = raw.removesuffix(b"\r")
    try:
        text, valid = raw.decode(), True
    except UnicodeDecodeError:
        text, valid = raw.decode(errors="replace"), False
    return unicodedata.normalize("NFC", with_line_breaks(text, task)), valid


def with_line_breaks(line: str, task: Task) -> str:
    """A line with the breaks that `to_line` has written as marks."""
    return re.sub(f" ?{LINE_BREAK} ?", "\n", line) if has_line_breaks(task) else line


def to_line(text: str, task: Task) -> str:
    """An output as one line, composed (NFC) as references are."""
    mark = f" {LINE_BREAK} " if has_line_breaks(task) else " "
    return unicodedata.normalize("NFC", mark.join(text.splitlines()))


def has_line_breaks(task: Task) -> bool:
    """Whether line breaks inside its texts mean something; translations are scored as one line."""
    return "bleu" not in task.metrics


# --- Token ids of each kind of input and output ---------------------------------------------------


def encode(texts: Sequence[str], tokenizer: Tokenizer, kind: str) -> list[list[int]]:
    """Ids of inputs with EOS, or of prompts of a language model without."""
    if kind == "language_model":
        return tokenizer.encode(list(texts))
    if kind == "span_corruption":
        return [[*encode_gaps(text, tokenizer), EOS_ID] for text in texts]
    return [[*ids, EOS_ID] for ids in tokenizer.encode(list(texts))]


def encode_gaps(text: str, tokenizer: Tokenizer) -> list[int]:
    """Ids of a text in which <extra_id_0>, <extra_id_1>, ... stand for what is hidden.

    As in training, the space before a hidden span belongs to the span, and the one after it to
    the text that goes on.
    """
    *before_gaps, last = _SENTINEL.split(text)
    texts = [part.removesuffix(" ") for part in before_gaps[::2]] + [last]
    ids = tokenizer.encode([texts[0]])[0]
    # SentencePiece puts a space before every text, but merges nothing across a line break.
    break_ids = tokenizer.encode(["\n"])[0]
    for name, following in zip(before_gaps[1::2], texts[1:], strict=True):
        ids.append(tokenizer.sentinels[SENTINELS.index(name)])
        ids += tokenizer.encode(["\n" + following])[0][len(break_ids) :]
    return ids


def decode(tokens: Sequence[int], prompt: Sequence[int], tokenizer: Tokenizer, kind: str) -> str:
    """Text of an output; of a language model's only what follows the prompt's ids."""
    if kind == "language_model":
        return _after(prompt, tokens[len(prompt) :], tokenizer)
    if kind == "span_corruption":
        return decode_gaps(tokens, tokenizer)
    return tokenizer.decode([tokens])[0]


def decode_gaps(tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    """Hidden spans as `<extra_id_0> for inviting <extra_id_1> last`.

    The space after a name is that of the text itself: none where the span goes on inside a word.
    """
    names = dict(zip(tokenizer.sentinels, SENTINELS, strict=True))
    anchor = tokenizer.encode(["."])[0]  # what stands first loses its space
    spans: list[tuple[str, list[int]]] = [("", [])]
    for token in map(int, tokens):
        if token == EOS_ID:
            break
        if token in names:
            spans.append((names[token], []))
        else:
            spans[-1][1].append(token)
    texts = [name + _after(anchor, ids, tokenizer) for name, ids in spans]
    return " ".join(text for text in texts if text)


def _after(first: Sequence[int], then: Sequence[int], tokenizer: Tokenizer) -> str:
    """Text of `then` where it follows `first`: with the space at its beginning, if it has one."""
    start, whole, alone = tokenizer.decode([first, [*first, *then], then])
    return whole[len(start) :] if whole.startswith(start) else alone
