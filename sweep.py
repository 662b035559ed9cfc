"""Runs many rows: a table of the paper, or variants, seeds and values of config keys.

python sweep.py --table=wmt_lm1b --scale=small --folder=runs/sweeps/table2 --dry_run
python sweep.py --configs=lm1b --variants=random,random+vanilla --seeds=0,1 --folder=FOLDER
python sweep.py --folder=FOLDER --status [--watch]

Each run is train.py and then eval.py in a directory of its own below the folder. Given again, the
command passes over what is done, goes on with what was cut off and tries again what failed; without
the flags that name runs, all runs of the folder are meant. --launcher=pod is started on every host
of a pod, with --process_id=I --num_processes=N where no cluster tells these, and
--coordinator_address=HOST:PORT where JAX cannot find its processes; --launcher=slurm submits a job
for each run, --launcher=xpk prints commands for GKE.
"""

from typing import Any

from absl import flags

from synth import cli

flags.DEFINE_string("table", "", "of results/paper.json: all its rows that can be run")
flags.DEFINE_list("configs", [], "or tasks: wmt_ende,lm1b")
flags.DEFINE_list("variants", [], "with variants: random,random+vanilla;mix=sum")
flags.DEFINE_string("scale", "paper", "of all rows: paper, small or tiny")
flags.DEFINE_list("seeds", ["0"], "each row with each of them: 0,1,2")
flags.DEFINE_multi_string("set", [], "config.KEY=VALUE,VALUE: each row with each value; repeatable")
flags.DEFINE_string("folder", "", "of the sweep: made, or gone on with")
flags.DEFINE_string("results", "", "directory of the run store (default: the folder's, or results)")
flags.DEFINE_bool("eval", True, "score each run after its training")
flags.DEFINE_bool("dry_run", False, "only list the runs, their commands, cost and state")
flags.DEFINE_float("flops_per_second", None, "for --dry_run: of the machine, to tell hours")
flags.DEFINE_bool("status", False, "only show how far the runs of the folder are")
flags.DEFINE_bool("watch", False, "with --status: again and again")
flags.DEFINE_bool("json", False, "print the list or the status as JSON")
flags.DEFINE_string("launcher", "local", "local, pod, slurm or xpk")
flags.DEFINE_integer("jobs", 1, "local: runs at a time")
flags.DEFINE_float("host_timeout", 600.0, "pod, slurm: seconds without a host's sign of life")
flags.DEFINE_multi_string(
    "slurm", [], "slurm: KEY=VALUE for submitit, as partition=gpu; repeatable"
)
flags.DEFINE_multi_string("xpk", [], "xpk: its flags, as cluster=NAME,tpu-type=v5litepod-16")


def main() -> int:
    import jax

    # A TPU is held by one process at a time: by train.py, not by us.
    jax.config.update("jax_platforms", "cpu")
    from synth.sweeps import command

    names = command.Options.__dataclass_fields__
    chosen: dict[str, Any] = {name: flags.FLAGS[name].value for name in names}
    return command.main(command.Options(**chosen), cli.given_flags())


if __name__ == "__main__":
    cli.run(main)
