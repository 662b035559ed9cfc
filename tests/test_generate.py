"""generate.py: a line out for each line in, in order, whatever lies around it."""

import re
from typing import Any

import jax
import numpy as np
import pytest
from conftest import cut_text, evaluate_one

from data.sources import read_all
from data.tokenizer import EOS_ID, SENTINELS
from synth import evaluation, generation, lines, training
from synth.decoding import Search, output_length
from synth.errors import UserError
from synth.experiment import make_experiment
from synth.generation import Generator, Options
from synth.outputs import write_outputs
from synth.rundir import RunDir
from synth.trained import load_trained

ONE_STEP = {f"train.{k}": 1 for k in ("num_steps", "log_every", "eval_every", "checkpoint_every")}
SAMPLED = Options(sample=True, temperature=1.5, top_k=200, top_p=0.95, seed=3, max_tokens=12)
GREEDY = Options(beam=1, max_tokens=12)


def answers(run: RunDir, texts, options: Options = GREEDY) -> list[str]:
    """Outputs of texts in one window."""
    return list(Generator(run, options).answer([[text.encode() for text in texts]]))


def lively_params(params):
    """Other parameters, as large as make outputs vary: after four steps all lines get the same."""
    rng = np.random.default_rng(0)

    def draw(path, values):
        name = jax.tree_util.keystr(path[-1:])
        drawn = rng.normal(size=values.shape).astype(np.float32)
        if "table" in name:
            drawn *= values.shape[1] ** -0.5
        elif "scale" in name or "bias" in name:
            drawn = np.full_like(drawn, "scale" in name)
        return jax.device_put(drawn, values.sharding)

    return jax.tree_util.tree_map_with_path(draw, params)


@pytest.fixture
def lively(monkeypatch) -> None:
    """Generators have these parameters."""

    def load(run, checkpoint):
        experiment, step, params, fixed = load_trained(run, checkpoint)
        return experiment, step, lively_params(params), fixed

    monkeypatch.setattr(generation, "load_trained", load)


@pytest.fixture(scope="module")
def sources_ende(trained_ende) -> list[str]:
    """23 lines that evaluation translates, some too long for the model."""
    with cut_text():
        text = evaluation.open_split(load_trained(trained_ende, "last")[0], "validation")
        return [example["inputs"] for example in text.__getitems__(range(len(text)))]


def one_step(row: str, tiny, tmp_path_factory) -> RunDir:
    run = RunDir(tmp_path_factory.mktemp("run") / "run")
    with cut_text():
        training.train(tiny(row, ONE_STEP), run)
    return run


# --- Translation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("beam", [1, 3])
def test_translations_are_those_that_evaluation_scores(
    trained_ende, sources_ende, beam, lively, capfd
):
    experiment, _, params, fixed = load_trained(trained_ende, "last")
    decode = experiment.config.decode
    search = Search(beam=beam, alpha=0.6, extra_length=decode.extra_length)
    with cut_text():
        text = list(read_all(evaluation.open_split(experiment, "validation")))
        model = (experiment, lively_params(params), fixed)
        expected = write_outputs(*model, text, search, batch_tokens=decode.batch_tokens)
    capfd.readouterr()
    found = answers(trained_ende, sources_ende, Options(beam=beam, alpha=0.6))
    assert found == expected
    assert len(set(found)) > 8
    told = capfd.readouterr().err
    cut = re.findall(r"note: line (\d+) has (\d+) tokens.* \(max_length=64\)", told)
    sizes = [len(ids) + 1 for ids in experiment.tokenizer.encode(sources_ende)]
    assert cut == [(str(n), str(size)) for n, size in enumerate(sizes, start=1) if size > 64] != []


@pytest.mark.parametrize("options", [Options(beam=1), Options(beam=3), SAMPLED])
def test_an_output_does_not_depend_on_the_lines_around_it(
    trained_ende, sources_ende, options, lively
):
    """In one window, in windows of 5, alone at its place, among others in another order."""
    generator = Generator(trained_ende, options)
    raw = [line.encode() for line in sources_ende]
    found = list(generator.answer([raw]))
    assert len(set(found)) > 8
    assert list(generator.answer(raw[i : i + 5] for i in range(0, 23, 5))) == found
    alone = [b""] * 23
    alone[7] = raw[7]
    assert list(generator.answer([alone])) == ["" if i != 7 else found[7] for i in range(23)]
    if not options.sample:  # a sample depends on the number of its line
        assert list(generator.answer([raw[::-1]])) == found[::-1]


def test_outputs_come_before_the_next_lines_are_read(trained_ende):
    read = []

    def windows():
        for window in ([b"Open the file."], [b"", b"Close it."]):
            read.append(window)
            yield window

    outputs = Generator(trained_ende, GREEDY).answer(windows())
    next(outputs)
    assert len(read) == 1
    assert len(list(outputs)) == 2


def test_samples_differ_and_come_again_with_their_seed(trained_ende, lively):
    texts = ["Open the file.", "", "Open the file."]
    options = {"sample": True, "n": 2, "max_tokens": 8}
    found = answers(trained_ende, texts, Options(**options, seed=1))
    assert found == answers(trained_ende, texts, Options(**options, seed=1))
    assert found != answers(trained_ende, texts, Options(**options, seed=2))
    assert found[2:4] == ["", ""]  # two samples of an empty line
    assert len({*found[:2], *found[4:]}) == 4


def test_top_1_samples_are_the_greedy_outputs(trained_ende, sources_ende, lively):
    one = Options(sample=True, top_k=1, max_tokens=12)
    assert answers(trained_ende, sources_ende[:5], one) == answers(trained_ende, sources_ende[:5])


def test_odd_lines(trained_ende, lively, capfd):
    """Neither bytes that are no UTF-8 nor rare characters end a run; two forms of é are one."""
    odd = [b"\xff\xfe file", b"a\0b", "\U0001f600 \u2028 \x85".encode(), b"Open.\r", b" \t "]
    texts = [*odd, b"Open.", "caf\u00e9".encode(), "cafe\u0301".encode()]
    found = list(Generator(trained_ende, GREEDY).answer([texts]))
    assert len(found) == len(texts)
    assert all(len(line.splitlines()) <= 1 for line in found)
    assert found[3] == found[5] and found[6] == found[7] and found[4] == ""
    notes = capfd.readouterr().err.splitlines()
    assert len(notes) == 2
    assert "line 1 is not UTF-8" in notes[0] and "line 5 is empty" in notes[1]


@pytest.mark.parametrize(
    ("row", "bucket", "search", "length"),
    [
        ("wmt_ende:random", 24, Search(extra_length=8), 32),
        ("wmt_ende:random", 64, Search(extra_length=8), 64),
        ("wmt_ende:random", 24, Search(extra_length=8, max_tokens=5), 5),
        ("wmt_ende:random", 24, Search(extra_length=8, max_tokens=500), 32),
        ("cnn_dailymail:random", 64, Search(extra_length=8), 48),
        ("lm1b:random", 24, Search(extra_length=8), 64),
        ("lm1b:random", 24, Search(max_tokens=5), 29),
        ("lm1b:random", 62, Search(max_tokens=5), 64),
    ],
)
def test_how_long_outputs_may_be(tiny, row, bucket, search, length):
    assert output_length(make_experiment(tiny(row).config), search, bucket) == length


# --- The other kinds ------------------------------------------------------------------------------


def test_a_language_model_goes_on_from_each_prompt(trained_lm, lively):
    """Prompts of several lengths give side by side what each gives alone, without the prompt."""
    prompts = ["And God said", "In the beginning God created the heaven and the earth, and", "A"]
    for options in (Options(beam=1), Options(beam=3, max_tokens=9)):
        found = answers(trained_lm, prompts, options)
        assert found == [answers(trained_lm, [prompt], options)[0] for prompt in prompts]
    sampled = answers(trained_lm, prompts, Options(sample=True, n=2, max_tokens=9))
    assert len(sampled) == 6 and len(set(sampled)) > 3
    experiment, _, params, fixed = load_trained(trained_lm, "last")
    (greedy,) = answers(trained_lm, prompts[:1], Options(beam=1, max_tokens=1))
    ids = experiment.tokenizer.encode(prompts[:1])
    batch = {"targets": np.array([[*ids[0], EOS_ID]], np.int32)}
    model: Any = experiment.model(lively_params(params), fixed)
    logits_V = np.asarray(model(batch))[0, -1]
    following = int(logits_V[1:].argmax()) + 1
    assert prompts[0] + greedy == experiment.tokenizer.decode([[*ids[0], following]])[0]


def test_a_prompt_without_room_is_refused_with_its_line(trained_lm):
    size = len(load_trained(trained_lm, "last")[0].tokenizer.encode(["word"])[0])
    long = " ".join(["word"] * (64 // size + 1))
    with pytest.raises(UserError, match=r"^line 2 has \d+ tokens .*\(max_length=64\)"):
        answers(trained_lm, ["And", long])


@pytest.fixture(scope="module")
def trained_c4(tiny, tmp_path_factory) -> RunDir:
    return one_step("c4:random+vanilla", tiny, tmp_path_factory)


def test_gaps_of_a_text_are_the_tokens_of_training(trained_c4):
    """Words hidden in the text are tokens hidden in the line, spaces and all; and back."""
    tokenizer = load_trained(trained_c4, "last")[0].tokenizer
    words = ["Thank", "you", "for", "inviting", "me", "to", "your", "party", "last", "week"]
    parts = [words[:2], words[2:4], words[4:8], words[8:9], words[9:]]
    first, *rest = (tokenizer.encode([" ".join(part)])[0] for part in parts)
    zero, one = tokenizer.sentinels[:2]
    text = "Thank you <extra_id_0> me to your party <extra_id_1> week"
    assert lines.encode_gaps(text, tokenizer) == [*first, zero, *rest[1], one, *rest[3]]
    spans = [zero, *rest[0], one, *rest[2], EOS_ID, 7]
    assert lines.decode_gaps(spans, tokenizer) == "<extra_id_0> for inviting <extra_id_1> last"
    inside = lines.encode_gaps("<extra_id_99>ing <extra_id_0>", tokenizer)
    assert inside[0] == tokenizer.sentinels[99] and inside[-1] == zero
    assert tokenizer.pieces(inside[1:2])[0][0] == "i"  # no space before it
    assert lines.decode_gaps(inside, tokenizer) == "<extra_id_99>ing <extra_id_0>"
    assert lines.encode_gaps("no gap ", tokenizer) == tokenizer.encode(["no gap "])[0]


def test_span_corruption_names_its_spans(trained_c4, lively):
    texts = ["In the <extra_id_0> God created <extra_id_1> and the earth", "no gap"]
    found = answers(trained_c4, texts, Options(sample=True, n=8, temperature=3.0))
    assert any(name in line for line in found for name in SENTINELS)


def test_a_classifier_names_labels(tiny, tmp_path_factory, short_text, capfd):
    run = one_step("imdb:vanilla", tiny, tmp_path_factory)
    experiment = load_trained(run, "last")[0]
    text = evaluation.open_split(experiment, "validation")
    expected = evaluate_one(run, split="validation").figures[0].sums["right"]
    examples = text.__getitems__(range(len(text)))
    found = answers(run, [example["inputs"] for example in examples] + [""], Options())
    labels = [experiment.task.labels[example["label"]] for example in examples]
    assert sum(a == b for a, b in zip(found, labels, strict=False)) == expected
    assert set(found[:-1]) <= set(experiment.task.labels) and found[-1] == ""
    with pytest.raises(UserError, match="--beam has no use"):
        Generator(run, Options(beam=2))
