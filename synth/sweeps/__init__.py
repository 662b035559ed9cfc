"""Sweeps: many runs from one command, on one machine, a pod, a Slurm or a GKE cluster.

A sweep has a folder, on storage that all its machines see at one path:

FOLDER/NAME/             the run directory of the run NAME
FOLDER/runs.json         the runs that were ever asked for here
FOLDER/settings.json     the directory of the run store
FOLDER/state/NAME.json   where the run stands, missing while it waits
FOLDER/state/NAME.lock   held while one of its commands runs
FOLDER/logs/NAME.log     what its commands said on standard error (progress, errors)
FOLDER/logs/NAME.out     and on standard output (scores)
FOLDER/lock              held by the sweep
FOLDER/jobs.json         the Slurm jobs of its runs
FOLDER/pod/              where the hosts of a pod job meet

`runs` (names and commands) <- `rows`, `assignments` (what is asked for) <- `plan` (what it costs);
`states`, `folder` (what is known of a run) <- `children` (a command that runs);
`local`, `pod`, `slurm` (through `pod`), `xpk`: the launchers; `status`: the table; `command`: all
of it behind the flags of sweep.py. Nothing here touches an accelerator: a TPU is held by one
process at a time, and that is train.py.
"""
