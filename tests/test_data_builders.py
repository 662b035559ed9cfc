"""PersonaChat from small archives with the published layout: this machine has no others."""

import dataclasses
import hashlib
import http.server
import threading

import pytest
from small_builds import prepared, tgz

from data.builders import personachat
from data.errors import DataError


def dialogue(*exchanges, persona=()):
    """Lines of one dialogue."""
    texts = [f"your persona: {line}" for line in persona]
    texts += ["\t".join(exchange) for exchange in exchanges]
    return "".join(f"{number} {text}\n" for number, text in enumerate(texts, start=1)).encode()


HELLO = dialogue(("Hello , I'm Bo .", "hi ! don't I know you ?"), ("Yes", "no", "", "a|b"))
SILENT = dialogue(("__SILENCE__", "hi"), ("hello", "yes"))
# One dialogue for every position of the split, and the last one, which is left out.
HUNDRED = b"".join(dialogue((f"q {number}", f"a {number}")) for number in range(101))

WITH_PERSONA = dialogue(("hi", "hello"), ("yes", "no", "", "a|b"), persona=("i ski .", "i hunt ."))


def files(form, content, **changed):
    """The files of a form; `changed` by the first word of their names: train, valid, test."""
    members = dict.fromkeys(personachat.SOURCES[form].files, content)
    for name in members:
        members[name] = changed.get(name.split("/")[-1].split("_")[0], content)
    return members


@pytest.fixture
def chat(tmp_path, monkeypatch):
    """Prepares a form of PersonaChat from an archive with these members."""

    def prepare(form, members, *, sha256=None, place=True, url=None, links=()):
        archive = personachat.SOURCES[form].archive
        path = tgz(tmp_path / "archives" / archive.filename, members, links)
        archive = dataclasses.replace(
            archive,
            sha256=sha256 or hashlib.sha256(path.read_bytes()).hexdigest(),
            url=url or archive.url,
        )
        source = dataclasses.replace(personachat.SOURCES[form], archive=archive)
        monkeypatch.setitem(personachat.SOURCES, form, source)
        builder = personachat.PersonaChat(config=form, data_dir=tmp_path / "data")
        return prepared(builder, tmp_path / ("archives" if place else "nothing here"))

    return prepare


def test_self_original_has_persona_and_history(chat):
    rows = chat("self_original", files("self_original", WITH_PERSONA))
    assert list(rows) == ["train", "validation", "test"]
    persona = "your persona: i ski .\nyour persona: i hunt ."
    assert (
        rows["train"]
        == rows["validation"]
        == [
            {"context": f"{persona}\nhi", "response": "hello"},
            {"context": f"{persona}\nhi\nhello\nyes", "response": "no"},
        ]
    )


def test_silence_is_no_part_of_the_history(chat):
    rows = chat("self_original", files("self_original", WITH_PERSONA, train=SILENT))
    assert [row["context"] for row in rows["train"]] == ["", "hi\nhello"]


def test_convai2_pairs_neighbours_in_both_directions_and_splits_by_place(chat):
    rows = chat("convai2", files("convai2", HUNDRED, train=HELLO + SILENT) | {"other.txt": b"1"})
    one, two = "hello i 'm bo .", "hi ! do n't i know you ?"
    assert rows["train"][:3] == [
        {"source": one, "target": two},
        {"source": two, "target": "yes"},
        {"source": "yes", "target": "no"},
    ]
    numbers = {split: [row["source"] for row in part] for split, part in rows.items()}
    assert numbers["train"][3:] == [f"q {number}" for number in [*range(80), 99]]
    assert numbers["validation"] == [f"q {number}" for number in range(80, 90)]
    assert numbers["test"] == [f"q {number}" for number in range(90, 99)]


def test_a_dialogue_that_was_there_before_is_left_out_and_keeps_its_place(chat, capfd):
    rows = chat("convai2", files("convai2", HUNDRED, train=HELLO + HELLO))
    assert [row["source"] for row in rows["train"]].count("yes") == 1
    assert rows["validation"][0]["source"] == "q 79"
    assert "1 dialogues that repeat another are left out" in capfd.readouterr().err


def test_pairs_of_which_cleaning_leaves_nothing_are_left_out(chat, capfd):
    rows = chat("convai2", files("convai2", HUNDRED, train=dialogue(("hi", "\u2764"), ("a", "b"))))
    assert rows["train"][0] == {"source": "a", "target": "b"}
    assert "2 pairs with a side of which cleaning left nothing" in capfd.readouterr().err


# What Tensor2Tensor's clean_line gives.
CLEANED = {
    "Hi! I don't know, it's 5.30 'cause we're 'late'.": (
        "hi ! i do n't know it 's 5 . 30 cause we 're late' ."
    ),
    "they ' re rockin' n' rollin'": "they re rockin' n' rollin'",
}


@pytest.mark.parametrize(("text", "cleaned"), CLEANED.items())
def test_cleaning_is_that_of_tensor2tensor(text, cleaned):
    assert personachat.clean(text) == cleaned


# --- Faults ---------------------------------------------------------------------------------------

BAD_LINES = {
    "no number": (b"hello\tyou\n", "no number at its beginning"),
    "other number": (b"5 hello\tyou\n", "number 5 where 1 or 3 is due"),
    "no tab": (b"3 hello you\n", "no tab between utterance and response"),
    "no utterance": (b"3 \tyou\n", "an empty utterance"),
    "no response": (b"3 hello\t \n", "an empty response"),
    "late persona": (b"3 your persona: i ski .\n", "a persona line after an utterance"),
    "Latin-1": (b"3 caf\xe9\tyou\n", "not UTF-8 at byte 5"),
}


@pytest.mark.parametrize(("line", "reason"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_shown_and_ends_its_dialogue(chat, capfd, line, reason):
    broken = dialogue(("first", "kept"), ("second", "kept too"))
    content = broken + line + b"4 never\tread\n" + HUNDRED
    rows = chat("self_original", files("self_original", WITH_PERSONA, train=content))
    responses = [row["response"] for row in rows["train"]]
    assert responses == ["kept", "kept too", *(f"a {number}" for number in range(101))]
    said = capfd.readouterr().err
    assert f"personachat/train_self_original.txt:3: {reason}; the rest" in said
    assert "1 of 105 lines are malformed" in said


def test_too_many_bad_lines(chat):
    content = HELLO + b"3 no tab\n" + HELLO
    with pytest.raises(DataError, match=r"1 of 5 lines.*valid_self_original\.txt:3: no tab"):
        chat("self_original", files("self_original", WITH_PERSONA, valid=content))


def test_files_without_dialogues(chat):
    for content, reason in ((b"", "is empty"), (dialogue(persona=("i ski .",)), "no dialogue")):
        members = files("self_original", WITH_PERSONA, test=content)
        with pytest.raises(DataError, match=rf"test_self_original\.txt.*{reason}"):
            chat("self_original", members)
    with pytest.raises(DataError, match="the 2 dialogues leave validation, test empty"):
        chat("convai2", files("convai2", HELLO))


def test_a_missing_file(chat):
    members = files("convai2", HUNDRED)
    del members["valid_none_original_no_cands.txt"]
    with pytest.raises(DataError, match=r"lacks valid_none_original_no_cands\.txt"):
        chat("convai2", members)


def test_nothing_is_written_beside_the_set(chat, tmp_path):
    members = files("convai2", HUNDRED)
    outside = {"../../outside.txt": b"1 a\tb\n", str(tmp_path / "absolute.txt"): b"1 a\tb\n"}
    chat("convai2", outside | members)
    assert not (tmp_path / "absolute.txt").exists() and not list(tmp_path.glob("**/outside.txt"))


def test_a_link_is_no_file(chat, tmp_path):
    members = files("convai2", HUNDRED)
    name = "valid_none_original_no_cands.txt"
    (tmp_path / name).write_bytes(members.pop(name))
    with pytest.raises(DataError, match=f"lacks {name}"):
        chat("convai2", members, links=[(name, str(tmp_path / name))])


def test_another_archive_under_that_name(chat):
    with pytest.raises(DataError, match=r"convai2_fix_723\.tgz is not.*sha256 \w{64}, expected 0f"):
        chat("convai2", files("convai2", HUNDRED), sha256="0f")


def test_a_damaged_archive(chat, tmp_path, monkeypatch):
    path = tmp_path / "archives" / "convai2_fix_723.tgz"
    whole = tgz(path, files("convai2", HUNDRED)).read_bytes()
    for content in (whole[: len(whole) // 2], b"<html>not found</html>"):
        path.write_bytes(content)
        source = personachat.SOURCES["convai2"]
        sha256 = hashlib.sha256(content).hexdigest()
        archive = dataclasses.replace(source.archive, sha256=sha256)
        changed = dataclasses.replace(source, archive=archive)
        monkeypatch.setitem(personachat.SOURCES, "convai2", changed)
        builder = personachat.PersonaChat(config="convai2", data_dir=tmp_path / "data")
        with pytest.raises(DataError, match=r"convai2_fix_723\.tgz is damaged at .*get it again"):
            prepared(builder, path.parent)


# --- Downloads ------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path):
    """Serves the archives; yields its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path / "archives"))

        def log_message(self, format, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as running:
        threading.Thread(target=running.serve_forever, args=[0.01]).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_an_archive_that_is_not_there_is_downloaded(chat, server):
    url = f"{server}/convai2_fix_723.tgz"
    assert len(chat("convai2", files("convai2", HUNDRED), place=False, url=url)["test"]) == 9


def test_a_failed_download_says_what_to_do(chat, server, tmp_path):
    with pytest.raises(DataError, match=r"cannot be downloaded .*404.*as convai2_fix_723\.tgz"):
        chat("convai2", files("convai2", HUNDRED), place=False, url=f"{server}/gone.tgz")
