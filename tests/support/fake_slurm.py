"""A stand-in for the Slurm commands that submitit calls: it runs job arrays on this machine and requeues tasks.

The folder `$FAKE_SLURM` holds the state of each task in a file `<array>_<task>`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

COMMANDS = ("sbatch", "srun", "sacct", "scontrol")
ARRAY = "4711"


def install(folder: Path) -> dict[str, str]:
    """Write the commands into a folder; give the environment in which they are found."""
    folder.mkdir()
    for name in COMMANDS:
        text = f'#!/bin/sh\nexec {sys.executable} -m tests.support.fake_slurm {name} "$@"\n'
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "FAKE_SLURM": str(folder)}


def state(task: str) -> Path:
    return Path(os.environ["FAKE_SLURM"]) / task


def sbatch(script: str) -> None:
    """Start every task of the array, which goes on without this process."""
    last = re.search(r"--array=0-(\d+)", Path(script).read_text())
    assert last is not None
    for index in range(int(last[1]) + 1):
        state(f"{ARRAY}_{index}").write_text("RUNNING")
        command = [sys.executable, "-m", "tests.support.fake_slurm", "task", script, str(index)]
        subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    print(f"Submitted batch job {ARRAY}")


def task(script: str, index: str) -> None:
    """Run one task until it has ended without being queued again."""
    mine, restarts = state(f"{ARRAY}_{index}"), 0
    while mine.read_text() == "RUNNING":
        again = {"SLURM_RESTART_COUNT": str(restarts)} if restarts else {}
        numbers = {
            "SLURM_ARRAY_JOB_ID": ARRAY, "SLURM_ARRAY_TASK_ID": index, "SLURM_JOB_ID": str(5000 + int(index)),
            "SLURM_JOB_NODELIST": "localhost", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
        }  # fmt: skip
        status = subprocess.run(["bash", script], env={**os.environ, **numbers, **again}).returncode
        if mine.read_text() == "REQUEUED":
            mine.write_text("RUNNING")
            restarts += 1
        else:
            mine.write_text("FAILED" if status else "COMPLETED")


def srun(*arguments: str) -> None:
    """Run the command after the options, its output and errors into the files that they name."""
    paths = []
    for option in ("--output", "--error"):
        path = arguments[arguments.index(option) + 1]
        for letter, name in (("%A", "ARRAY_JOB_ID"), ("%a", "ARRAY_TASK_ID"), ("%t", "PROCID")):
            path = path.replace(letter, os.environ[f"SLURM_{name}"])
        paths.append(Path(path))
    with paths[0].open("a") as out, paths[1].open("a") as errors:
        command = arguments[arguments.index("--error") + 2 :]
        sys.exit(abs(subprocess.run(command, stdout=out, stderr=errors).returncode))


def sacct(*_: str) -> None:
    print("JobID|State|NodeList")
    for path in state("").glob(f"{ARRAY}_*"):
        print(f"{path.name}|{path.read_text()}|localhost")


def scontrol(action: str, job: str) -> None:
    assert action == "requeue"
    state(job).write_text("REQUEUED")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
