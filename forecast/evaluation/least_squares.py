"""Linear models from a window to the horizon, by least squares in closed form.

All computations use only the Gram matrix of the windows, G[a, b] = Σᵢ x[i+a]·x[i+b] over window starts i. Windows
overlap, so G[a+1, b+1] differs from G[a, b] by one product at each end, and no window has to be built. Subtracting the
mean of each window is a projection of G. The squared error of a linear model is a trace.
"""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data import Windows
from forecast.data.even_spacing import spread
from forecast.data.rows import TensorRows

AT_ONCE = 65_536
"""Number of window starts in one product, which copies the windows that it unfolds."""

MAX_SAMPLE, MAX_SAMPLE_CELLS, MIN_SAMPLE = 1 << 17, 1 << 21, 4096
"""Limits of a sample of training windows: the number of windows, the product of windows and targets, and the number of
windows that a sample has even with many targets."""

NUMBERS_AT_ONCE = 1 << 24
"""Numbers that are copied at once, 128 MiB."""


def window_gram(windows: Windows) -> Float64[Tensor, "width width"]:
    """Gram matrix of windows: Σ over windows and targets of the outer product of each window with itself.

    A window is its past and its horizon together. A constant is subtracted from each window, which does not change a
    linear model that maps constants to themselves. The sum is over all windows of one series in memory. For several
    series and for series on disk that would take too long, so the sum is over an evenly spaced sample
    (`windows_fitted_on`). Where values are missing, see `sampled_gram`.
    """
    if is_sampled(windows):
        return sampled_gram(windows)
    (starts,) = windows.starts
    width = windows.seq_len + windows.pred_len
    rows = windows.targets(slice(starts.start, starts.stop + width - 1)).double()
    # `solve` subtracts the mean of each window; a large level would cost digits of the sums until then.
    return sliding_gram(rows - rows.mean(0), width)


def is_sampled(windows: Windows) -> bool:
    """Whether the Gram matrix is computed from a sample of the windows."""
    return len(windows.starts) > 1 or not isinstance(windows.values, TensorRows) or windows.fill is not None


def windows_fitted_on(train: Windows) -> int:
    """The number of training windows that a linear model is fitted to."""
    if not is_sampled(train):
        return len(train)
    return min(len(train), MAX_SAMPLE, max(MIN_SAMPLE, MAX_SAMPLE_CELLS // len(train.target_index)))


def sampled_gram(train: Windows) -> Float64[Tensor, "width width"]:
    """Gram matrix of a sample of windows, each minus the mean of its past.

    Where values are missing, the past is completed as for a model, and the sums over a step of the horizon, which are
    over the windows that have its value, are multiplied by the inverse of their share.
    """
    width = train.seq_len + train.pred_len
    gram = torch.zeros(width, width, dtype=torch.float64, device=train.device)
    count = torch.zeros(width, dtype=torch.float64, device=train.device)
    chosen = torch.from_numpy(spread(len(train), windows_fitted_on(train))).to(train.device)
    for index in chosen.split(max(1, NUMBERS_AT_ONCE // (width * len(train.target_index)))):
        batch = train.gather(index)
        windows = torch.cat([batch.past[..., train.target_index], batch.future], dim=1).double()
        flat = (windows - windows[:, : train.seq_len].mean(1, keepdim=True)).transpose(1, 2).flatten(0, 1)
        count += flat.isfinite().sum(0)
        flat = flat.nan_to_num(0.0)
        gram += flat.T @ flat
    weight = count.amax() / count.clamp(min=1)
    gram *= weight
    gram[train.seq_len :, : train.seq_len] *= weight[train.seq_len :, None]
    return gram


def sliding_gram(rows: Float[Tensor, "rows columns"], width: int) -> Float[Tensor, "width width"]:
    """Gram matrix of all windows of `width` rows, summed over the columns."""
    count = len(rows) - width + 1
    head, tail = rows[: width - 1], rows[count:]  # rows that leave and enter as windows move
    change = tail @ tail.T - head @ head.T
    gram = rows.new_zeros(width, width)
    for column in rows.T:  # first row: Σᵢ x[i]·x[i+b]
        for first in range(0, count, AT_ONCE):
            some = column[first : min(first + AT_ONCE, count)]
            gram[0] += some @ column[first : first + len(some) + width - 1].unfold(0, width, 1)
    gram[:, 0] = gram[0]
    for a in range(width - 1):
        gram[a + 1, 1:] = gram[a, :-1] + change[a]
    return gram


def solve(
    gram: Float64[Tensor, "width width"], seq_len: int, ridge: float
) -> Float64[Tensor, "seq_len pred_len"]:
    """Fit the linear model from the past minus its mean to the horizon minus the same mean.

    Ridge regression: `ridge` times the mean of the diagonal is added to the diagonal, so that constant data has a
    solution.
    """
    past, cross = gram[:seq_len, :seq_len], gram[:seq_len, seq_len:]
    cross = cross - past.mean(1, keepdim=True)
    cross = cross - cross.mean(0)
    past = past - past.mean(0) - past.mean(1, keepdim=True) + past.mean()
    past.diagonal().add_(ridge * past.diagonal().mean() + torch.finfo(gram.dtype).tiny)
    return torch.linalg.solve(past, cross)


def squared_error(gram: Float64[Tensor, "width width"], weight: Float64[Tensor, "seq_len pred_len"]) -> float:
    """Σ‖y − Wᵀx‖² over the windows of a Gram matrix. The columns of W must sum to 1, so that constants are kept."""
    seq_len = len(weight)
    past, cross, future = gram[:seq_len, :seq_len], gram[:seq_len, seq_len:], gram[seq_len:, seq_len:]
    return float((weight * (past @ weight - 2 * cross)).sum() + future.trace())
