"""Small archives and what our builders make of them, for tests."""

import io
import tarfile
from typing import Any

import tensorflow_datasets.public_api as tfds


def tgz(path, members, links=()):
    """Writes a .tgz: members name -> content; links (name, where it leads)."""
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for name, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return path


def prepared(builder, manual_dir):
    """Prepares a set and reads it back: split -> rows, their text decoded."""
    tfds.disable_progress_bar()
    config = tfds.download.DownloadConfig(manual_dir=manual_dir)
    builder.download_and_prepare(download_config=config, file_format="array_record")
    sources: Any = tfds.builder_from_directory(builder.data_dir).as_data_source()
    return {
        split: [{key: text.decode() for key, text in row.items()} for row in source]
        for split, source in sources.items()
    }
