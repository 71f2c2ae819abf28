"""Processes whose CPU seconds and peak memory are measured."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from results.settings import ROOT


class ProcessFailed(Exception):
    """A process failed; the message is the last line that it printed."""


@dataclass(frozen=True)
class Cost:
    """CPU seconds (user and system) and the peak memory in MiB of a process and of the children that it waited for."""

    cpu_seconds: float
    peak_mib: float


def measure(command: Sequence[str]) -> Cost:
    """Run a command with one thread, and return its cost.

    Raises:
        ProcessFailed: the command failed.
    """
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | threads, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    said = process.stderr.read().strip().splitlines()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # wait4 has taken it
    if process.returncode:
        raise ProcessFailed(said[-1] if said else f"status {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
