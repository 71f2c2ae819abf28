"""The covariates of the linear model: the steps that it reads, and the choice of their windows."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from forecast.data import Batch, Windows
from forecast.data.scaled_panel import ScaledPanel
from forecast.data.time_features import choose_evenly_spaced
from forecast.models.linear_model import LinearWeights, read_covariates

CovariateRole = Literal["past", "future"]

MAX_READ = 2048
"""Largest number of covariate values that a linear model reads of a window; its normal equations have as many rows."""

MAX_PRODUCTS = 1 << 26  # largest number of products of these values with the steps of all targets, 512 MiB

MAX_WORK = 1 << 29
"""Largest number of multiplications for one of the solutions that are compared, of which there are hundreds."""

MAX_SLIDING = 1 << 24
"""Largest product of the windows and the targets whose sums are computed by sliding: a few seconds."""

MIN_RUN = 1 << 17
"""Smallest product of the windows of a series, the steps of a window and the targets, for which sliding is faster."""

MAX_RUN = 1 << 20  # largest number of windows of a run, whose rows are in memory at once

MAX_SAMPLE, MAX_SAMPLE_CELLS, MIN_SAMPLE = 1 << 17, 1 << 21, 4096
"""Limits of a sample of windows that are read one by one: the number of windows, the product of windows and targets,
and the number of windows that a sample has even with many targets."""

MAX_SAMPLE_PRODUCTS = 1 << 36
"""Largest product of the windows of a sample and the squared number of covariate values: a few seconds."""


@dataclass(frozen=True)
class CovariateSteps:
    """Which values of a window are read beside the past of the target itself.

    past: columns that are not forecast, over the past. future: future covariates, over the past and the horizon.

    `past_index`, `time_index`: positions of the values, see `read_covariates`; earlier steps come first.
    """

    past_index: Int64[Tensor, " n_past"]
    time_index: Int64[Tensor, " n_time"]
    step: Int64[Tensor, " n_read"]  # step of each value, negative in the past, 0 at the first forecast step (n_read,)
    is_future: Bool[Tensor, " n_read"]
    is_cut: bool  # whether earlier steps of the past are left out

    @property
    def roles(self) -> tuple[CovariateRole, ...]:
        """Roles of the covariates that are read: future ones first, which are known at the steps to forecast."""
        return (*(["future"] if len(self.time_index) else []), *(["past"] if len(self.past_index) else []))

    def of(self, roles: tuple[CovariateRole, ...], lookback: int) -> Int64[Tensor, " n_chosen"]:
        """Numbers of the values of these roles, from `lookback` steps before the forecast on."""
        wanted = (self.is_future & ("future" in roles)) | (~self.is_future & ("past" in roles))
        return torch.nonzero(wanted & (self.step >= -lookback))[:, 0]

    def read(self, batch: Batch) -> Float[Tensor, "batch n_read"]:
        """The values of a batch, float64, each minus the mean of its column over the past."""
        past, past_time = batch.past.double(), batch.past_time.double()
        centred = past - past.mean(1, keepdim=True)
        return read_covariates(centred, past_time, batch.future_time.double(), self.past_index, self.time_index)


def find_covariate_steps(windows: Windows) -> CovariateSteps:
    """Choose the values that a linear model of these windows reads.

    At most `MAX_READ` values are read, and fewer with so many targets that `MAX_PRODUCTS` or `MAX_WORK` would be
    exceeded. The horizon of the future covariates comes first; where it does not fit, they are not read at all. Then
    come as many of their latest past steps as fit, then the latest steps of the other columns.
    """
    targets, n_columns = windows.target_index, windows.values.n_columns
    past = torch.tensor([c for c in range(n_columns) if c not in set(targets)], dtype=torch.int64)
    n_calendar, n_time = windows.time.calendar.n_columns, windows.time.n_features
    n_future = windows.time.future.n_columns if windows.time.future else 0
    size = len(targets) * (windows.seq_len + windows.pred_len)
    room = min(MAX_READ, MAX_PRODUCTS // size, math.isqrt(MAX_WORK // size))
    future_steps, past_steps = 0, 0
    if n_future and (left := room - n_future * windows.pred_len) >= 0:
        future_steps = min(windows.seq_len, left // n_future)
        room = left - n_future * future_steps
    elif n_future:
        n_future = 0
    if len(past):
        past_steps = min(windows.seq_len, room // len(past))
    begin = windows.seq_len - past_steps
    past_step = torch.arange(begin, windows.seq_len)
    time_step = torch.arange(windows.seq_len - future_steps, windows.seq_len + (windows.pred_len if n_future else 0))
    future = n_calendar + torch.arange(n_future)
    step = torch.cat([past_step.repeat_interleave(len(past)), time_step.repeat_interleave(n_future)])
    return CovariateSteps(
        past_index=(past_step[:, None] * n_columns + past).flatten(),
        time_index=(time_step[:, None] * n_time + future).flatten(),
        step=step - windows.seq_len,
        is_future=torch.arange(len(step)) >= len(past_step) * len(past),
        is_cut=bool(len(past) and begin) or bool(n_future and future_steps < windows.seq_len),
    )


def covariates_of_linear(weights: LinearWeights, scaled: ScaledPanel) -> dict[int, bool]:
    """The numbers of the future covariates that a linear model reads, and whether it reads them after the origin."""
    n_covariates = len(scaled.panel.future_covariates)
    return find_covariates(weights, scaled.time.n_features, scaled.time.calendar.n_columns, n_covariates)


def find_covariates(
    weights: LinearWeights, n_time_features: int, n_calendar: int, n_covariates: int
) -> dict[int, bool]:
    """Return the same as `covariates_of_linear` without a panel, from numbers of features."""
    read = weights.time_features(n_time_features)
    numbers = {covariate: n_calendar + covariate for covariate in range(n_covariates)}  # masks follow them
    return {covariate: read[number] for covariate, number in numbers.items() if number in read}


def choose_windows(windows: Windows, steps: CovariateSteps, parts: int = 1) -> Int64[np.ndarray, " sampled"] | None:
    """The numbers of an evenly spaced sample of windows, over which sums are computed one by one; None: over all.

    Sums over all windows are computed without building one where no value is missing, all steps of the covariates are
    read, and what is known of them does not depend on the forecast origin, unless there are more windows than
    `MAX_SLIDING` allows, or so many series that a sample costs less.

    Args:
        windows: windows with stride 1.
        parts: divides the limit of the sample.
    """
    n_targets, n_read = len(windows.target_index), max(1, len(steps.step))
    most = min(MAX_SAMPLE_CELLS // n_targets, MAX_SAMPLE_PRODUCTS // n_read**2)
    limit = min(MAX_SAMPLE, max(MIN_SAMPLE, most)) // parts
    future, n_series = windows.time.future, sum(1 for starts in windows.starts if len(starts))
    can_slide = (
        windows.fill is None
        and not steps.is_cut
        and (future is None or not future.depends_on_origin)
        and len(windows) * n_targets <= MAX_SLIDING
        and n_series * MIN_RUN <= min(limit, len(windows)) * n_targets * (windows.seq_len + windows.pred_len)
    )
    return None if can_slide else choose_evenly_spaced(len(windows), limit)


def make_dense(windows: Windows) -> Windows:
    """The same windows and all between them: with stride 1."""
    if windows.stride == 1:
        return windows
    return windows.with_starts([range(starts.start, starts.stop) for starts in windows.starts])
