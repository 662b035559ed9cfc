"""Hashes of files."""

import hashlib
from pathlib import Path


def sha256(path: Path) -> str:
    """The hash of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
