"""Real chats between two people, from the package chitchat-dataset: stands in for PersonaChat.

Nothing of it is kept in this repository: it is read from the installed package when it is prepared.
Data by the BYU PCC lab (Myers, Etchart and Fulda 2020); the package's licence is MIT.

Importing this module imports tensorflow_datasets, which is slow: import it inside functions.
"""

import codecs
import dataclasses
import functools
import hashlib
import importlib.util
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow_datasets.public_api as tfds

from data.builders import local
from data.errors import DataError

VERSION = "1.0.0"  # raise it when rows change: what is left out, the features, the order
SPLITS = ("train", "validation", "test")
SHORTEST = 6  # turns


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """The package, as pip installs it, and the hash of its file."""

    package: str = "chitchat_dataset"
    requirement: str = "chitchat-dataset==0.9.0"
    file: str = "dataset.json"
    sha256: str = "d2a5d0bf6acf354fef51f3af39cbece2220d3b8f6086b658c3d335105798312a"


SOURCE = Source()


class Chitchat(tfds.core.GeneratorBasedBuilder):
    """`source`, a turn; `target`, the turn that answers it; `prompt`, the opening question or ''.

    Left out are conversations with fewer than six turns or other than two people; those of people
    who anywhere state an age below 18; those with strong language, an e-mail address, phone number,
    web address or host name; and those with a blank turn. The filters are regular expressions, no
    guarantee. Of who spoke and when nothing is kept. The split is by a hash of the conversation's
    name; most people of the test also speak in training.

    Of 7,168 conversations 2,346, 123 and 126 are left, with 95,834, 5,591 and 4,328 rows.

    Preparing raises a `DataError` if the package is missing or its text is another one.
    """

    VERSION = tfds.core.Version(VERSION)

    def _info(self) -> tfds.core.DatasetInfo:
        features = {field: tfds.features.Text() for field in ("source", "target", "prompt")}
        return tfds.core.DatasetInfo(
            builder=self,
            description="Chats of students with each other about anything.",
            features=tfds.features.FeaturesDict(features),
            homepage="https://github.com/BYU-PCCL/chitchat-dataset",
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        del dl_manager  # nothing is downloaded
        # Read when the first split is asked for, once.
        kept = functools.cache(lambda: _kept(_read(_file())))
        return {split: self._generate_examples(kept, split) for split in SPLITS}

    def _generate_examples(
        self, kept: "Callable[[], dict[str, list[Conversation]]]", split: str
    ) -> Iterator[tuple[int, dict[str, str]]]:
        number = itertools.count()
        for conversation in kept()[split]:
            for source, target in itertools.pairwise(conversation.turns):
                row = {"source": source, "target": target, "prompt": conversation.prompt}
                yield next(number), row


def prepare(data_dir: str | os.PathLike[str]) -> Path:
    """The folder of the prepared set; the first call makes it, in some seconds."""
    return local.prepare(
        lambda folder: Chitchat(data_dir=folder),
        Path(Chitchat.name) / VERSION,
        data_dir=data_dir,
        what=f"the chats of {SOURCE.requirement}",
    )


# --- The package's file ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Conversation:
    """A conversation.

    Attributes:
      name: its identifier; chooses the split.
      prompt: the opening question, '' if there is none.
      turns: what was said; neighbouring turns are of different people.
      people: the identifiers of all who spoke; never stored.
    """

    name: str
    prompt: str
    turns: tuple[str, ...]
    people: frozenset[str]


def _file() -> Path:
    # Found, not imported: its own reader leaves the file open.
    spec = importlib.util.find_spec(SOURCE.package)
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            f"the package with the chats is not installed: pip install {SOURCE.requirement}"
        )
    return Path(spec.submodule_search_locations[0]) / SOURCE.file


def _read(path: Path) -> list[Conversation]:
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SOURCE.sha256:
        raise DataError(
            f"{path} is not the text of {SOURCE.requirement}: it has sha256 {found}, expected "
            f"{SOURCE.sha256}; pip install --force-reinstall {SOURCE.requirement}"
        )
    return [
        Conversation(
            name=name,
            prompt=fields.get("prompt") or "",
            turns=tuple(" ".join(said["text"] for said in turn) for turn in fields["messages"]),
            people=frozenset(said["sender"] for turn in fields["messages"] for said in turn),
        )
        for name, fields in _without_minors(json.loads(content)).items()
    ]


# --- What is left out -----------------------------------------------------------------------------

_AGE = re.compile(
    r"\b(?:i'm|i\u2019m|i am|im)\s+(?:(?:only|actually|just|a)\s+)*"
    r"(?:1[0-7]|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen)\b"
    r"(?!\s*(?:minutes?|mins?|hours?|hrs?|days?|weeks?|months?|seconds?|miles?|percent|%|dollars"
    r"|pounds|lbs|feet|inches|pm|am|th\b|:|\.\d))",
    re.IGNORECASE,
)
# In rot13, so that nobody has to read them: stems of strong language and slurs. They were chosen so
# that they leave out the fifteen conversations that the published counts leave out.
_STEMS = "shpx|fuvg|phag|ovgpu|avtt|snt|nffubyr|qvpx|juber|fyhg|encr|cbea"
_STRONG = re.compile(rf"\b(?:{codecs.decode(_STEMS, 'rot13')})", re.IGNORECASE)
_ADDRESS = re.compile(
    r"\S@\S+\.\w|https?://|www\.|(?<=[\w-])\.(?:com|org|net|edu|io)\b"
    r"|\(?\d{3}\)?[-. ]+\d{3}[-. ]\d{4}",
    re.IGNORECASE,
)


def _without_minors(conversations: dict[str, Any]) -> dict[str, Any]:
    """Without the conversations of people who anywhere state an age below 18."""
    minors = {
        said["sender"]
        for fields in conversations.values()
        for turn in fields["messages"]
        for said in turn
        if _AGE.search(said["text"])
    }
    return {
        name: fields
        for name, fields in conversations.items()
        if not any(said["sender"] in minors for turn in fields["messages"] for said in turn)
    }


def _kept(conversations: list[Conversation]) -> dict[str, list[Conversation]]:
    kept: dict[str, list[Conversation]] = {split: [] for split in SPLITS}
    for conversation in conversations:
        if _is_fit(conversation):
            kept[_split_of(conversation.name)].append(conversation)
    return kept


def _is_fit(conversation: Conversation) -> bool:
    turns = conversation.turns
    if len(turns) < SHORTEST or len(conversation.people) != 2:
        return False
    text = "\n".join(turns)
    return all(map(str.strip, turns)) and not _STRONG.search(text) and not _ADDRESS.search(text)


def _split_of(name: str) -> str:
    place = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32
    return "test" if place < 0.05 else "validation" if place < 0.10 else "train"
