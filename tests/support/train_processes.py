"""The training command in forked processes, which start fast, for tests that kill dozens of processes."""

import multiprocessing
import os
import signal
import sys
import traceback
from multiprocessing.process import BaseProcess
from pathlib import Path

CRASH_POINTS = ("replace", "link", "fsync")
"""Functions of `os` before which a process can be killed: they name files and flush them to disk."""

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["forecast.training.run", "forecast.cli.main"])


def start(
    folder: Path, *overrides: str, crash_at: int | None = None, environment: dict[str, str] | None = None
) -> BaseProcess:
    """Start a run in `folder`, which is killed before call `crash_at`, from 1, of a function in `CRASH_POINTS`."""
    process = processes.Process(target=_run, args=(folder, overrides, crash_at, environment or {}))
    process.start()
    return process


def finish(folder: Path, *overrides: str, crash_at: int | None = None) -> int | None:
    """Run to the end and return the exit status; a negative one is the number of the signal that killed the run."""
    process = start(folder, *overrides, crash_at=crash_at)
    process.join(timeout=120)
    return process.exitcode


def said(folder: Path) -> str:
    """Output of all runs in the folder."""
    return (folder / "said.txt").read_text()


def _run(folder: Path, overrides: tuple[str, ...], crash_at: int | None, environment: dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.update(environment)
    # of another test in this process: there a killed run's id stays taken
    os.environ.pop("WANDB_SERVICE", None)
    out = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    import torch

    from forecast.cli.main import main_with_run_folder
    from forecast.train import train

    torch.set_num_threads(1)
    sys.argv = ["train", *overrides]
    calls = 0

    def crashing(function):
        def call(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == crash_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    for name in CRASH_POINTS:
        setattr(os, name, crashing(getattr(os, name)))
    try:
        main_with_run_folder("train", train)
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        raise
    print(f"crash points: {calls}", flush=True)
