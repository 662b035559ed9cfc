"""Writing a file in one step."""

import os
import socket
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Replaces a UTF-8 file so that a crash leaves the old or the new one, never a part."""
    draft = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
