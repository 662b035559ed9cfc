"""The one exception of this package that is meant to be read by the person who runs it."""


class DataError(ValueError):
    """A user's mistake or a missing data set, told in plain words: what, where, what to do."""
