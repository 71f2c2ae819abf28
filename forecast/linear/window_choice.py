"""Choice of the windows that a linear model is fitted to, and of those whose sums are computed by sliding."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from forecast.data import Windows
from forecast.data.even_spacing import choose_evenly_spaced
from forecast.data.row_ranges import ranges
from forecast.linear.covariate_steps import CovariateSteps, find_covariate_steps

MAX_SLIDING = 1 << 24
"""Largest product of the windows and the targets whose sums are computed by sliding: a few seconds."""

MIN_RUN = 1 << 17
"""Smallest product of the windows of a run, the steps of a window and the targets, for which sliding is faster."""

MAX_RUN = 1 << 20
"""Largest number of windows of a run, whose rows are in memory at once."""

MAX_SAMPLE, MAX_SAMPLE_CELLS, MIN_SAMPLE = 1 << 17, 1 << 21, 4096
"""Limits of a sample of windows that are read one by one: the number of windows, the product of windows and targets,
and the number of windows that a sample has even with many targets."""

MAX_SAMPLE_PRODUCTS = 1 << 36
"""Largest product of the windows of a sample and the squared number of covariate values: a few seconds."""


PerSegment = Int64[np.ndarray, " segments"]


class WindowChoice(NamedTuple):
    """The windows of some targets over which sums are computed.

    Attributes:
        targets: positions among the targets.
        runs: the rows at which consecutive windows without missing values begin.
        numbers: the numbers of other windows, which are read one by one.
        weight: how many windows each of these stands for.
    """

    targets: list[int]
    runs: list[range]
    numbers: Int64[Tensor, " sampled"]
    weight: float


class Segments(NamedTuple):
    """Consecutive windows of one series, which all have missing values or all have none.

    Attributes:
        rows: first row of the first window of each segment.
        numbers: number of this window.
        lengths: number of windows.
        is_complete: whether no value is missing.
    """

    rows: PerSegment
    numbers: PerSegment
    lengths: PerSegment
    is_complete: Bool[np.ndarray, " segments"]


def choose_windows(windows: Windows, steps: CovariateSteps, parts: int = 1) -> list[WindowChoice]:
    """Choose all windows in long runs without missing values, and an evenly spaced sample of the others.

    All windows are sampled if they are more than `MAX_SLIDING` allows, if they have so many covariates that not all of
    their steps are read, or if what is known of a covariate depends on the forecast origin. Without covariates, the
    choice is made for each group of targets that have their missing values in the same rows.

    Args:
        windows: windows with stride 1.
        steps: the covariates that are read.
        parts: divides the limit of the sample.
    """
    slides, everything = can_slide(windows, steps), list(range(len(windows.target_index)))
    choices = []
    for targets, missing in find_missing_rows(windows, steps) if slides else [(everything, None)]:
        limit = limit_of_sample(len(targets), steps, parts)
        segments = find_segments(windows, missing)
        is_run = slides & find_runs(segments, limit, len(targets) * (windows.seq_len + windows.pred_len))
        numbers, weight = sample_evenly(Segments(*(part[~is_run] for part in segments)), limit)
        runs = split_runs(Segments(*(part[is_run] for part in segments)))
        choices.append(WindowChoice(targets, runs, torch.from_numpy(numbers).to(windows.device), weight))
    return choices


def make_dense(windows: Windows) -> Windows:
    """The same windows and all between them: with stride 1."""
    if windows.stride == 1:
        return windows
    return windows.with_starts([range(starts.start, starts.stop) for starts in windows.starts])


def count_fitted_windows(train: Windows) -> int:
    """The number of training windows that a linear model is fitted to; the smallest over the targets."""
    choices = choose_windows(train, find_covariate_steps(train))
    return min(sum(map(len, chosen.runs)) + len(chosen.numbers) for chosen in choices)


def can_slide(windows: Windows, steps: CovariateSteps) -> bool:
    """Whether sums over runs of windows can be computed without building the windows."""
    future = windows.time.future
    depends_on_origin = future is not None and future.depends_on_origin
    has_unknown_gaps = windows.fill is not None and windows.values.is_on_disk
    is_small = len(windows) * len(windows.target_index) <= MAX_SLIDING
    return is_small and not (depends_on_origin or has_unknown_gaps or steps.is_cut)


def limit_of_sample(n_targets: int, steps: CovariateSteps, parts: int) -> int:
    n_read = max(1, len(steps.step))
    most = min(MAX_SAMPLE_CELLS // n_targets, MAX_SAMPLE_PRODUCTS // n_read**2)
    return min(MAX_SAMPLE, max(MIN_SAMPLE, most)) // parts


def find_missing_rows(
    windows: Windows, steps: CovariateSteps
) -> list[tuple[list[int], Bool[np.ndarray, " rows"] | None]]:
    """Group the targets by the rows in which values are missing; None: no value is missing.

    With covariates, all targets are one group, and a row is missing if any column has no value.
    """
    everything = list(range(len(windows.target_index)))
    if windows.fill is None:
        return [(everything, None)]
    missing = windows.values[:].isnan().cpu().numpy()
    if steps.roles:
        return [(everything, np.asarray(missing.any(1)))]
    groups: dict[bytes, list[int]] = {}
    for target, column in enumerate(windows.target_index):
        groups.setdefault(missing[:, column].tobytes(), []).append(target)
    return [(targets, missing[:, windows.target_index[targets[0]]]) for targets in groups.values()]


def find_segments(windows: Windows, missing: Bool[np.ndarray, " rows"] | None) -> Segments:
    """Divide windows with stride 1 into segments.

    Args:
        windows: windows with stride 1.
        missing: whether a row has a missing value; None: no row has one.
    """
    lengths = np.array([len(starts) for starts in windows.starts])
    rows = np.array([starts.start for starts in windows.starts])[lengths > 0]
    lengths = lengths[lengths > 0]
    numbers = lengths.cumsum() - lengths
    if missing is None:
        return Segments(rows, numbers, lengths, np.ones(len(rows), dtype=bool))
    first = ranges(rows, rows + lengths)  # of each window
    before = np.r_[0, np.cumsum(missing)]  # missing rows before each row
    complete = before[first + windows.seq_len + windows.pred_len] == before[first]
    begins = np.r_[True, complete[1:] != complete[:-1]]
    begins[numbers] = True
    numbers = np.flatnonzero(begins)
    return Segments(first[numbers], numbers, np.diff(numbers, append=len(first)), complete[numbers])


def find_runs(segments: Segments, limit: int, cost: int) -> Bool[np.ndarray, " segments"]:
    """Whether the sums over each segment are computed by sliding.

    Args:
        segments: the segments.
        limit: largest number of windows of a sample. If reading so many one by one costs less than sliding over all
            runs, no segment slides.
        cost: product of the targets and the steps of a window.
    """
    is_run = segments.is_complete & (segments.lengths * cost >= MIN_RUN)
    return is_run & (is_run.sum() * MIN_RUN <= min(limit, int(segments.lengths.sum())) * cost)


def split_runs(runs: Segments) -> list[range]:
    """The rows at which the windows of each run begin, `MAX_RUN` windows at most."""
    stops = (runs.rows + runs.lengths).tolist()
    return [
        range(row, min(row + MAX_RUN, stop))
        for begin, stop in zip(runs.rows.tolist(), stops, strict=True)
        for row in range(begin, stop, MAX_RUN)
    ]


def sample_evenly(segments: Segments, limit: int) -> tuple[Int64[np.ndarray, " sampled"], float]:
    """The numbers of at most `limit` windows of these segments, and how many windows each stands for."""
    ends = segments.lengths.cumsum()
    count = int(ends[-1]) if len(ends) else 0
    places = choose_evenly_spaced(count, limit)
    of = np.searchsorted(ends, places, side="right")
    return places + (segments.numbers - ends + segments.lengths)[of], count / max(1, len(places))
