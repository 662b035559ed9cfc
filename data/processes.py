"""Other processes of this host."""

import os


def is_alive(pid: int) -> bool:
    """Whether there is a process with that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # of another user
    return True
