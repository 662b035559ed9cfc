"""Answers lines of text with a trained run: translations, summaries, continuations, labels.

python generate.py --workdir=runs/demo < lines.txt
python generate.py --workdir=runs/demo --text="Open the file." [--text=...]
python generate.py --workdir=runs/lm --text="And God said" --sample --top_p=0.9 --n=3

One output line for each input line (--n lines with --sample), in order, on standard output; notes
go to standard error. An empty line gives an empty line. Where texts have line breaks (all tasks
but translation) they are written <n>, in inputs and outputs. What comes out is by task:
  translation, summaries, replies, text to text   the output
  language model   what follows the line, which is not repeated: often it starts with a space
  span corruption  the text of <extra_id_0>, <extra_id_1>, ... in the line
  classification   the name of the label
"""

import os
import signal
import sys
from typing import Any

from absl import flags

from synth import cli
from synth.errors import UserError

WORKDIR = flags.DEFINE_string("workdir", "", "directory of the run")
TEXT = flags.DEFINE_multi_string("text", None, "a line to answer, in place of standard input")
CHECKPOINT = flags.DEFINE_string("checkpoint", "last", "last, best, or a step")
flags.DEFINE_integer("beam", None, "beam width, 1 = greedy (default: the run's config)")
flags.DEFINE_float("alpha", None, "length penalty (default: the run's config)")
flags.DEFINE_bool("sample", False, "draw outputs at random instead of searching for the likeliest")
flags.DEFINE_float("temperature", None, "divides the logits before drawing (default: 1)")
flags.DEFINE_integer("top_k", None, "draw from the k likeliest tokens only")
flags.DEFINE_float("top_p", None, "draw from the fewest tokens that hold this probability")
flags.DEFINE_integer("seed", None, "the same seed draws the same outputs (default: 0)")
flags.DEFINE_integer("n", None, "samples of each line (default: 1)")
flags.DEFINE_integer("max_tokens", None, "most tokens of an output (default: the model's limit)")

OPTIONS = ("beam", "alpha", "sample", "temperature", "top_k", "top_p", "seed", "n", "max_tokens")


def main() -> int:
    if not WORKDIR.value:
        raise UserError("name a trained run: --workdir=runs/NAME")
    if not TEXT.value and sys.stdin and sys.stdin.isatty():
        print("type lines, Ctrl-D ends; or give them as --text or by < FILE", file=sys.stderr)
    from synth.generation import Options, answer_all

    chosen: dict[str, Any] = {name: flags.FLAGS[name].value for name in OPTIONS}
    try:
        answer_all(WORKDIR.value, CHECKPOINT.value, TEXT.value, Options(**chosen))
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return 0


if __name__ == "__main__":
    cli.run(main)
