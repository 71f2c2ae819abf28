"""Available memory, peak memory, and the reuse of freed memory."""

import ctypes
import gc
import resource
import sys
from contextlib import suppress
from pathlib import Path

_CONTAINER = Path("/sys/fs/cgroup")  # cgroup version 2


def available() -> int:
    """Return the bytes that this process can still allocate, on the machine or within its container's limit."""
    import psutil  # imported where memory is asked for: every command imports this module

    free = psutil.virtual_memory().available
    try:
        limit, used = ((_CONTAINER / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        statistics = dict(line.split() for line in (_CONTAINER / "memory.stat").read_text().splitlines())
    except OSError:  # not Linux, or not in a container
        return free
    cached = int(statistics["inactive_file"])  # pages of files that were read, which the system gives back
    return free if limit == "max" else min(free, int(limit) - int(used) + cached)


class PeakMemory:
    """Peak memory since construction: of the accelerator if CUDA is in use, else of this process.

    On Linux the kernel's high-water mark is reset first, so that a run within a sweep does not report the peak of an
    earlier run. Elsewhere the peak is that of the whole process.
    """

    def __init__(self) -> None:
        release_unused()
        torch = sys.modules.get("torch")  # before it is imported, CUDA is not in use
        if torch is not None and torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        with suppress(OSError):  # not Linux, or not permitted
            reset_peak()

    @property
    def is_of_device(self) -> bool:
        import torch

        return torch.cuda.is_available() and torch.cuda.max_memory_allocated() > 0

    def megabytes(self) -> float:
        """Return the peak in MiB."""
        import torch

        if self.is_of_device:
            return torch.cuda.max_memory_allocated() / 2**20
        if sys.platform == "linux":
            return read_status("VmHWM") / 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def reset_peak() -> None:
    """Set Linux's peak of this process's resident memory, VmHWM, to its present value.

    Raises OSError: the system is not Linux, or does not permit it.
    """
    Path("/proc/self/clear_refs").write_text("5")


def read_status(field: str) -> int:
    """Return a field of /proc/self/status, such as VmRSS (resident memory) or VmHWM (its peak), in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def release_unused() -> None:
    """Collect reference cycles and return freed memory to the system, so that an earlier run leaves none behind."""
    gc.collect()
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def keep_freed_memory() -> None:
    """Make the C library reuse freed blocks of every size instead of returning them to the system.

    Without this, each training step allocates its activations again page by page: some ten thousand page faults and a
    tenth of the step's time at the paper's model size.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        trim_threshold, mmap_max = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX of malloc.h
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, 2**31 - 1)
