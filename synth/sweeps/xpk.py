"""The launcher of GKE: prints the command that submits each run as a workload, by xpk.

Each workload walks as a pod does, on one run, so that its state is kept in the folder, which must
be storage that the cluster mounts at the same path (`xpk storage attach`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from synth.errors import UserError
from synth.sweeps.execution import Sweep
from synth.sweeps.rows import flags_of
from synth.sweeps.runs import Run

_LONGEST = 40  # characters of a workload's name that xpk takes
_DEVICES = ("tpu-type", "device-type")
# Of `xpk workload create`, but for those that are decided here.
_VALUES = (
    "cluster",
    *_DEVICES,
    "base-docker-image",
    "debug-dump-gcs",
    "docker-image",
    "docker-name",
    "env",
    "env-file",
    "max-restarts",
    "num-nodes",
    "num-slices",
    "priority",
    "project",
    "ramdisk-directory",
    "reservation",
    "scheduler",
    "script-dir",
    "termination-grace-period-seconds",
    "ttl-seconds-after-finished",
    "zone",
)
_SWITCHES = (
    "deploy-stacktrace-sidecar",
    "enable-debug-logs",
    "on-demand",
    "restart-on-user-code-failure",
    "spot",
)


def commands(sweep: Sweep, settings: Sequence[str], flags: Sequence[str]) -> list[str]:
    """A command for each run with something left to do.

    Args:
      sweep: what to do.
      settings: flags of `xpk workload create` without dashes, as `cluster=c`; a switch as `spot`.
      flags: of sweep.py, beside those that name the run and the folder.

    Raises:
      UserError: for a setting that xpk does not take, or one that is missing.
    """
    given = [_flag(part) for setting in settings for part in setting.split(",")]
    names = {flag.partition("=")[0].removeprefix("--") for flag in given}
    if "cluster" not in names or not names & set(_DEVICES):
        raise UserError(
            "--launcher=xpk needs a cluster and a device: --xpk cluster=NAME,tpu-type=v5litepod-16"
        )
    return [_command(sweep, run, given, flags) for run in sweep.unfinished()]


def _flag(setting: str) -> str:
    name, equals, value = setting.partition("=")
    if not (name in _VALUES and value) and not (name in _SWITCHES and not equals):
        known = [f"{name}=" for name in _VALUES] + list(_SWITCHES)
        raise UserError(f"--xpk {setting} is no setting; known: {', '.join(known)}")
    return f"--{setting}"


def _command(sweep: Sweep, run: Run, given: Sequence[str], flags: Sequence[str]) -> str:
    folder = f"--folder={sweep.folder.path}"
    inner = ["python", "sweep.py", "--launcher=pod", folder, *flags_of(run), *flags]
    create = ["xpk", "workload", "create", f"--workload={workload(run)}", *given]
    return f"{shlex.join(create)} --command={shlex.quote(shlex.join(inner))}"


def workload(run: Run) -> str:
    """A name that xpk takes: small letters, digits and dashes, with the run's hash at its end."""
    readable = run.name.removesuffix(run.hash)
    readable = re.sub(r"[^a-z0-9]+", "-", readable.lower())
    return f"{readable[: _LONGEST - len(run.hash) - 1].strip('-')}-{run.hash}"
