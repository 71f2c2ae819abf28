"""When a machine is wanted back: SIGTERM or SIGUSR1 lets training save its state, then the run exits with status 75.

Imports no torch: `forecast.cli` loads it before every command.
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

from forecast import processes

STATUS = 75
"""The exit status of a run that was told to stop and can go on (EX_TEMPFAIL of sysexits.h)."""

WAIT = 5.0
"""Seconds that the other processes of a run leave the first one to speak: their end may be taken for a failure."""

SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)]

_received: signal.Signals | None = None
_is_training = False


@contextmanager
def listening() -> Iterator[None]:
    """Take the signals; outside of training they end the run at once, for its last checkpoint is all there is."""
    if threading.current_thread() is not threading.main_thread():  # no other may, such as one of a notebook
        yield
        return
    global _received
    _received = None
    before = {number: signal.getsignal(number) for number in SIGNALS}
    take()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Within this, the signals are only noted, for `received` to tell; at its end they are obeyed."""
    global _is_training
    _is_training = True
    try:
        yield
    finally:
        _is_training = False
    if received():
        leave(" after training, which is kept")


def take() -> None:
    """Be the one that is told; once more after Lightning has put its own in this place."""
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, _note)


def ignore() -> None:
    """Be told no more."""
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def received() -> bool:
    """Whether the run was told to stop."""
    return _received is not None


def leave(where: str = "") -> None:
    """Say how to go on, queue the job again where Slurm runs it, once for all processes of a run, and exit.

    Raises:
        SystemExit: of status 75.
    """
    ignore()  # Slurm tells a job to stop that is queued again
    if processes.is_first():
        name = _received.name if _received is not None else "another process"
        print(
            f"stopped by {name}{where}; repeat the command with resume=auto to go on",
            file=sys.stderr,
            flush=True,
        )
        requeue()
    else:
        time.sleep(WAIT)
    raise SystemExit(STATUS)


def requeue() -> None:
    """Put the Slurm job that this is back into the queue; nothing where this is none, or an interactive one."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None or os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive"):
        return
    if "SLURM_ARRAY_JOB_ID" in os.environ:
        job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    try:
        result = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True, check=False)
        problem = (result.stderr or result.stdout).strip() if result.returncode else ""
    except OSError as error:
        problem = str(error)
    if problem:
        print(f"warning: Slurm job {job} was not queued again: {problem}", file=sys.stderr, flush=True)
    else:
        print(f"Slurm job {job} queued again", file=sys.stderr, flush=True)


def _note(number: int, frame: Any) -> None:
    global _received
    _received = signal.Signals(number)
    if not _is_training:
        leave()
