"""What sweep.py does, by its flags."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path

from synth import files, results
from synth.errors import UserError
from synth.progress import say
from synth.sweeps import assignments, hosts, local, plan, pod, slurm, status, xpk
from synth.sweeps.execution import Sweep
from synth.sweeps.folder import Folder
from synth.sweeps.rows import Selection, expand
from synth.sweeps.runs import Commands, Run

LAUNCHERS = ("local", "pod", "slurm", "xpk")
_RESULTS = "results"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of sweep.py, which says what each one means."""

    table: str
    configs: Sequence[str]
    variants: Sequence[str]
    scale: str
    seeds: Sequence[str]
    set: Sequence[str]
    folder: str
    results: str
    eval: bool
    dry_run: bool
    flops_per_second: float | None
    status: bool
    watch: bool
    json: bool
    launcher: str
    jobs: int
    process_id: int | None
    num_processes: int | None
    coordinator_address: str | None
    host_timeout: float
    slurm: Sequence[str]
    xpk: Sequence[str]


def main(options: Options, flags: Sequence[str]) -> int:
    """Carries out the command; returns its exit status.

    Args:
      options: the flags.
      flags: further ones for train.py and eval.py.

    Raises:
      UserError: for flags that are wrong or do not go together.
    """
    _check(options)
    folder = Folder(files.local("--folder", options.folder))
    if options.status:
        _show_status(options, folder)
        return 0
    store = _results(options, folder)
    commands = Commands(folder.path, store, [*flags, *_peers(options)])
    sweep = Sweep(folder, _runs(options, folder), commands, options.eval, store)
    if options.dry_run:
        found = plan.entries(sweep, commands, options.flops_per_second)
        print(json.dumps(found, indent=2) if options.json else plan.table(found))
        return 0
    return _launch(options, sweep, flags)


def _check(options: Options) -> None:
    if not options.folder:
        raise UserError("name a folder for the sweep: --folder=runs/sweeps/NAME")
    if options.launcher not in LAUNCHERS:
        raise UserError(f"no launcher {options.launcher!r}; known: {', '.join(LAUNCHERS)}")
    if options.status and options.dry_run:
        raise UserError("--status and --dry_run do not go together")
    if options.watch and (options.json or not options.status):
        raise UserError("--watch goes with --status, without --json")
    if options.json and not (options.status or options.dry_run):
        raise UserError("--json goes with --dry_run or --status")
    if options.flops_per_second is not None and not options.flops_per_second > 0:
        raise UserError(f"--flops_per_second={options.flops_per_second} must be more than 0")
    if options.jobs < 1:
        raise UserError(f"--jobs={options.jobs} must be at least 1")
    if not options.host_timeout > 0:
        raise UserError(f"--host_timeout={options.host_timeout} must be more than 0")


def _selected(options: Options) -> bool:
    return bool(options.table or options.configs or options.variants)


def _runs(options: Options, folder: Folder) -> list[Run]:
    """Those that the flags ask for; without such flags, all that were asked for before."""
    if not _selected(options):
        if options.set:
            raise UserError("--set needs the runs that it is for: --table, or --configs --variants")
        return folder.runs()
    selection = Selection(
        options.table,
        options.configs,
        options.variants,
        options.scale,
        options.seeds,
        assignments.parse(options.set),
    )
    return expand(selection)


def _results(options: Options, folder: Folder) -> str:
    found = options.results or folder.results() or _RESULTS
    return str(files.local("--results", found))


def _peers(options: Options) -> list[str]:
    """How train.py and eval.py find their peers, where they cannot find out by themselves."""
    if not options.coordinator_address:
        return []
    here = _here(options)
    return [
        f"--coordinator_address={options.coordinator_address}",
        f"--num_processes={here.num_processes}",
        f"--process_id={here.process_id}",
    ]


def _here(options: Options) -> hosts.Hosts:
    return hosts.find(
        options.process_id, options.num_processes, options.coordinator_address or "", os.environ
    )


def _show_status(options: Options, folder: Folder) -> None:
    store = Path(_results(options, folder))
    if options.watch:
        status.watch(folder, store)
        return
    found = status.entries(folder, folder.runs(), store)
    print(json.dumps(found, indent=2) if options.json else status.table(found))


def _launch(options: Options, sweep: Sweep, flags: Sequence[str]) -> int:
    if options.launcher == "xpk":
        shared = [f"--results={sweep.results}", *([] if options.eval else ["--noeval"]), *flags]
        print(*xpk.commands(sweep, options.xpk, shared), sep="\n")
        say(f"{sweep.folder.path} must be storage that the cluster mounts at this path")
        return 0
    if sweep.evaluate:
        results.check(Path(sweep.results))  # what eval.py would say after hours of training
    sweep.folder.path.mkdir(parents=True, exist_ok=True)
    if options.launcher == "slurm":
        return slurm.launch(sweep, options.slurm, options.host_timeout)
    if options.launcher == "pod":
        here = _here(options)
        result = pod.launch(sweep, here, options.host_timeout)
        if here.process_id:
            return result
    else:
        result = local.launch(sweep, options.jobs)
    print(status.table(status.entries(sweep.folder, sweep.runs, Path(sweep.results))))
    return result
