"""What Slurm tells a process about the others that were started with it."""

from collections.abc import Mapping


def slurm_tasks(environment: Mapping[str, str]) -> int:
    """How many processes srun has started with this one, itself included; 1 outside of srun.

    A batch script, too, has the job's number of tasks and a number among them, but it runs alone:
    only inside of srun there is a step.
    """
    inside = "SLURM_STEP_NODELIST" in environment
    return int(environment.get("SLURM_NTASKS", 1)) if inside else 1
