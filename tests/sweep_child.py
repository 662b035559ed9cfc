"""A command of a sweep under test; see `sweep_fakes`.

Notes that it was called, then fails, dies, lingers until it is told to stop or go, or succeeds.
"""

import os
import pathlib
import signal
import sys
import time

phase, host = sys.argv[1:3]
control, workdir = map(pathlib.Path, sys.argv[3:])


def how():
    for name in (f"{phase}-{workdir.name}-{host}", f"{phase}-{workdir.name}"):
        if (control / name).exists():
            return (control / name).read_text()
    return ""


def leave(number, frame):
    print("saved", file=sys.stderr)
    sys.exit(128 + number)


for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, leave)
workdir.mkdir(parents=True, exist_ok=True)
(workdir / "run.json").touch()
with open(control / "calls", "a") as file:
    file.write(f"{phase} {workdir.name} {host}\n")
print("figures")
while how() == "linger":
    time.sleep(0.02)
print("step 3/3", file=sys.stderr)
if how() == "fail":
    print(f"{phase}.py: no disk", file=sys.stderr)
    sys.exit(2)
if how() == "die":
    os.kill(os.getpid(), signal.SIGKILL)
