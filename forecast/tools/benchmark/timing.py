"""Time, peak memory and operations of calls, measured so that attention types can be compared."""

import contextlib
import ctypes
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from forecast.system.memory import read_status, release_unused, reset_peak

Work = Callable[[], object]
Shape = Sequence[int]


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: median, fastest and slowest of the rounds."""

    median: float
    fastest: float
    slowest: float


def time_in_turn(works: Sequence[Work], repeats: int) -> list[Timing]:
    """Time every function once per round, after one warm-up call, so that a slower machine slows all of them."""
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
    return [Timing(statistics.median(times), min(times), max(times)) for times in seconds]


def synchronize() -> None:
    """Wait until the GPU, if there is one, has finished."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measure_peak_memory(make_work: Callable[[], Work], *, cuda: bool) -> float:
    """Return the MiB that one call adds to the memory of its inputs, or NaN where this cannot be measured.

    On CUDA, the allocator counts. On Linux, it is the peak of the resident memory during the call minus the resident
    memory before it, after a warm-up call. Call this function in the process of `start_memory_process`, where each
    tensor has its own memory mapping.
    """
    work = make_work()
    work()
    release_unused()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    if sys.platform != "linux":
        return math.nan
    reset_peak()
    before = read_status("VmRSS")
    work()
    return max(0.0, (read_status("VmHWM") - before) / 1024)


def count_flops(work: Work, *, cuda: bool) -> int:
    """Return the floating point operations in the matrix products and convolutions of a call without gradients.

    A multiplication and an addition are two operations. Elementwise operations, such as exponentials, are not counted.
    The fused softmax kernel of the CPU cannot be counted: its reference form runs in its place. Those of CUDA can be,
    and the reference form would need memory that is quadratic in the length.
    """
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.baddbmm_: _count_added_product})
    kernels = contextlib.nullcontext() if cuda else sdpa_kernel(SDPBackend.MATH)
    with torch.no_grad(), kernels, counter:
        work()
    return counter.get_total_flops()


def _count_added_product(added: Shape, left: Shape, right: Shape, **_: object) -> int:
    """Return the operations of a batch of matrix products that are added in place, from the shapes."""
    return 2 * math.prod(left) * right[-1]


def start_memory_process(threads: int) -> ProcessPoolExecutor:
    """Start a process that returns freed tensors to the system at once, so that resident memory is exact."""
    context = get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=context, initializer=map_every_tensor, initargs=(threads,))


def map_every_tensor(threads: int) -> None:
    """Allocate every large tensor with mmap, also those below the default threshold of malloc."""
    torch.set_num_threads(threads)
    if sys.platform == "linux":
        mmap_threshold, kib64 = -3, 64 * 1024
        ctypes.CDLL(None).mallopt(mmap_threshold, kib64)


def fit_growth_exponent(lengths: Sequence[int], values: Sequence[float]) -> float:
    """Fit value ≈ a·length^b by least squares on logarithms. Return b, or NaN for fewer than two positive values."""
    points = [(math.log(n), math.log(v)) for n, v in zip(lengths, values, strict=True) if v > 0]
    if len(points) < 2:
        return math.nan
    slope, _ = statistics.linear_regression(*zip(*points, strict=True))
    return slope


def find_crossover(lengths: Sequence[int], values: Sequence[float], reference: Sequence[float]) -> int | None:
    """Return the length from which all `values` are below `reference`, or None if the last is not."""
    start = None
    for length, value, other in zip(lengths, values, reference, strict=True):
        if value >= other:
            start = None
        elif start is None:
            start = length
    return start
