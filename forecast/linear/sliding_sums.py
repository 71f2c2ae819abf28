"""Sums of products over consecutive windows, without building a window.

Windows overlap, so Σᵢ x[i+a+1]·y[i+b+1] differs from Σᵢ x[i+a]·y[i+b] by one product at each end. The sums at the first
step of either are correlations, which fast Fourier transforms compute.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data import Windows
from forecast.linear.covariate_steps import CovariateSteps


def sliding_gram(rows: Float[Tensor, "rows columns"], width: int) -> Float[Tensor, "width width"]:
    """Gram matrix of all windows of `width` rows, summed over the columns."""
    count = len(rows) - width + 1
    head, tail = rows[: width - 1], rows[count:]  # rows that leave and enter as windows move
    change = tail @ tail.T - head @ head.T
    gram = rows.new_zeros(width, width)
    gram[0] = autocorrelation(rows, count, width)
    gram[:, 0] = gram[0]
    for a in range(width - 1):
        gram[a + 1, 1:] = gram[a, :-1] + change[a]
    return gram


def autocorrelation(rows: Float[Tensor, "rows columns"], count: int, lags: int) -> Float[Tensor, " {lags}"]:
    """Σ x[i]·x[i+b] over the first `count` rows i and the columns x, for b = 0 … lags − 1."""
    n = transform_length(len(rows))
    spectrum = torch.zeros(n // 2 + 1, dtype=torch.complex128, device=rows.device)
    for column in rows.T:
        spectrum += torch.fft.rfft(column[:count], n).conj() * torch.fft.rfft(column, n)
    return torch.fft.irfft(spectrum, n)[:lags]


def correlate(
    x: Float[Tensor, "rows_of_x columns"], y: Float[Tensor, "rows_of_y others"], lags: int
) -> Float[Tensor, "{lags} columns others"]:
    """Σᵢ x[i]·y[i+b] over the rows i of x, for b = 0 … lags − 1."""
    n = transform_length(len(y))
    found = x.new_empty(lags, x.shape[1], y.shape[1])
    spectra = [torch.fft.rfft(column, n) for column in y.T]
    for number, column in enumerate(x.T):
        conjugate = torch.fft.rfft(column, n).conj()
        for other, spectrum in enumerate(spectra):
            found[:, number, other] = torch.fft.irfft(conjugate * spectrum, n)[:lags]
    return found


def transform_length(rows: int) -> int:
    """The length of a fast Fourier transform of so many rows, padded so that its prime factors are small.

    A lag never goes beyond the last row, so no row meets one from the other end.
    """
    unit = 1 << max(0, rows.bit_length() - 4)
    return -(-rows // (2 * unit)) * 2 * unit  # even


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
    if "past" in steps.roles:
        others = [c for c in range(columns.shape[1]) if c not in set(windows.target_index)]
        blocks.append(CovariateBlock(columns[: len(columns) - windows.pred_len, others], windows.seq_len))
    if "future" in steps.roles:
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
    sums[0] = correlate(x[:count], y[: count + steps_of_y - 1], steps_of_y).permute(1, 0, 2)
    sums[:, :, 0] = correlate(y[:count], x, steps_of_x).permute(0, 2, 1)
    head_of_y, tail_of_y = y[: steps_of_y - 1], y[count : count + steps_of_y - 1]
    for a in range(steps_of_x - 1):  # rows that enter and leave as windows move
        entering, leaving = x[count + a, :, None, None] * tail_of_y, x[a, :, None, None] * head_of_y
        sums[a + 1, :, 1:] = sums[a, :, :-1] + entering - leaving
    return sums
