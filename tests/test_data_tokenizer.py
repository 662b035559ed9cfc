"""The vocabulary: any text comes back, equal lines give an equal file, mistakes are named."""

import numpy as np
import pytest

from data.errors import DataError
from data.sources import TextSplit
from data.tasks.task import labelled, pair
from data.tokenizer import (
    EOS_ID,
    PAD_ID,
    SENTINELS,
    Tokenizer,
    sample_lines,
    train_tokenizer,
)

LINES = [f"the {word} file is opened by number {n}" for n in range(9) for word in ("new", "old")]

HARD = [
    "",
    " ",
    "  two leading, two trailing  ",
    "tab\tnewline\nreturn\r\nend",
    "no-break\u00a0space, narrow\u202fone, line\u2028separator",
    "family \U0001f469\u200d\U0001f469\u200d\U0001f467, caf\u00e9, cafe\u0301, \u4e2d\u6587",
    "<pad></s><unk><0x41> \x00 \ufffd",
    "x" * 500,
    "a line of ten thousand characters, \u00e9\U0001f600 and so on. " * 220,
    "\n\n\nempty lines\n\n",
    "<extra_id_0> and <extra_id_99>",
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return train_tokenizer(LINES, tmp_path_factory.mktemp("v") / "a.model", vocab_size=300)


@pytest.fixture(scope="module")
def with_extras(tmp_path_factory):
    """A vocabulary with a newline piece and sentinels."""
    path = tmp_path_factory.mktemp("v") / "extra.model"
    return train_tokenizer(LINES, path, vocab_size=400, symbols=("\n",), sentinels=SENTINELS)


def test_any_text_comes_back(tokenizer, with_extras):
    assert max(map(len, HARD)) > 10_000
    assert with_extras.decode(with_extras.encode(HARD)) == HARD
    ids = tokenizer.encode(HARD)
    assert tokenizer.decode(ids) == HARD
    assert tokenizer.decode(tokenizer.encode([])) == []
    assert all(PAD_ID not in row and EOS_ID not in row for row in ids)


def test_decode_stops_at_the_first_end_and_ignores_what_is_no_text(tokenizer):
    (ids,) = tokenizer.encode(["the new file"])
    beyond = tokenizer.vocab_size + 7  # a row that only pads the embedding
    rows = [
        [*ids, EOS_ID, *ids],
        [*ids, PAD_ID, PAD_ID],
        [PAD_ID, beyond, *ids, -1],
        [EOS_ID, *ids],
        ids,
    ]
    assert tokenizer.decode(rows) == ["the new file"] * 3 + ["", "the new file"]
    assert tokenizer.decode(np.array([ids, ids])) == ["the new file"] * 2


def test_ids_of_special_pieces_are_fixed(tokenizer, with_extras):
    assert tokenizer.pieces(range(4)) == ["<pad>", "</s>", "<unk>", "<0x00>"]
    assert tokenizer.sentinels == []
    assert with_extras.pieces([0, 1, 2, 3, 102]) == [
        "<pad>",
        "</s>",
        "<unk>",
        "<extra_id_0>",
        "<extra_id_99>",
    ]
    assert with_extras.sentinels == list(range(3, 103))


def test_no_text_is_a_sentinel_and_a_newline_is_one_piece(tokenizer, with_extras):
    ids = with_extras.encode(["<extra_id_0> a\nb", *HARD])
    assert not {token for row in ids for token in row} & set(with_extras.sentinels)
    (pieces,) = map(with_extras.pieces, with_extras.encode(["the\nnew"]))
    assert pieces.count("\n") == 1
    assert "\n" not in tokenizer.pieces(range(tokenizer.vocab_size))


def test_text_longer_than_sentencepiece_takes_is_learned_from(tmp_path):
    """One article of 60,000 characters: a vocabulary of its words, not of single bytes."""
    rows = [{"text": "gigantic elephants trumpeted " * 2000, "label": 0}]
    split = TextSplit(rows, labelled("text", "label"), identity="one")
    lines = list(sample_lines(split))
    assert max(len(line.encode()) for line in lines) <= 4192
    assert "".join(lines) == rows[0]["text"]
    tokenizer = train_tokenizer(lines, tmp_path / "v.model", vocab_size=300)
    assert len(tokenizer.encode(["gigantic elephants trumpeted"])[0]) < 6


def test_equal_lines_give_an_equal_file(tokenizer, tmp_path):
    again = train_tokenizer(LINES, tmp_path / "b.model", vocab_size=300)
    assert again.hash == tokenizer.hash
    assert Tokenizer.load(tmp_path / "b.model").hash == tokenizer.hash
    assert tokenizer.model == (tmp_path / "b.model").read_bytes()
    assert train_tokenizer(LINES, tmp_path / "b.model", vocab_size=301).hash != tokenizer.hash


def test_a_size_the_text_cannot_give_names_the_possible_one(tmp_path):
    path = tmp_path / "v.model"
    with pytest.raises(DataError, match=r"vocab_size=9000 .* at most \d+"):
        train_tokenizer(LINES, path, vocab_size=9000)
    with pytest.raises(DataError, match=r"vocab_size=100 .* at least \d+"):
        train_tokenizer(LINES, path, vocab_size=100)
    with pytest.raises(DataError, match="can be learned"):
        train_tokenizer([], path, vocab_size=300)
    assert not path.exists()
    with pytest.raises(DataError, match="no vocabulary at"):
        Tokenizer.load(path)


def test_a_large_split_is_sampled_the_same_way_each_time():
    rows = [{"en": f"e{n}", "de": f"d{n}"} for n in range(100)]
    split = TextSplit(rows, pair("en", "de"), identity="test")
    lines = list(sample_lines(split, max_examples=10))
    assert len(set(lines)) == 20
    assert lines == list(sample_lines(split, max_examples=10))
    assert lines[0::2] == ["e" + line[1:] for line in lines[1::2]]
    assert len(list(sample_lines(split))) == 200
    fewer = list(sample_lines(split, max_characters=120))  # about 4 to 6 characters an example
    assert 40 <= len(fewer) <= 60


def test_text_that_cannot_be_read_is_not_blamed_on_the_size(tmp_path):
    def lines():
        yield "some text"
        raise DataError("rows cannot be read")

    with pytest.raises(DataError, match="rows cannot be read"):
        train_tokenizer(lines(), tmp_path / "v.model", vocab_size=300)
    with pytest.raises(DataError, match="vocab_size=0 must be at least 1"):
        train_tokenizer(["some text"], tmp_path / "v.model", vocab_size=0)
