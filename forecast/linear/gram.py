"""Gram matrices of windows: sums over windows of the products of two steps of a window, without building a window.

Linear models, and their squared errors on other windows, are computed from these sums alone. Windows overlap, so Σᵢ
x[i+a+1]·y[i+b+1] differs from Σᵢ x[i+a]·y[i+b] by one product at each end. The sums at the first step of either are
correlations, which fast Fourier transforms compute.
"""

from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from forecast.data import Windows
from forecast.data.time_features import choose_evenly_spaced
from forecast.linear.covariate_steps import MAX_RUN, CovariateSteps, choose_windows, find_covariate_steps, make_dense

NUMBERS_AT_ONCE = 1 << 20  # numbers that are copied at once, 8 MiB; about ten copies exist at a time


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


def sliding_covariates(
    windows: Windows, steps: CovariateSteps, columns: Float64[Tensor, "rows n_features"], rows: slice
) -> tuple[Float64[Tensor, "n_targets n_read width"], Float64[Tensor, "n_read n_read"]]:
    """`Gram.cross` and `Gram.covariates` of all windows of one series whose covariates are read at every step."""
    seq_len, width, index = windows.seq_len, windows.seq_len + windows.pred_len, windows.target_index
    targets, others = columns[:, index], [c for c in range(columns.shape[1]) if c not in set(index)]
    blocks: list[tuple[Tensor, int]] = []  # columns of one kind, and the steps of a window that are read
    if "past" in steps.roles:
        blocks.append((columns[: len(columns) - windows.pred_len, others], seq_len))
    if "future" in steps.roles:
        assert windows.time.future is not None
        known = windows.time.future.past[rows].double()
        blocks.append((known - known.mean(0), width))
    if not blocks:
        return targets.new_zeros(targets.shape[1], 0, width), targets.new_zeros(0, 0)

    def centred(x: Tensor, steps_of_x: int, y: Tensor, steps_of_y: int) -> Tensor:
        """Σ over windows of the products of covariates, each minus the mean of its past, with others."""
        sums = sliding_products(x, y, steps_of_x, steps_of_y)
        return sums - sums[:seq_len].mean(0)

    cross, products = [], []
    for block in blocks:
        cross.append(centred(*block, targets, width).flatten(0, 1).permute(2, 0, 1))
        with_each = [centred(*block, *other) for other in blocks]
        with_each = [sums - sums[:, :, :seq_len].mean(2, keepdim=True) for sums in with_each]
        products.append(torch.cat([sums.flatten(2, 3).flatten(0, 1) for sums in with_each], dim=1))
    return torch.cat(cross, dim=1), torch.cat(products)


def sliding_products(
    x: Float[Tensor, "rows_of_x columns"], y: Float[Tensor, "rows_of_y others"], steps_of_x: int, steps_of_y: int
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
    """

    auto: Float64[Tensor, "width width"]
    cross: Float64[Tensor, "n_targets n_read width"]
    covariates: Float64[Tensor, "n_sums n_read n_read"]
    count: Float64[Tensor, "n_targets width"]  # number of windows that have a value, by target and step
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

    def as_if_complete(self) -> "Gram":
        """Scale the sums with each step of the horizon as if every window had its value.

        This assumes that the windows without it have similar pasts.
        """
        of_all = self.count.sum(0)
        weight = of_all.amax() / of_all.clamp(min=1)
        auto = self.auto * weight
        auto[self.seq_len :, : self.seq_len] *= weight[self.seq_len :, None]
        return replace(
            self, auto=auto, cross=self.cross * (self.count.amax(1, keepdim=True) / self.count.clamp(min=1))[:, None]
        )

    def fewer_steps(self, count: int) -> "Gram":
        """The same sums for `count` steps of the horizon, evenly spaced."""
        horizon = torch.from_numpy(choose_evenly_spaced(len(self.auto) - self.seq_len, count))
        kept = torch.cat([torch.arange(self.seq_len), self.seq_len + horizon]).to(self.auto.device)
        return replace(self, auto=self.auto[kept][:, kept], cross=self.cross[..., kept], count=self.count[:, kept])


def window_gram(windows: Windows, parts: int = 1) -> Gram:
    """Sums over the windows at every row, whatever their stride, or over as many as `choose_windows` selects.

    `parts`: divides the limit of the windows that are read one by one.
    """
    windows, steps = make_dense(windows), find_covariate_steps(windows)
    if (numbers := choose_windows(windows, steps, parts)) is not None:
        return sampled_gram(windows, steps, torch.from_numpy(numbers).to(windows.device)).as_if_complete()
    runs = [
        range(begin, min(begin + MAX_RUN, starts.stop))
        for starts in windows.starts
        for begin in range(starts.start, starts.stop, MAX_RUN)
    ]
    return reduce(add, (run_gram(windows, steps, run) for run in runs)).as_if_complete()


def run_gram(windows: Windows, steps: CovariateSteps, starts: range) -> Gram:
    """Sums over consecutive windows without missing values, which begin at these rows."""
    width = windows.seq_len + windows.pred_len
    rows = slice(starts.start, starts.stop + width - 1)
    columns = windows.values[rows].double()
    columns = columns - columns.mean(0)  # a large level costs digits of the sums
    auto = sliding_gram(columns[:, windows.target_index], width)
    cross, covariates = sliding_covariates(windows, steps, columns, rows)
    auto = auto - auto[: windows.seq_len].mean(0)  # of windows minus the mean of their past
    auto = auto - auto[:, : windows.seq_len].mean(1, keepdim=True)
    cross = cross - cross[..., : windows.seq_len].mean(2, keepdim=True)
    count = auto.new_full((len(windows.target_index), width), len(starts))
    return Gram(auto, cross, covariates[None], count, steps, windows.seq_len)


def sampled_gram(windows: Windows, steps: CovariateSteps, numbers: Int64[Tensor, " sampled"]) -> Gram:
    """Sums over the windows with these numbers, each minus the mean of its past, as if each stood for as many others.

    Where values are missing, the past is completed as for a model, and the sums over a step of the horizon are over the
    windows that have its value. Windows of a target without any value in the horizon are left out: in a long outage,
    their completed past has no variance.
    """
    n_targets, width, n_read = (len(windows.target_index), windows.seq_len + windows.pred_len, len(steps.step))
    count = torch.zeros(n_targets, width, dtype=torch.float64, device=windows.device)
    auto, covariates = count.new_zeros(width, width), count.new_zeros(1, n_read, n_read)
    cross = count.new_zeros(n_read, n_targets, width)
    at_once = max(1, NUMBERS_AT_ONCE // (width * n_targets + n_read))
    for batch in map(windows.gather, numbers.split(at_once)):
        values = torch.cat([batch.past[..., windows.target_index], batch.future], dim=1).double()
        values = (values - values[:, : windows.seq_len].mean(1, keepdim=True)).transpose(1, 2)
        is_measured = values[..., windows.seq_len :].isfinite().any(2)  # (batch, n_targets)
        values = torch.where(is_measured[..., None], values, torch.nan)
        count += values.isfinite().sum(0)
        flat = values.flatten(0, 1).nan_to_num(0.0)
        auto += flat.T @ flat
        if n_read:
            read = steps.read(batch)
            patterns, number = is_measured.unique(dim=1, return_inverse=True)
            products = torch.stack([read[chosen].T @ read[chosen] for chosen in patterns.T])
            covariates = covariates + (products if len(products) == 1 else products[number])  # one sum for all targets
            cross += (read.T @ flat.reshape(len(read), -1)).view_as(cross)
    sums = (part * (len(windows) / len(numbers)) for part in (auto, cross.transpose(0, 1), covariates, count))
    return Gram(*sums, steps, windows.seq_len)  # type: ignore[reportCallIssue]
