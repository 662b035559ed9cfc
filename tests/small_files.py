"""Archives and tables in a few lines, for tests."""

import io
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Files = Mapping[str, str | bytes]


def tar(path: Path, files: Files) -> None:
    """A tar archive, compressed unless its name ends in .tar."""
    mode = "w" if path.suffix == ".tar" else "w:gz"
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            data = _bytes(content)
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def zipped(path: Path, files: Files) -> None:
    """A zip archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, _bytes(content))


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def lines(rows: Sequence[str]) -> str:
    """Rows of a text file."""
    return "".join(f"{row}\n" for row in rows)


def table(header: str | None, *rows: str) -> str:
    """Rows of a tab-separated file, written here with | for the tabs."""
    return lines([row.replace("|", "\t") for row in ([header] if header else []) + list(rows)])


def jsonl(*rows: Mapping[str, Any]) -> str:
    """Rows of a file with one JSON object per line."""
    return lines([json.dumps(row) for row in rows])
