"""What the entry points share: flags, errors in plain words, devices, caches."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from absl import flags, logging

from data.errors import DataError
from synth.configuration import Flag
from synth.errors import UserError

_CACHE = flags.DEFINE_string(
    "compilation_cache_dir",
    "cache/jax",
    "where compiled programs are kept between runs; '' keeps none",
)
# Where a run has several processes; synth/distributed.py.
PEER_FLAGS = ("coordinator_address", "num_processes", "process_id")
_COORDINATOR = flags.DEFINE_string(
    "coordinator_address", None, "HOST:PORT of process 0, where no cluster is found"
)
_PROCESSES = flags.DEFINE_integer("num_processes", None, "of the run; with --coordinator_address")
_PROCESS = flags.DEFINE_integer("process_id", None, "of this one; with --coordinator_address")
_JOIN = flags.DEFINE_integer("join_timeout", 600, "seconds to wait for the other processes")
_HEARTBEAT = flags.DEFINE_integer(
    "heartbeat_timeout", 100, "seconds without a sign of life after which a process is lost"
)


def run(
    main: Callable[[], int | None],
    config: Flag | None = None,
    *,
    joins: Callable[[], bool] = lambda: False,
) -> None:
    """Parses the command line, runs `main` and exits with its status.

    Args:
      main: returns the status, or None for 0.
      config: the flag of the config, if there is one.
      joins: whether the processes that were started with the same command are to be one program;
        asked when the flags are known.

    A user's mistake (`UserError`, `DataError`, a wrong flag) is one line on standard error and
    status 2, as is the loss of another process; an interrupt before anything was begun is status
    130.
    """
    try:
        _parse(sys.argv, config)
        _set_up()
        if joins():
            _join()
        sys.exit(main() or 0)
    except flags.Error as error:
        _fail(_in_words(str(error)))
    except (UserError, DataError) as error:
        _fail(str(error))
    except OSError as error:  # a full disk, a read-only directory
        _fail(": ".join(filter(None, (str(error.filename or ""), error.strerror or str(error)))))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr, flush=True)
        _leave(128 + signal.SIGINT)
    except Exception as error:
        if not _joined():
            raise
        from synth import distributed

        if words := distributed.loss_of_peer(error):
            _fail(words)
        traceback.print_exc()
        _leave(1)


def _in_words(message: str) -> str:
    """Python's words about a value that is no number, as a user would say it."""
    message = re.sub(r"invalid literal for int\(\).*", "this must be a whole number", message)
    return re.sub(r"could not convert string to float.*", "this must be a number", message)


def _fail(message: str) -> NoReturn:
    print(f"{os.path.basename(sys.argv[0])}: {message}", file=sys.stderr, flush=True)
    others = [t for t in threading.enumerate() if not t.daemon and t is not threading.main_thread()]
    if others:  # after a save that failed, threads of Orbax never end
        sys.stdout.flush()
        os._exit(2)
    _leave(2)


def _leave(status: int) -> NoReturn:
    """Ends the process; of several, without waiting for the others, which may wait for this one."""
    if _joined():
        from synth import distributed

        sys.stdout.flush()
        if distributed.is_first():
            time.sleep(2)  # JAX ends all when this one is gone: let them speak first
        os._exit(status)
    sys.exit(status)


def _parse(argv: Sequence[str], config: Flag | None) -> None:
    if config is not None:
        argv = config.define(argv)
    if {"-h", "--help", "-help"} & set(argv):
        print(sys.modules["__main__"].__doc__)
        print(flags.FLAGS.main_module_help())
        print(flags.FLAGS.module_help(__name__))
        sys.exit(0)
    rest = flags.FLAGS(argv)[1:]
    if rest:
        raise UserError(f"what is {shlex.join(rest)}? All arguments are flags, as --name=value")


def _set_up() -> None:
    # Orbax tells about its inner life on absl's log; what matters comes as an exception, too.
    logging.set_verbosity(logging.FATAL)
    import jax

    if _simulates_devices():
        # A precaution: two programs at once that both wait for all devices could block each other.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    if _CACHE.value:
        jax.config.update("jax_compilation_cache_dir", _cache(os.path.expanduser(_CACHE.value)))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def _cache(directory: str) -> str | None:
    """The directory, made; JAX would only warn, at each program, if it cannot be written.

    None if that is the default's fault, not the user's.
    """
    if "://" in directory:  # JAX takes buckets as well
        return directory
    from synth import files

    try:
        files.check_writable(Path(directory) / "probe")
    except OSError as error:
        if _CACHE.present:
            raise UserError(
                f"--compilation_cache_dir={directory} cannot be written: {error.strerror}; give "
                "another one, or '' for none"
            ) from error
        return None
    return directory


def _join() -> None:
    from synth import distributed

    distributed.start(
        _COORDINATOR.value,
        _PROCESSES.value,
        _PROCESS.value,
        timeout=_JOIN.value,
        heartbeat_timeout=_HEARTBEAT.value,
    )


def _joined() -> bool:
    """Whether this is one of several processes."""
    return "jax" in sys.modules and sys.modules["jax"].distributed.is_initialized()


def _simulates_devices() -> bool:
    several = int(os.environ.get("JAX_NUM_CPU_DEVICES") or 0) > 1
    return several or "host_platform_device_count" in os.environ.get("XLA_FLAGS", "")


def command() -> str:
    """The command line this process was started with, to be repeated; the same in all processes."""
    own = tuple(f"--{flag}" for flag in PEER_FLAGS)
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith(own)]
    return shlex.join(["python", os.path.basename(sys.argv[0]), *arguments])


def check_uses(goes_with: Mapping[str, Sequence[str]]) -> None:
    """Raises UserError for a flag that is given without any of the flags that it goes with."""
    for name, others in goes_with.items():
        if is_given(name) and not any(map(is_given, others)):
            raise UserError(f"--{name} goes with {' or '.join(f'--{other}' for other in others)}")


def is_given(name: str) -> bool:
    """Whether the command line gives that flag a value; `--name=` and `--noname` do not."""
    flag = flags.FLAGS[name]
    return bool(flag.present) and flag.value not in (None, "") and flag.value is not False


def given_flags() -> list[str]:
    """Of the flags that all entry points share, those of this command line, to be passed on.

    Without those that tell a process which one it is.
    """
    shared = flags.FLAGS.flags_by_module_dict()[__name__]
    return [
        f"--{flag.name}={flag.value}"
        for flag in shared
        if flag.present and flag.name not in PEER_FLAGS
    ]
