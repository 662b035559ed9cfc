"""The one exception that stands for a user's mistake."""


class UserError(ValueError):
    """A wrong flag, config, run directory or checkpoint, told in one plain sentence.

    Entry points print the message and exit with status 2; they never show a traceback for it.
    """
