"""Which host of a pod job this one is."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping

from synth.clusters import slurm_tasks
from synth.errors import UserError


@dataclasses.dataclass(frozen=True)
class Hosts:
    """One host of several that were started with the same command.

    Attributes:
      process_id: its number, from 0.
      num_processes: how many there are.
      job: tells jobs apart whose hosts meet in the same folder.
    """

    process_id: int
    num_processes: int
    job: str = ""


def find(
    process_id: int | None,
    num_processes: int | None,
    coordinator_address: str,
    environment: Mapping[str, str],
) -> Hosts:
    """This host, by the flags, or else by what cluster managers put into the environment.

    Raises:
      UserError: if nothing tells, or numbers do not fit together.
    """
    if (process_id is None) != (num_processes is None):
        raise UserError("--process_id and --num_processes go together")
    if process_id is not None and num_processes is not None:
        return _checked(process_id, num_processes, coordinator_address, "flags")
    for source in (_jax, _slurm, _tpu):
        try:
            found = source(environment)
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"the environment names no host: {error}") from error
        if found:
            return _checked(*found, source.__name__.strip("_"))
    raise UserError(
        "cannot tell which host this is (no JAX_PROCESS_ID, SLURM_PROCID or TPU_WORKER_ID): give "
        "--process_id=I and --num_processes=N on each host, with I from 0 to N - 1"
    )


def _checked(process_id: int, num_processes: int, job: str, source: str) -> Hosts:
    if not 0 <= process_id < num_processes:
        raise UserError(
            f"host {process_id} of {num_processes} ({source}): the first is 0, the last "
            f"{num_processes - 1}"
        )
    return Hosts(process_id, num_processes, hashlib.sha256(job.encode()).hexdigest()[:8])


_Found = tuple[int, int, str] | None


def _jax(environment: Mapping[str, str]) -> _Found:
    if not {"JAX_PROCESS_ID", "JAX_NUM_PROCESSES"} <= environment.keys():
        return None
    address = environment.get("JAX_COORDINATOR_ADDRESS", "")
    return int(environment["JAX_PROCESS_ID"]), int(environment["JAX_NUM_PROCESSES"]), address


def _slurm(environment: Mapping[str, str]) -> _Found:
    if not {"SLURM_PROCID", "SLURM_NTASKS"} <= environment.keys():
        return None
    tasks = slurm_tasks(environment)
    if int(environment["SLURM_NTASKS"]) != tasks:
        raise UserError(
            f"this is a script of a Slurm job of {environment['SLURM_NTASKS']} tasks, of which no "
            "other runs it: start it on all of them with srun, as `srun python sweep.py ...`"
        )
    return int(environment["SLURM_PROCID"]), tasks, environment.get("SLURM_JOB_ID", "")


def _tpu(environment: Mapping[str, str]) -> _Found:
    """GKE's variables; those of MegaScale are there for several slices."""
    if not {"TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"} <= environment.keys():
        return None
    names = environment["TPU_WORKER_HOSTNAMES"]
    hosts = len(names.split(","))
    slices = int(environment.get("MEGASCALE_NUM_SLICES", "1"))
    first = int(environment.get("MEGASCALE_SLICE_ID", "0")) * hosts
    job = environment.get("MEGASCALE_COORDINATOR_ADDRESS", names)
    return first + int(environment["TPU_WORKER_ID"]), slices * hosts, job
