"""Stop of a run on SIGTERM or SIGUSR1: the handler notes the signal, and the run exits with status 75 at a safe point.

The handler raises no exception. Python calls it between any two bytecodes, where an exception can be lost: C code that
calls back into Python replaces it (matplotlib raises `ValueError: Invalid bounding box`), finalizers and weak reference
callbacks print and drop it, and an `except BaseException` around the interrupted line catches it.

The safe points, where `exit_if_received` or `exit_to_resume` raises SystemExit, are the end of a training step or epoch
after its state is saved, the end of a batch in validation and test, and the steps between the stages of a run, its
figures, the runs of a sweep and the items of a tracked loop.

A signal that arrives during a long call, such as reading a large file, takes effect at the next safe point. Further
signals change nothing, since launchers often deliver one stop twice; SIGKILL ends the run at once, and `resume=auto`
continues it just as well.

Imports no torch: `forecast.cli.main` loads this module before every command.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from forecast.system import distributed

STATUS = 75  # exit status of a run that was stopped by a signal and can be resumed (EX_TEMPFAIL of sysexits.h)

WAIT = 5.0
"""Seconds that the other processes of a run wait for the first one to print: a launcher may end it once they exit."""

SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)]

_received: signal.Signals | None = None
_is_deferred = False


@contextmanager
def listening() -> Iterator[None]:
    """Install the signal handlers. Do nothing in other threads, which cannot install them.

    Raises SystemExit: with status 75, if a signal arrived after the last safe point of an earlier run of this process.
    """
    if not in_main_thread():
        yield
        return
    former = {number: signal.signal(number, _note) for number in SIGNALS}
    try:
        exit_if_received(" before the next run")
        yield
    except Exception:
        if received() and not distributed.is_first():  # the first process left and closed the connection
            exit_to_resume()
        raise
    finally:
        for number, handler in former.items():
            # `exit_to_resume` ignores further signals until the process ends
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Turn `exit_if_received` off during training, which saves its state before it calls `exit_to_resume`.

    Raises SystemExit: at the end, if a signal was received since the last state was saved.
    """
    global _is_deferred
    _is_deferred = True
    try:
        yield
    except SystemExit as stop:
        if received() and stop.code != STATUS:  # Lightning's SIGTERMException has status 0
            exit_to_resume(" before training started")
        raise
    finally:
        _is_deferred = False
    exit_if_received(" after training, whose state is saved")


def in_main_thread() -> bool:
    """Whether this thread may install signal handlers."""
    return threading.current_thread() is threading.main_thread()


def received() -> bool:
    return _received is not None


def exit_if_received(where: str = "") -> None:
    """Mark a safe point of the main thread: exit if a signal was received and training has no state to save first.

    Raises SystemExit: with status 75.
    """
    if received() and not _is_deferred and in_main_thread():
        exit_to_resume(where)


def exit_to_resume(where: str = "") -> None:
    """Print how to resume, requeue the Slurm job if there is one, once for all processes of a run, and exit.

    Raises SystemExit: with status 75.
    """
    global _received
    if in_main_thread():
        for number in SIGNALS:  # Slurm sends another to a job that it requeues
            signal.signal(number, signal.SIG_IGN)
    name, _received = (_received.name if _received is not None else "another process"), None
    if distributed.is_first():
        print(f"stopped by {name}{where}; repeat the command with resume=auto to continue", file=sys.stderr, flush=True)
        requeue()
    else:
        time.sleep(WAIT)
    raise SystemExit(STATUS)


def requeue() -> None:
    """Requeue this Slurm job. Do nothing outside Slurm or in an interactive job."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None or os.environ.get("SLURM_JOB_NAME") in distributed.INTERACTIVE:
        return
    if "SLURM_ARRAY_JOB_ID" in os.environ:
        job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    try:
        result = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True, check=False)
        problem = (result.stderr or result.stdout).strip() if result.returncode else ""
    except OSError as error:
        problem = str(error)
    if problem:
        print(f"warning: Slurm job {job} was not requeued: {problem}", file=sys.stderr, flush=True)
    else:
        print(f"Slurm job {job} requeued", file=sys.stderr, flush=True)


def _note(number: int, frame: Any) -> None:
    global _received
    _received = signal.Signals(number)
