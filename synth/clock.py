"""Times as people and files read them."""

import datetime


def now() -> str:
    """The time in UTC, to the second, ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def duration(seconds: float) -> str:
    """`2:03:04`, or days before it."""
    return str(datetime.timedelta(seconds=round(seconds)))
