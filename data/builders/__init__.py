"""TFDS builders for what TFDS does not have: committed text, dialogues, shards kept apart.

Importing a builder imports tensorflow_datasets, which is slow: import it inside functions.
"""

import importlib
from pathlib import Path

from data.tasks.task import EMBEDDED

# The first part of a TFDS name -> the module whose import registers its builder.
MODULES = {
    "chitchat": "data.builders.chitchat",
    "personachat": "data.builders.personachat",
    "lm1b_shards": "data.builders.lm1b",
    "c4_json": "data.builders.c4",
}


def prepare_stand_in(tfds_name: str, data_dir: Path) -> Path:
    """The folder of a prepared stand-in; the first call makes it, in seconds."""
    if tfds_name.startswith(EMBEDDED):
        from data.builders import embedded

        return embedded.prepare(tfds_name.removeprefix(EMBEDDED), data_dir=data_dir)
    return importlib.import_module(MODULES[tfds_name]).prepare(data_dir=data_dir)
