"""The training command in forked processes that start fast, for tests that kill dozens of them."""

import multiprocessing
import os
import resource
import signal
import sys
import traceback
from multiprocessing.process import BaseProcess
from pathlib import Path

CRASH_POINTS = ("replace", "link", "fsync")
"""Functions of `os` before which a process can be killed: files get their names and reach the disk by them."""

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["forecast.commands.train", "forecast.cli.main"])


def start(
    folder: Path,
    *overrides: str,
    crash_at: int | None = None,
    file_limit: int | None = None,
    environment: dict[str, str] | None = None,
) -> BaseProcess:
    """Begin a run in `folder`. With `crash_at`, it is killed before its call number `crash_at` of `CRASH_POINTS`; with
    `file_limit`, none of its files can grow beyond that number of bytes.
    """
    process = processes.Process(
        target=_run, args=(folder, overrides, crash_at, file_limit, environment or {})
    )
    process.start()
    return process


def finish(folder: Path, *overrides: str, crash_at: int | None = None) -> int | None:
    """The exit status of a run; negative: the signal it was killed by."""
    process = start(folder, *overrides, crash_at=crash_at)
    process.join(timeout=120)
    return process.exitcode


def said(folder: Path) -> str:
    """Output of all runs in the folder."""
    return (folder / "said.txt").read_text()


def _run(
    folder: Path,
    overrides: tuple[str, ...],
    crash_at: int | None,
    file_limit: int | None,
    environment: dict[str, str],
) -> None:
    os.chdir(folder)
    os.environ.update(environment)
    # of another test in this process: there a killed run's id stays taken
    os.environ.pop("WANDB_SERVICE", None)
    if file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    out = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    import torch

    from forecast.cli.main import main
    from forecast.commands.train import train

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
        main("train", train)
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        raise
    print(f"crash points: {calls}", flush=True)
