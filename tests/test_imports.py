"""What starting a run imports."""

import subprocess
import sys

from conftest import ROOT

_IMPORTS = """
import sys
import train
from synth import training
print(*sorted({n if n.startswith("synth.") else n.partition(".")[0] for n in sys.modules}))
"""


def test_training_imports_nothing_that_it_does_not_use():
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert {"jax", "flax", "grain", "orbax"} <= imported
    assert not imported & {
        "tensorflow",
        "tensorflow_datasets",
        "torch",
        "matplotlib",
        "tensorboardX",
        "sacrebleu",
        "sacremoses",
        "rouge_score",
        "sklearn",
        "scipy",
        "pandas",
        "nltk",
        "tabulate",
        "tqdm",
        "benchmarks",
        "synth.compile_for",
        "synth.hlo",
    }
