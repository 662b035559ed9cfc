"""The tasks of the paper; a new one is one module with a `Task`, named in `TASKS`."""

from data.errors import DataError
from data.tasks.agnews import AGNEWS
from data.tasks.c4 import C4
from data.tasks.cnn_dailymail import CNN_DAILYMAIL
from data.tasks.glue import GLUE
from data.tasks.imdb import IMDB
from data.tasks.lm1b import LM1B
from data.tasks.personachat import PERSONACHAT
from data.tasks.superglue import EN_MIX, SUPERGLUE
from data.tasks.task import Task
from data.tasks.wmt import WMT_ENDE, WMT_ENFR

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        WMT_ENDE,
        WMT_ENFR,
        LM1B,
        CNN_DAILYMAIL,
        PERSONACHAT,
        C4,
        GLUE,
        SUPERGLUE,
        EN_MIX,
        AGNEWS,
        IMDB,
    )
}


def get_task(name: str) -> Task:
    """The task of that name; a `DataError` lists those that exist."""
    if name not in TASKS:
        raise DataError(f"there is no task {name!r}; there are: {', '.join(TASKS)}")
    return TASKS[name]
