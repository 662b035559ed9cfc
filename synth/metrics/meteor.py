"""METEOR 1.5 by its authors' Java program, which pycocoevalcap carries.

The figure of a corpus is computed from the sums of its lines' statistics; it is not their mean.
There is no substitute: NLTK's METEOR has the parameters of 2007 and gives 1.6 times the figure.
One Java process, about 10 seconds to start, serves all calls.
"""

import atexit
import contextlib
import functools
import shutil
from collections.abc import Sequence
from typing import Any

NO_PACKAGE = "pycocoevalcap is not installed: pip install -r requirements-dialogue.txt"


class MeteorError(Exception):
    """Why METEOR cannot be computed here."""


def meteor(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[float, list[float]]:
    """The corpus figure and those of the lines, from 0 to 1; any number of references a line.

    Raises MeteorError where Java or pycocoevalcap is missing, or Java fails.
    """
    if not shutil.which("java"):
        raise MeteorError("METEOR needs Java, and there is no `java` on the PATH")
    try:
        scorer = _scorer()
    except ModuleNotFoundError as error:
        raise MeteorError(NO_PACKAGE) from error
    # Its protocol is one line a pair, with ||| between fields: both would put it out of step.
    given = {i: [_field(line)] for i, line in enumerate(hypotheses)}
    wanted = {i: [_field(line) for line in lines] for i, lines in enumerate(references)}
    try:
        value, lines = scorer.compute_score(wanted, given)
    except (OSError, ValueError) as error:
        said = _end(scorer)
        _scorer.cache_clear()
        raise MeteorError(f"Java failed at METEOR: {said or error}") from error
    return value, lines


def _field(text: str) -> str:
    return " ".join(text.replace("|||", " ").split())


@functools.cache
def _scorer() -> Any:
    from pycocoevalcap.meteor.meteor import Meteor

    scorer = Meteor()
    atexit.register(_end, scorer)
    return scorer


def _end(scorer: Any) -> str:
    """Ends the Java process; the last line it wrote about errors."""
    process = scorer.meteor_p
    if process.stdout.closed:
        return ""
    if scorer.lock.locked():  # after an error; the scorer itself would wait for it for ever
        scorer.lock.release()
    process.kill()
    said = process.stderr.read().decode(errors="replace").strip()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(BrokenPipeError):  # what was not sent yet
            pipe.close()
    return said.splitlines()[-1] if said else ""
