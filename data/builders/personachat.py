"""PersonaChat from ParlAI's archives, which TFDS does not have: two forms of it.

Zhang et al. 2018, 'Personalizing Dialogue Agents: I have a dog, do you have pets too?'. ParlAI
gives the ConvAI2 data under CC BY 4.0; for PersonaChat's archive no licence is stated.

Importing this module imports tensorflow_datasets, which is slow: import it inside functions.
"""

import dataclasses
import functools
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow_datasets.public_api as tfds

from data.builders import archives, fbdialog
from data.builders.archives import Archive
from data.builders.fbdialog import Dialogue
from data.errors import DataError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """An archive, and which of its files are read, in this order."""

    archive: Archive
    files: tuple[str, ...]


# Address, name and hash are those of parlai/tasks/{convai2,personachat}/build.py; it has no sizes.
SOURCES = {
    "convai2": Source(
        archive=Archive(
            url="http://parl.ai/downloads/convai2/convai2_fix_723.tgz",
            filename="convai2_fix_723.tgz",
            sha256="d0ae89defe2fd0b0a4221eaa642a457d7d40cef475f54798119c7f3b8dd9361d",
        ),
        files=("train_none_original_no_cands.txt", "valid_none_original_no_cands.txt"),
    ),
    "self_original": Source(
        archive=Archive(
            url="http://parl.ai/downloads/personachat/personachat.tgz",
            filename="personachat.tgz",
            sha256="507cf8641d333240654798870ea584d854ab5261071c5e3521c20d8fa41d5622",
        ),
        files=tuple(
            f"personachat/{split}_self_original.txt" for split in ("train", "valid", "test")
        ),
    ),
}
SPLITS = ("train", "validation", "test")
FIELDS = {"convai2": ("source", "target"), "self_original": ("context", "response")}
_DESCRIPTIONS = {
    "convai2": "Each utterance is the source of the next one; no personas; split anew.",
    "self_original": "Persona and dialogue so far, and the response; the published splits.",
}

# Split -> what the two FIELDS of each row hold.
Rows = dict[str, list[tuple[str, str]]]


class PersonaChat(tfds.core.GeneratorBasedBuilder):
    """PersonaChat in two forms; rows stay in the order of the files.

    convai2: `source`, `target`; what Tensor2Tensor's problem dialog_personachat16k reads. Every
    utterance but the first is the target of the one before it, whoever speaks. Text is lower-cased
    and cleaned as there (`clean`). Training and validation files are joined and split by the
    position of a dialogue: of every hundred 81 are for training, 10 for validation, 9 for the test.
    The last dialogue of all is left out, as there. So are dialogues that begin with
    `__SILENCE__`: they repeat others from the other speaker's side. Unlike there, runs of spaces
    become one, pairs with a side that cleaning left empty are left out, and so is a dialogue that
    was there before word by word (its position still counts): its copy may be in another split.
    By ParlAI the files have 17,878 and 1,000 dialogues, 131,438 and 7,801 exchanges.

    self_original: `context`, `response`; the context is the persona of the one who responds (lines
    that begin with "your persona:") and every utterance so far, one a line. The published splits;
    by ParlAI 8,939, 1,000 and 968 dialogues, 65,719, 7,801 and 7,512 rows.

    Preparing raises a `DataError` if the archive is missing and cannot be downloaded, is not the
    published one or is damaged, if it lacks a file, or if a file is empty or malformed in more than
    1% of its lines (see `fbdialog.read` for fewer).
    """

    name = "personachat"
    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [  # noqa: RUF012 - TFDS wants a list
        tfds.core.BuilderConfig(name=name, description=text) for name, text in _DESCRIPTIONS.items()
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Without network: put the archive there, not unpacked."

    @property
    def archives(self) -> tuple[Archive, ...]:
        """What it reads, for those who have to get it."""
        return (SOURCES[self._form].archive,)

    def _info(self) -> tfds.core.DatasetInfo:
        features = {field: tfds.features.Text() for field in FIELDS[self._form]}
        return tfds.core.DatasetInfo(
            builder=self,
            description="Chats between two people who play a persona each.",
            features=tfds.features.FeaturesDict(features),
            homepage="https://arxiv.org/abs/1801.07243",
            disable_shuffling=True,
        )

    @property
    def _form(self) -> str:
        assert self.builder_config is not None
        return self.builder_config.name

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        path = archives.placed_or_downloaded(SOURCES[self._form].archive, dl_manager)
        # Read when the first split is asked for, once.
        rows = functools.cache(functools.partial(_read, self._form, path))
        return {split: self._generate_examples(rows, split) for split in SPLITS}

    def _generate_examples(
        self, rows: "Callable[[], Rows]", split: str
    ) -> Iterator[tuple[int, Any]]:
        names = FIELDS[self._form]
        for number, texts in enumerate(rows()[split]):
            yield number, dict(zip(names, texts, strict=True))


def _read(form: str, path: Path) -> Rows:
    source = SOURCES[form]
    archives.check(path, source.archive)
    lines = archives.lines(path, source.files)
    files = [fbdialog.read(lines[name], name) for name in source.files]
    return (_convai2 if form == "convai2" else _self_original)(files)


def _self_original(files: list[list[Dialogue]]) -> Rows:
    return {
        split: [row for dialogue in dialogues for row in fbdialog.contexts(dialogue)]
        for split, dialogues in zip(SPLITS, files, strict=True)
    }


def _convai2(files: list[list[Dialogue]]) -> Rows:
    rows: Rows = {split: [] for split in SPLITS}
    dialogues = [turns for turns in map(_turns, itertools.chain(*files)) if turns]
    seen: set[tuple[str, ...]] = set()
    empty = again = 0
    for position, turns in enumerate(dialogues[:-1]):
        if turns in seen:
            again += 1
            continue
        seen.add(turns)
        pairs = list(itertools.pairwise(turns))
        whole = [(source, target) for source, target in pairs if source and target]
        empty += len(pairs) - len(whole)
        rows[_split_of(position)] += whole
    if empty_splits := [split for split in SPLITS if not rows[split]]:
        raise DataError(f"the {len(dialogues)} dialogues leave {', '.join(empty_splits)} empty")
    _tell("dialogues that repeat another", again)
    _tell("pairs with a side of which cleaning left nothing", empty)
    return rows


def _turns(dialogue: Dialogue) -> tuple[str, ...]:
    """What both say, cleaned, up to the first silence."""
    spoken = itertools.takewhile(
        lambda exchange: fbdialog.SILENCE not in " ".join(exchange), dialogue.exchanges
    )
    return tuple(clean(text) for exchange in spoken for text in exchange)


def _split_of(position: int) -> str:
    """Tensor2Tensor's split of a dialogue: 80/10/10, but each boundary falls to the part below."""
    place = position % 100
    return "train" if place <= 80 else "validation" if place <= 90 else "test"


def _tell(what: str, number: int) -> None:
    if number:
        print(f"personachat/convai2: {number} {what} are left out", file=sys.stderr)


def clean(text: str) -> str:
    """Lower case and Tensor2Tensor's cleaning of dialogue text.

    Only a-z, digits and .?!' stay; stops and marks become words of their own, as do the endings
    n't, 's, 'm and so on; apostrophes that open a word or stand alone go.
    """
    text = " ".join(text.lower().split())
    text = re.sub(r"[^a-z .?!'0-9]", "", text)
    text = re.sub(r"([.?!])", r" \1 ", text)
    text = text.replace(" ' ", " ")
    text = re.sub(r" '([a-z])", r" \1", text)
    text = text.replace("n't", " n't")
    text = re.sub(r"[^ n]'[^ t]", lambda match: match[0].replace("'", " '"), text)
    return " ".join(text.split())
