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
from forecast.spread import spread

AT_ONCE = 65_536
"""Window starts in one product, which copies all it unfolds."""

SAMPLED, PAIRS, ENOUGH = 1 << 17, 1 << 21, 4096
"""Training windows that the linear map is fitted on, at most, evenly spread over all; with fewer, on every one. Of many
columns so many that windows times columns are `PAIRS`, `ENOUGH` at least."""

CELLS = 1 << 24
"""Numbers copied at a time, 128 MiB."""


def window_gram(windows: Windows) -> Float64[Tensor, "width width"]:
    """Σ over windows and targets of the outer product of each window, past and horizon, with itself.

    Up to a constant that differs from window to window, which maps that keep constants do not see. Of many series and
    of stores over a sample of windows, evenly spread (`windows_fitted_on`).
    """
    if isinstance(windows, SeriesWindows | StoredWindows):
        return sampled_gram(windows)
    (rows,) = (rows[:, windows.target_index].double() for rows in windows.covered())
    # Windows lose their mean anyway; a large level would eat the digits of the sums.
    return sliding_gram(rows - rows.mean(0), windows.seq_len + windows.pred_len)


def windows_fitted_on(train: Windows) -> int:
    return min(len(train), SAMPLED, max(ENOUGH, PAIRS // len(train.target_index)))


def fitted_on(train: Windows) -> list[str]:
    """What the linear map is fitted on, in words, where that is not every training window."""
    fitted, every = windows_fitted_on(train), len(train)
    return (
        [f"linear map fitted on {fitted:,} of {every:,} training windows, evenly spread"]
        if fitted < every
        else []
    )


def sampled_gram(train: Windows) -> Float64[Tensor, "width width"]:
    """Σ over training windows and targets of the outer product of each window, less its mean, with itself."""
    device = train.values.device
    steps = torch.arange(-train.seq_len, train.pred_len, device=device)
    gram = torch.zeros(len(steps), len(steps), dtype=torch.float64, device=device)
    chosen = torch.from_numpy(spread(len(train), windows_fitted_on(train))).to(device)
    for index in chosen.split(max(1, CELLS // (len(steps) * len(train.target_index)))):
        rows = train.origins(index)[:, None] + steps
        windows = train.values[rows][..., train.target_index].double()
        flat = (windows - windows.mean(1, keepdim=True)).transpose(1, 2).flatten(0, 1)
        gram += flat.T @ flat
    return gram


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
