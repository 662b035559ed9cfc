"""Looking at the data: every kind of task, and what a user may get wrong."""

import pytest

from data import show
from data.errors import DataError
from data.tasks import TASKS

STAND_INS = [name for name in TASKS if name != "agnews"]


pytestmark = pytest.mark.usefixtures("in_root")


@pytest.mark.parametrize("task", STAND_INS)
def test_every_task_is_shown(task, data_dir, tmp_path, capsys):
    plot = tmp_path / "new" / "lengths.png"
    arguments = [task, "--n=2", "--scale=tiny", f"--data_dir={data_dir}", f"--plot={plot}"]
    assert show.main([*arguments, "--split=validation"]) == 0
    out = capsys.readouterr().out
    assert f"{task} ({TASKS[task].kind}), data set {TASKS[task].datasets[0].name}" in out
    assert out.count("--- example") == 2
    for part in ("ids:\n", "tokens:\n", "median", "###", " full; left out", f"picture: {plot}"):
        assert part in out
    assert plot.read_bytes().startswith(b"\x89PNG") and plot.stat().st_size > 10_000


def test_text_and_ids_are_those_of_the_first_example(data_dir, tmp_path, capsys):
    from data.sources import open_split
    from data.tokenizer import EOS_ID, load_or_train

    task = TASKS["wmt_ende"]
    plot = f"--plot={tmp_path / 'a.svg'}"
    show.main(["wmt_ende", "--n=1", "--split=test", f"--data_dir={data_dir}", plot])
    out = capsys.readouterr().out
    dataset = task.datasets[0]
    (example,) = open_split(dataset, "test", data_dir=data_dir).__getitems__([0])
    tokenizer = load_or_train(task, dataset, vocab_size=2000, data_dir=data_dir)
    assert " ".join(example["inputs"].split()) in " ".join(out.split())
    ids = [*tokenizer.encode([example["targets"]])[0], EOS_ID]
    assert f"targets, {len(ids)} tokens:" in out
    assert " ".join(map(str, ids)) in " ".join(out.split())
    assert tokenizer.hash[:16] in out


def test_nothing_is_written_where_the_user_has_not_said(data_dir, tmp_path, capsys):
    show.main(["imdb", "--n=0", "--scale=tiny", "--split=test", f"--data_dir={data_dir}"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"picture: {data_dir}/pictures/imdb-movie_sentiment-test-lengths.png"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wmt"], "there is no task 'wmt'; there are: wmt_ende"),
        (["lm1b", "--dataset=x"], "no data set 'x'; it has: web_lm, lm1b"),
        (["lm1b", "--split=dev"], "no split 'dev'; it has: train, validation, test"),
        (["lm1b", "--scale=huge"], "unknown scale 'huge'; known: paper, small, tiny"),
        (["lm1b", "--n=-1"], "--n=-1 must be at least 0"),
        (["lm1b", "--examples=3"], "--examples=3"),
        (["lm1b", "--plot=configs"], "--plot=configs must be a file with an ending"),
        (["lm1b", "--plot=picture"], "--plot=picture must be a file with an ending"),
        (["lm1b", "--dataset=lm1b"], "python -m data.prepare"),
        (["agnews"], "python -m data.prepare"),
        (["lm1b", "--scale=tiny", "--n=0", "--plot=a.xyz"], "--plot=a.xyz"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, message, data_dir):
    with pytest.raises(DataError) as error:
        show.main([*arguments, f"--data_dir={data_dir}"])
    assert message in str(error.value) and "\n" not in str(error.value)
