"""Gram matrices of windows: sums over window starts of the products of two steps of a window.

Linear models, and their squared errors on other windows, are computed from these sums alone. Windows overlap, so
Σᵢ x[i+a+1]·y[i+b+1] differs from Σᵢ x[i+a]·y[i+b] by one product at each end, and no window has to be built.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data import Batch, Windows
from forecast.data.even_spacing import spread
from forecast.data.rows import TensorRows
from forecast.evaluation.covariate_steps import CovariateSteps, find_covariate_steps

AT_ONCE = 65_536
"""Number of window starts in one product, which copies the windows that it unfolds."""

MAX_SAMPLE, MAX_SAMPLE_CELLS, MIN_SAMPLE = 1 << 17, 1 << 21, 4096
"""Limits of a sample of training windows: the number of windows, the product of windows and targets, and the number of
windows that a sample has even with many targets."""

MAX_SAMPLE_PRODUCTS = 1 << 36
"""Largest product of the windows of a sample and the squared number of covariate values: a few seconds."""

NUMBERS_AT_ONCE = 1 << 24
"""Numbers that are copied at once, 128 MiB."""


@dataclass(frozen=True)
class Gram:
    """Sums over windows, from which linear models are fitted.

    A window of a target is its past and its horizon together. Subtracting one constant from each window of a target
    changes no linear model that maps constants to themselves, so the sums may be of windows minus any constant.

    Attributes:
        own: Σ over windows and targets of the outer product of each window of a target with itself.
        cross: Σ over windows of the products of the covariates with the window of each target.
        covariates: Σ over windows of the products of the covariates.
        steps: the covariates.
        seq_len: steps of the past of a window.
    """

    own: Float64[Tensor, "width width"]
    cross: Float64[Tensor, "n_targets n_read width"]
    covariates: Float64[Tensor, "n_read n_read"]
    steps: CovariateSteps
    seq_len: int

    def fewer_steps(self, count: int) -> "Gram":
        """The same sums for `count` steps of the horizon, evenly spaced."""
        horizon = torch.from_numpy(spread(len(self.own) - self.seq_len, count))
        kept = torch.cat([torch.arange(self.seq_len), self.seq_len + horizon]).to(self.own.device)
        return replace(self, own=self.own[kept][:, kept], cross=self.cross[..., kept])


def window_gram(windows: Windows, parts: int = 1) -> Gram:
    """Sums over all windows of one series in memory.

    For several series, for series on disk and for so many covariates that not all of their steps are read, that would
    take too long, so the sum is over an evenly spaced sample (`windows_fitted_on`). Where values are missing, see
    `sampled_gram`. `parts` divides the limit of the sample.
    """
    steps = find_covariate_steps(windows)
    if is_sampled(windows):
        return sampled_gram(windows, steps, parts)
    (starts,) = windows.starts
    rows = slice(starts.start, starts.stop + windows.seq_len + windows.pred_len - 1)
    columns = windows.values[rows].double()
    # `solve` subtracts the mean of each window; a large level would cost digits of the sums until then.
    columns = columns - columns.mean(0)
    targets = columns[:, windows.target_index]
    own = sliding_gram(targets, windows.seq_len + windows.pred_len)
    cross, covariates = sliding_covariates(windows, steps, columns, rows)
    return Gram(own, cross, covariates, steps, windows.seq_len)


def is_sampled(windows: Windows) -> bool:
    """Whether the sums are over a sample of the windows."""
    has_one_table = (
        len(windows.starts) == 1 and isinstance(windows.values, TensorRows) and windows.fill is None
    )
    future = windows.time.future
    if not has_one_table or (future is not None and future.depends_on_origin):
        return True
    return find_covariate_steps(windows).is_cut


def windows_fitted_on(train: Windows, parts: int = 1) -> int:
    """The number of windows that a linear model is fitted to; `parts` divides the limit of a sample."""
    if not is_sampled(train):
        return len(train)
    n_read = max(1, len(find_covariate_steps(train).step))
    most = min(MAX_SAMPLE_CELLS // len(train.target_index), MAX_SAMPLE_PRODUCTS // n_read**2)
    return min(len(train), min(MAX_SAMPLE, max(MIN_SAMPLE, most)) // parts)


def sampled_gram(train: Windows, steps: CovariateSteps, parts: int = 1) -> Gram:
    """Sums over a sample of windows, each minus the mean of its past.

    Where values are missing, the past is completed as for a model, and the sums over a step of the horizon, which are
    over the windows that have its value, are multiplied by the inverse of their share.
    """
    width, n_read, n_targets = train.seq_len + train.pred_len, len(steps.step), len(train.target_index)
    own = torch.zeros(width, width, dtype=torch.float64, device=train.device)
    cross, covariates = own.new_zeros(n_read, n_targets, width), own.new_zeros(n_read, n_read)
    count = own.new_zeros(n_targets, width)
    for batch in sampled_batches(train, n_read, parts):
        windows = torch.cat([batch.past[..., train.target_index], batch.future], dim=1).double()
        windows = (windows - windows[:, : train.seq_len].mean(1, keepdim=True)).transpose(1, 2)
        count += windows.isfinite().sum(0)
        flat = windows.flatten(0, 1).nan_to_num(0.0)
        own += flat.T @ flat
        if n_read:
            read = steps.read(batch)
            covariates += read.T @ read
            cross += (read.T @ flat.reshape(len(read), -1)).view_as(cross)
    of_all = count.sum(0)
    weight = of_all.amax() / of_all.clamp(min=1)
    own *= weight
    own[train.seq_len :, : train.seq_len] *= weight[train.seq_len :, None]
    cross *= count.amax() / count.clamp(min=1)
    return Gram(own, cross.transpose(0, 1), covariates, steps, train.seq_len)


def sampled_batches(train: Windows, n_read: int, parts: int) -> Iterator[Batch]:
    """Yield the windows of the sample."""
    width = train.seq_len + train.pred_len
    chosen = torch.from_numpy(spread(len(train), windows_fitted_on(train, parts))).to(train.device)
    for index in chosen.split(max(1, NUMBERS_AT_ONCE // (width * len(train.target_index) + n_read))):
        yield train.gather(index)


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


class CovariateBlock(NamedTuple):
    """The covariates of one kind: their columns in the rows of all windows, and the steps of a window that are read."""

    columns: Float64[Tensor, "rows columns"]
    n_steps: int


def sliding_covariates(
    windows: Windows, steps: CovariateSteps, columns: Float64[Tensor, "rows n_features"], rows: slice
) -> tuple[Float64[Tensor, "n_targets n_read width"], Float64[Tensor, "n_read n_read"]]:
    """`Gram.cross` and `Gram.covariates` of all windows of one series whose covariates are read at every step.

    Args:
        windows: the windows.
        steps: the covariates.
        columns: all columns of the rows of the windows.
        rows: these rows of the panel.
    """
    seq_len, width = windows.seq_len, windows.seq_len + windows.pred_len
    targets, blocks = columns[:, windows.target_index], covariate_blocks(windows, steps, columns, rows)
    if not blocks:
        return targets.new_zeros(targets.shape[1], 0, width), targets.new_zeros(0, 0)
    cross = [products_with_targets(block, targets, seq_len, width) for block in blocks]
    products = [torch.cat([products_of_blocks(x, y, seq_len) for y in blocks], dim=1) for x in blocks]
    return torch.cat(cross, dim=1), torch.cat(products)


def covariate_blocks(
    windows: Windows, steps: CovariateSteps, columns: Float64[Tensor, "rows n_features"], rows: slice
) -> list[CovariateBlock]:
    """The columns that are not forecast, over the past; the future covariates, over the past and the horizon."""
    blocks = []
    if "past" in steps.kinds:
        others = [c for c in range(columns.shape[1]) if c not in set(windows.target_index)]
        blocks.append(CovariateBlock(columns[: len(columns) - windows.pred_len, others], windows.seq_len))
    if "future" in steps.kinds:
        assert windows.time.future is not None
        known = windows.time.future.past[rows].double()
        blocks.append(CovariateBlock(known - known.mean(0), windows.seq_len + windows.pred_len))
    return blocks


def products_with_targets(
    x: CovariateBlock, targets: Float64[Tensor, "rows n_targets"], seq_len: int, width: int
) -> Float64[Tensor, "n_targets n_read {width}"]:
    """Σ over windows of the products of covariates, each minus the mean of its past, with the steps of the targets."""
    sums = sliding_products(x.columns, targets, x.n_steps, width)
    return (sums - sums[:seq_len].mean(0)).flatten(0, 1).permute(2, 0, 1)


def products_of_blocks(
    x: CovariateBlock, y: CovariateBlock, seq_len: int
) -> Float64[Tensor, "n_read n_read_of_y"]:
    """Σ over windows of the products of covariates with others, each minus the mean of its past."""
    sums = sliding_products(x.columns, y.columns, x.n_steps, y.n_steps)
    sums = sums - sums[:seq_len].mean(0)
    return (sums - sums[:, :, :seq_len].mean(2, keepdim=True)).flatten(2, 3).flatten(0, 1)


def sliding_products(
    x: Float[Tensor, "rows_of_x columns"],
    y: Float[Tensor, "rows_of_y others"],
    steps_of_x: int,
    steps_of_y: int,
) -> Float[Tensor, "{steps_of_x} columns {steps_of_y} others"]:
    """Σᵢ x[i+a]·y[i+b] over all window starts i, for every column of x and of y."""
    count = len(x) - steps_of_x + 1
    sums = x.new_zeros(steps_of_x, x.shape[1], steps_of_y, y.shape[1])
    for first in range(0, count, AT_ONCE):
        some = slice(first, min(first + AT_ONCE, count))
        for column in range(y.shape[1]):
            later = y[some.start : some.stop + steps_of_y - 1, column].unfold(0, steps_of_y, 1)
            sums[0, :, :, column] += x[some].T @ later
        for column in range(x.shape[1]):
            later = x[some.start : some.stop + steps_of_x - 1, column].unfold(0, steps_of_x, 1)
            sums[1:, column, 0] += (later.T @ y[some])[1:]
    head_of_y, tail_of_y = y[: steps_of_y - 1], y[count : count + steps_of_y - 1]
    for a in range(steps_of_x - 1):  # rows that enter and leave as windows move
        entering, leaving = x[count + a, :, None, None] * tail_of_y, x[a, :, None, None] * head_of_y
        sums[a + 1, :, 1:] = sums[a, :, :-1] + entering - leaving
    return sums
