"""Time and peak memory of a piece of work, measured so that kinds can be compared."""

import ctypes
import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Spread:
    """Seconds of one call: median, fastest and slowest of the rounds."""

    median: float
    fastest: float
    slowest: float


def time_in_turn(works: Sequence[Work], repeats: int) -> list[Spread]:
    """Time every work once a round, in turn, so that a machine that slows down slows all of them; one warm-up."""
    for work in works:
        work()
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, times in zip(works, seconds, strict=True):
            synchronize()
            start = time.perf_counter()
            work()
            synchronize()
            times.append(time.perf_counter() - start)
    return [Spread(statistics.median(times), min(times), max(times)) for times in seconds]


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_memory(make_work: Callable[[], Work], *, cuda: bool) -> float:
    """MiB that one call of the work adds to what its inputs hold; NaN where it cannot be measured.

    On CUDA the allocator's own count. On Linux the process's resident memory at its peak less before the call, after a
    warm-up: call this through `in_process_for_memory`, where every tensor is a mapping of its own.
    """
    work = make_work()
    work()
    gc.collect()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    if sys.platform != "linux":
        return math.nan
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark back
    before = _status("VmRSS")
    work()
    return max(0.0, (_status("VmHWM") - before) / 1024)


def in_process_for_memory(threads: int) -> ProcessPoolExecutor:
    """A process in which freed tensors go back to the system at once, so that resident memory follows them."""
    context = get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=context, initializer=_map_every_tensor, initargs=(threads,))


def _map_every_tensor(threads: int) -> None:
    torch.set_num_threads(threads)
    if sys.platform == "linux":
        mmap_threshold, kib64 = -3, 64 * 1024
        ctypes.CDLL(None).mallopt(mmap_threshold, kib64)


def _status(field: str) -> int:
    """A field of /proc/self/status, KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def growth_exponent(lengths: Sequence[int], values: Sequence[float]) -> float:
    """b of value ≈ a·length^b, by least squares on logarithms; NaN for fewer than two positive values."""
    points = [(math.log(n), math.log(v)) for n, v in zip(lengths, values, strict=True) if v > 0]
    if len(points) < 2:
        return math.nan
    slope, _ = statistics.linear_regression(*zip(*points, strict=True))
    return slope


def faster_from(lengths: Sequence[int], values: Sequence[float], rival: Sequence[float]) -> int | None:
    """The length from which `values` stay below `rival`; None where the last is not."""
    start = None
    for length, value, other in zip(lengths, values, rival, strict=True):
        if value >= other:
            start = None
        elif start is None:
            start = length
    return start
