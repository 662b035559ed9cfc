"""The dialogue format of ParlAI's archives: numbered lines, one exchange each.

    1 your persona: i like to hunt.
    2 hello , how are you ?<TAB>fine , i am just back from the woods .<TAB><TAB>candidate|candidate
    3 alone ?<TAB>no , with my dog .

The number starts again at 1 with every dialogue. Persona lines come first and may be missing, like
the candidates, which are not read.
"""

import dataclasses
import sys
from collections.abc import Iterable, Iterator

from data.errors import DataError

PERSONA = "your persona:"
SILENCE = "__SILENCE__"  # stands for an utterance where the other speaker begins

SHOWN = 3  # malformed lines of a file that are shown
TOLERATED = 0.01  # the share of its lines that may be malformed


@dataclasses.dataclass
class Dialogue:
    """What two people said.

    Attributes:
      persona: the persona lines of the one who responds, as they are.
      exchanges: utterance and response, in order.
    """

    persona: list[str] = dataclasses.field(default_factory=list)
    exchanges: list[tuple[str, str]] = dataclasses.field(default_factory=list)


def read(lines: Iterable[bytes], file: str) -> list[Dialogue]:
    """The dialogues of a file, those without an exchange left out.

    A malformed line ends its dialogue: what came before it is kept, and what follows is left out up
    to the next line with number 1, since an utterance that is missing would give a response a
    context to which nobody responded. Such lines are counted and the first ones shown on standard
    error.

    Raises:
      DataError: more than 1% of the lines are malformed, or there is no exchange at all.
    """
    dialogues: list[Dialogue] = []
    faults: list[tuple[int, str]] = []
    expected: int | None = None  # the next number of the dialogue; None after a malformed line
    total = 0
    for total, raw in enumerate(lines, start=1):
        try:
            number, text = _numbered(raw)
            if number == 1:
                dialogues.append(Dialogue())
            elif expected is None:
                continue  # of a dialogue that was left
            elif number != expected:
                raise _Malformed(f"number {number} where 1 or {expected} is due")
            _add(dialogues[-1], text)
            expected = number + 1
        except _Malformed as fault:
            faults.append((total, str(fault)))
            expected = None
    _report(faults, total, file)
    dialogues = [dialogue for dialogue in dialogues if dialogue.exchanges]
    if not dialogues:
        raise DataError(f"{file} holds no dialogue")
    return dialogues


class _Malformed(Exception):
    """What is wrong with a line."""


def _numbered(raw: bytes) -> tuple[int, str]:
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Malformed(f"not UTF-8 at byte {error.start}") from error
    number, _, text = line.partition(" ")
    if not (number.isascii() and number.isdigit() and len(number) < 9):
        raise _Malformed("no number at its beginning")
    return int(number), text


def _add(dialogue: Dialogue, text: str) -> None:
    """Adds a persona line or an exchange; the number is gone."""
    if text.startswith(PERSONA):
        if dialogue.exchanges:
            raise _Malformed("a persona line after an utterance")
        dialogue.persona.append(text.strip())
        return
    fields = [field.strip() for field in text.split("\t")]
    if len(fields) < 2:
        raise _Malformed("no tab between utterance and response")
    utterance, response = fields[:2]
    if not utterance or not response:
        raise _Malformed(f"an empty {'response' if utterance else 'utterance'}")
    dialogue.exchanges.append((utterance, response))


def _report(faults: list[tuple[int, str]], total: int, file: str) -> None:
    if not faults:
        return
    shown = [f"{file}:{number}: {reason}" for number, reason in faults[:SHOWN]]
    if len(faults) > TOLERATED * total:
        raise DataError(f"{len(faults)} of {total} lines are malformed: {'; '.join(shown)}")
    for line in shown:
        print(f"{line}; the rest of its dialogue is left out", file=sys.stderr)
    print(f"{file}: {len(faults)} of {total} lines are malformed", file=sys.stderr)


def contexts(dialogue: Dialogue) -> Iterator[tuple[str, str]]:
    """Context and response of each exchange.

    The context is the persona and every utterance so far, one a line.
    """
    history = list(dialogue.persona)
    for utterance, response in dialogue.exchanges:
        if utterance != SILENCE:
            history.append(utterance)
        yield "\n".join(history), response
        history.append(response)
