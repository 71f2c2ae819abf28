"""Linear maps from a window to the horizon, by least squares in closed form.

Windows overlap, so the Gram matrix of all of them needs none to be built: G[a, b] = Σᵢ x[i+a]·x[i+b] over window
starts i changes from (a, b) to (a+1, b+1) by one product at either end. Everything here is a function of that matrix:
taking a mean off each window is a projection of it, the squared error of a map a trace.
"""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data import Windows
from forecast.data.series_windows import SeriesWindows
from forecast.data.stored import StoredWindows
from forecast.series_baselines import sampled_gram

AT_ONCE = 65_536
"""Window starts in one product, which copies all it unfolds."""


def window_gram(windows: Windows) -> Float64[Tensor, "width width"]:
    """Σ over windows and targets of the outer product of each window, past and horizon, with itself.

    Up to a constant that differs from window to window, which maps that keep constants do not see. Of many series and
    of stores over at most `forecast.series_baselines.SAMPLED` windows, evenly spread.
    """
    if isinstance(windows, SeriesWindows | StoredWindows):
        return sampled_gram(windows)
    (rows,) = (rows[:, windows.target_index].double() for rows in windows.covered())
    # Windows lose their mean anyway; a large level would eat the digits of the sums.
    return sliding_gram(rows - rows.mean(0), windows.seq_len + windows.pred_len)


def sliding_gram(rows: Float[Tensor, "rows columns"], width: int) -> Float[Tensor, "width width"]:
    """Σ over windows and columns of the outer product of each window of `width` rows with itself."""
    count = len(rows) - width + 1
    head, tail = rows[: width - 1], rows[count:]  # rows that leave and that enter as the start moves on
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
    """The map from a window less its mean to the horizon less that mean.

    `ridge` is added to the diagonal, as a share of its mean; flat data has an answer with any.
    """
    past, cross = gram[:seq_len, :seq_len], gram[:seq_len, seq_len:]
    cross = cross - past.mean(1, keepdim=True)
    cross = cross - cross.mean(0)
    past = past - past.mean(0) - past.mean(1, keepdim=True) + past.mean()
    past.diagonal().add_(ridge * past.diagonal().mean() + torch.finfo(gram.dtype).tiny)
    return torch.linalg.solve(past, cross)


def squared_error(gram: Float64[Tensor, "width width"], weight: Float64[Tensor, "seq_len pred_len"]) -> float:
    """Σ‖y − Wᵀx‖² over the windows of a Gram matrix, of a map that keeps constants: its columns sum to one."""
    seq_len = len(weight)
    past, cross, future = gram[:seq_len, :seq_len], gram[:seq_len, seq_len:], gram[seq_len:, seq_len:]
    return float((weight * (past @ weight - 2 * cross)).sum() + future.trace())
