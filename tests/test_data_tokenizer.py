"""The vocabulary: any text comes back, equal lines give an equal file, mistakes are named."""

import numpy as np
import pytest

from data.errors import DataError
from data.sources import TextSplit
from data.tokenizer import EOS_ID, PAD_ID, Tokenizer, sample_lines, train_tokenizer

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
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return train_tokenizer(LINES, tmp_path_factory.mktemp("v") / "a.model", vocab_size=300)


def test_any_text_comes_back(tokenizer):
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


def test_equal_lines_give_an_equal_file(tokenizer, tmp_path):
    again = train_tokenizer(LINES, tmp_path / "b.model", vocab_size=300)
    assert again.hash == tokenizer.hash
    assert Tokenizer.load(tmp_path / "b.model").hash == tokenizer.hash
    tokenizer.save_copy(tmp_path / "deep" / "c.model")
    assert (tmp_path / "deep" / "c.model").read_bytes() == (tmp_path / "b.model").read_bytes()
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
    split = TextSplit(rows, input_feature="en", target_feature="de", identity="test")
    lines = list(sample_lines(split, max_examples=10))
    assert len(set(lines)) == 20
    assert lines == list(sample_lines(split, max_examples=10))
    assert lines[0::2] == ["e" + line[1:] for line in lines[1::2]]
    assert len(list(sample_lines(split))) == 200
