"""The process's memory: how much a run used at its peak, and what becomes of freed blocks."""

import ctypes
import gc
import resource
import sys
from pathlib import Path

import torch


class PeakMemory:
    """Peak memory since construction, of the accelerator where CUDA is in use, else of this process.

    On Linux the kernel's high-water mark is set back first, so that a run inside a sweep does not report an earlier
    run's peak; elsewhere the process's whole life counts.
    """

    def __init__(self) -> None:
        release_unused()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self.status: Path | None = Path("/proc/self/status")
        except OSError:  # not Linux, or not allowed here
            self.status = None

    def megabytes(self) -> float:
        """The peak in MiB."""
        if torch.cuda.is_available() and (peak := torch.cuda.max_memory_allocated()) > 0:
            return peak / 2**20
        if self.status is not None:
            line = next(line for line in self.status.read_text().splitlines() if line.startswith("VmHWM"))
            return int(line.split()[1]) / 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
            2**20 if sys.platform == "darwin" else 2**10
        )


def release_unused() -> None:
    """Drop what an earlier run of this process left: cycles of objects, and freed memory kept by the C library."""
    gc.collect()
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def keep_freed_memory() -> None:
    """Have the C library keep freed blocks for the next step, whatever their size.

    By default it gives them back to the system, and each step takes its activations again page by page: some
    ten thousand page faults and a tenth of the time of a step at the paper's size.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        trim_threshold, mmap_max = -1, -4  # names of malloc.h
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, 2**31 - 1)
