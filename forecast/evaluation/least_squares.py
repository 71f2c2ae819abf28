"""Linear models from a window to the horizon, by least squares in closed form.

Windows overlap, so the Gram matrix of all of them needs none to be built: G[a, b] = Σᵢ x[i+a]·x[i+b] over window
starts i changes from (a, b) to (a+1, b+1) by one product at either end. Everything here is a function of that matrix:
to subtract the mean of each window is to project it, the squared error of a linear model is a trace.
"""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data import Windows
from forecast.data.even_spacing import spread
from forecast.data.rows import TensorRows

AT_ONCE = 65_536
"""Window starts in one product, which copies all it unfolds."""

SAMPLED, PAIRS, ENOUGH = 1 << 17, 1 << 21, 4096
"""Training windows that a linear model is fitted to at most, where not to all. With many columns, as many as keep
windows times columns below `PAIRS`, but at least `ENOUGH`."""

CELLS = 1 << 24
"""Numbers copied at a time, 128 MiB."""


def window_gram(windows: Windows) -> Float64[Tensor, "width width"]:
    """Σ over windows and targets of the outer product of each window, past and horizon, with itself.

    It is known up to a constant that differs from window to window, which linear models that keep constants do not
    see. One series in memory gives all its windows; several series and series on disk give a sample of their windows,
    evenly spaced (`windows_fitted_on`), for which an exact sum would take too long.
    """
    if is_sampled(windows):
        return sampled_gram(windows)
    (starts,) = windows.starts
    width = windows.seq_len + windows.pred_len
    rows = windows.targets(slice(starts.start, starts.stop + width - 1)).double()
    # Each window loses its mean later; a large level would cost digits of the sums.
    return sliding_gram(rows - rows.mean(0), width)


def is_sampled(windows: Windows) -> bool:
    """Whether the Gram matrix is that of a sample of windows."""
    return len(windows.starts) > 1 or not isinstance(windows.values, TensorRows)


def windows_fitted_on(train: Windows) -> int:
    """The number of training windows that a linear model is fitted to."""
    if not is_sampled(train):
        return len(train)
    return min(len(train), SAMPLED, max(ENOUGH, PAIRS // len(train.target_index)))


def sampled_gram(train: Windows) -> Float64[Tensor, "width width"]:
    """Σ over sampled windows and targets of the outer product of each window, less its mean, with itself."""
    steps = torch.arange(-train.seq_len, train.pred_len, device=train.device)
    gram = torch.zeros(len(steps), len(steps), dtype=torch.float64, device=train.device)
    chosen = torch.from_numpy(spread(len(train), windows_fitted_on(train))).to(train.device)
    for index in chosen.split(max(1, CELLS // (len(steps) * len(train.target_index)))):
        windows = train.targets(train.origins(index)[:, None] + steps).double()
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
    """The linear model from a window less its mean to the horizon less that mean.

    `ridge` times the mean of the diagonal is added to the diagonal; with any ridge, constant data has a solution.
    """
    past, cross = gram[:seq_len, :seq_len], gram[:seq_len, seq_len:]
    cross = cross - past.mean(1, keepdim=True)
    cross = cross - cross.mean(0)
    past = past - past.mean(0) - past.mean(1, keepdim=True) + past.mean()
    past.diagonal().add_(ridge * past.diagonal().mean() + torch.finfo(gram.dtype).tiny)
    return torch.linalg.solve(past, cross)


def squared_error(gram: Float64[Tensor, "width width"], weight: Float64[Tensor, "seq_len pred_len"]) -> float:
    """Σ‖y − Wᵀx‖² over the windows of a Gram matrix, for a linear model that keeps constants: its columns sum to 1."""
    seq_len = len(weight)
    past, cross, future = gram[:seq_len, :seq_len], gram[:seq_len, seq_len:], gram[seq_len:, seq_len:]
    return float((weight * (past @ weight - 2 * cross)).sum() + future.trace())
