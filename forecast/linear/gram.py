"""Gram matrices of windows: sums over windows of the products of two steps of a window.

Linear models, and their squared errors on other windows, are computed from these sums alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from forecast.data import Windows
from forecast.data.even_spacing import choose_evenly_spaced
from forecast.linear.covariate_steps import CovariateSteps, find_covariate_steps
from forecast.linear.sliding_sums import sliding_covariates, sliding_gram
from forecast.linear.window_choice import WindowChoice, choose_windows, make_dense

NUMBERS_AT_ONCE = 1 << 20
"""Numbers that are copied at once, 8 MiB; about ten copies exist at a time."""


@dataclass(frozen=True)
class Gram:
    """Sums over windows, from which linear models are fitted.

    A window of a target is its past and its horizon together, minus the mean of its past. Subtracting one constant from
    each window changes no linear model that maps constants to themselves.

    Attributes:
        auto: Σ over windows and targets of the outer product of each window of a target with itself.
        cross: Σ over windows of the products of the covariates with the window of each target.
        covariates: Σ over windows of the products of the covariates: one sum for all targets, or one for each if their
            windows differ.
        count: number of windows that have a value, by target and step.
        steps: the covariates.
        seq_len: steps of the past of a window.
    """

    auto: Float64[Tensor, "width width"]
    cross: Float64[Tensor, "n_targets n_read width"]
    covariates: Float64[Tensor, "n_sums n_read n_read"]
    count: Float64[Tensor, "n_targets width"]
    steps: CovariateSteps
    seq_len: int

    def __add__(self, other: "Gram") -> "Gram":
        """The sums over the windows of both, which have the same covariates."""
        return replace(
            self,
            auto=self.auto + other.auto,
            cross=self.cross + other.cross,
            covariates=self.covariates + other.covariates,
            count=self.count + other.count,
        )

    def __mul__(self, weight: float) -> "Gram":
        """The sums if each window counted `weight` times."""
        return replace(
            self,
            auto=self.auto * weight,
            cross=self.cross * weight,
            covariates=self.covariates * weight,
            count=self.count * weight,
        )

    def as_if_complete(self) -> "Gram":
        """Scale the sums with each step of the horizon as if every window had its value.

        This assumes that the windows without it have similar pasts.
        """
        of_all = self.count.sum(0)
        weight = of_all.amax() / of_all.clamp(min=1)
        auto = self.auto * weight
        auto[self.seq_len :, : self.seq_len] *= weight[self.seq_len :, None]
        return replace(
            self,
            auto=auto,
            cross=self.cross * (self.count.amax(1, keepdim=True) / self.count.clamp(min=1))[:, None],
        )

    def fewer_steps(self, count: int) -> "Gram":
        """The same sums for `count` steps of the horizon, evenly spaced."""
        horizon = torch.from_numpy(choose_evenly_spaced(len(self.auto) - self.seq_len, count))
        kept = torch.cat([torch.arange(self.seq_len), self.seq_len + horizon]).to(self.auto.device)
        return replace(
            self, auto=self.auto[kept][:, kept], cross=self.cross[..., kept], count=self.count[:, kept]
        )


def window_gram(windows: Windows, parts: int = 1) -> Gram:
    """Sums over the windows at every row, whatever their stride, or over as many as `choose_windows` selects.

    Args:
        windows: windows of any number of series, in memory or on disk.
        parts: divides the limit of the windows that are read one by one.
    """
    windows, steps = make_dense(windows), find_covariate_steps(windows)
    grams = (
        gram
        for chosen in choose_windows(windows, steps, parts)
        for gram in partial_grams(windows, steps, chosen)
    )
    return reduce(add, grams).as_if_complete()


def partial_grams(windows: Windows, steps: CovariateSteps, chosen: WindowChoice) -> Iterator[Gram]:
    """Yield the sums over each run of windows, and those over the other windows."""
    for run in chosen.runs:
        yield run_gram(windows, steps, chosen.targets, run)
    if len(chosen.numbers):
        yield sampled_gram(windows, steps, chosen) * chosen.weight


def run_gram(windows: Windows, steps: CovariateSteps, targets: list[int], starts: range) -> Gram:
    """Sums over consecutive windows of these targets without missing values, which begin at these rows."""
    width = windows.seq_len + windows.pred_len
    rows = slice(starts.start, starts.stop + width - 1)
    columns = windows.values[rows].double()
    columns = columns - columns.mean(0)  # a large level costs digits of the sums
    auto = sliding_gram(columns[:, [windows.target_index[target] for target in targets]], width)
    cross, covariates = sliding_covariates(windows, steps, columns, rows)
    auto = auto - auto[: windows.seq_len].mean(0)  # of windows minus the mean of their past
    auto = auto - auto[:, : windows.seq_len].mean(1, keepdim=True)
    cross = cross - cross[..., : windows.seq_len].mean(2, keepdim=True)
    count = auto.new_zeros(len(windows.target_index), width)
    count[targets] = len(starts)
    return Gram(auto, cross, covariates[None], count, steps, windows.seq_len)


def sampled_gram(windows: Windows, steps: CovariateSteps, chosen: WindowChoice) -> Gram:
    """Sums over the windows `chosen.numbers`, each minus the mean of its past.

    Where values are missing, the past is completed as for a model, and the sums over a step of the horizon are over the
    windows that have its value. Windows of a target without any value in the horizon are left out: in a long outage,
    their completed past has no variance.
    """
    count = torch.zeros(
        len(windows.target_index),
        windows.seq_len + windows.pred_len,
        dtype=torch.float64,
        device=windows.device,
    )
    if len(chosen.targets) < len(count):  # without covariates
        windows = windows.of_targets(chosen.targets)
    (n_targets, width), n_read = (len(chosen.targets), count.shape[1]), len(steps.step)
    auto, covariates = count.new_zeros(width, width), count.new_zeros(1, n_read, n_read)
    cross = count.new_zeros(n_read, len(count), width)
    at_once = max(1, NUMBERS_AT_ONCE // (width * n_targets + n_read))
    for batch in map(windows.gather, chosen.numbers.split(at_once)):
        values = torch.cat([batch.past[..., windows.target_index], batch.future], dim=1).double()
        values = (values - values[:, : windows.seq_len].mean(1, keepdim=True)).transpose(1, 2)
        is_measured = values[..., windows.seq_len :].isfinite().any(2)  # (batch, n_targets)
        values = torch.where(is_measured[..., None], values, torch.nan)
        count[chosen.targets] += values.isfinite().sum(0)
        flat = values.flatten(0, 1).nan_to_num(0.0)
        auto += flat.T @ flat
        if n_read:
            read = steps.read(batch)
            covariates = covariates + products_of_covariates(read, is_measured)
            cross += (read.T @ flat.reshape(len(read), -1)).view_as(cross)
    return Gram(auto, cross.transpose(0, 1), covariates, count, steps, windows.seq_len)


def products_of_covariates(
    read: Float64[Tensor, "batch n_read"], is_measured: Bool[Tensor, "batch n_targets"]
) -> Float64[Tensor, "n_sums n_read n_read"]:
    """Sums over the windows of each target, or one sum if they are the same for all targets."""
    patterns, number = is_measured.unique(dim=1, return_inverse=True)
    products = torch.stack([read[chosen].T @ read[chosen] for chosen in patterns.T])
    return products if len(products) == 1 else products[number]
