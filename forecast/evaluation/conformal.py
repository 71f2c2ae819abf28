"""Conformal intervals from the errors of forecasts on validation windows, and adaptive ones, which follow drift.

The offset of probability τ is a weighted mean of two estimates from the errors truth − forecast of the validation
windows; missing true values do not count:

    offset = w · offset of the step + (1 − w) · √(1 + 1/n) · pooled offset,   w = n / (n + 30)

n is the number of horizons that the validation rows hold, at least 1. The factor √(1 + 1/n), the constant 30 and the
symmetry of pooled offsets were chosen on data. The coverage is not guaranteed, as windows overlap and data drift, so
every test measures it (docs/intervals.md).

The offset of a step is a quantile of the errors of one step of the horizon and one variable: of m sorted errors
number ⌈(m + 1)τ⌉ for τ ≥ ½ and number ⌊(m + 1)τ⌋ for τ < ½, as in split conformal prediction (Papadopoulos et al.
2002).

The pooled offset uses the errors of all steps of a variable: it is a factor times s, where s is the root mean square
of the errors of the step (Lei et al. 2018, locally weighted conformal inference). The factor is

    √p · (quantile of |error| / s, with both signs) + (1 − √p) · quantile of error / s

p is the p-value of the hypothesis that errors are as often positive as negative, in a Diebold-Mariano test of the
mean sign of each window. It is at least 2¹⁻ⁿ, the p-value of n equal signs. A bias or a skew that a few windows do
not prove is thus only a part of the interval.

Errors vary with the level of the forecast: those of a solar plant are zero at night. So all these errors are divided
by the factor of their forecast, and offsets are multiplied by it again. The forecasts of a variable are divided into
ten levels, of equal numbers where no two are equal:

    factor of a level = f^(v / (v + 30))

f is the root mean square of the errors of the level, each relative to s of its step, and v the number of times that
forecasts enter the level. The factor of a forecast is interpolated between the mean forecasts of the levels.

Adaptive offsets begin at those of the calibration. With each error e = truth − forecast that becomes known, the
offset q of probability τ moves by η · (τ − 1[e ≤ q]): online gradient descent on the pinball loss (Angelopoulos,
Candès and Tibshirani 2023). Over T updates, the share of errors at or below their offset differs from τ by |last −
first offset| / (η · T), whatever the errors are. The error of step h (0: the first) is known h + 1 rows after the
origin of its forecast.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from forecast.data import Batch, Windows
from forecast.data.scaler import Scaler
from forecast.evaluation.sample_paths import Ranks, rank_trajectories
from forecast.evaluation.scores import DECILES, Level, bounds, probabilities, windows_needed
from forecast.evaluation.significance import diebold_mariano

MAX_POOLED = 1 << 20  # errors that are pooled; if there are more, windows are drawn
N_LEVELS, LEAST_FACTOR = 10, 0.02  # levels of the forecasts of a variable; smallest f of a level

PROBABILITIES = (0.005, 0.01, 0.025, *(n / 20 for n in range(1, 20)), 0.975, 0.99, 0.995)
"""Probabilities of every calibration, which give the levels 10, 20, ... 90, 95, 98 and 99."""

MAX_ERRORS = 1 << 26
"""Largest number of errors of a forecaster to calibrate on (256 MiB of float32). If there are more, use every n-th
window. A test calibrates the model and each baseline."""

POOLING = 30  # horizons of validation at which the offsets of a step and the pooled ones weigh the same

RATE, MAX_RATE = 0.002, 0.1
"""Step size η for each row between two forecasts, as a share of the width of the calibrated 80% interval; largest η.

Chosen on validation rows, see docs/intervals.md."""


def step_offsets(
    errors: Float[Tensor, "windows steps n_targets"], at: Sequence[float]
) -> Float[Tensor, "quantiles steps n_targets"]:
    """The quantiles of the errors of each step and variable, moved outwards by one rank."""
    count = errors.isfinite().sum(0)  # (steps, n_targets)
    # NaN last; NumPy sorts ten times faster than torch.sort
    ordered = torch.from_numpy(np.sort(errors.movedim(0, -1).contiguous().numpy(), axis=-1))
    ranks = torch.stack([
        (torch.floor if p < 0.5 else torch.ceil)(((count + 1).double() * p).round(decimals=6)) for p in at
    ])  # fmt: skip
    index = ranks.long().clamp(min=1).minimum(count.clamp(min=1)) - 1
    return ordered.gather(-1, index.movedim(0, -1)).movedim(-1, 0)


def pooled_offsets(
    errors: Float[Tensor, "windows steps n_targets"], at: Sequence[float], horizons: int | float
) -> Float[Tensor, "quantiles steps n_targets"]:
    """Offsets from the errors of all steps of a variable, each relative to the errors of its step.

    A step whose errors are all zero has offsets of zero, and does not count in the quantiles.
    """
    scale = errors.square().nanmean(0).sqrt()  # (steps, n_targets)
    relative, probability = errors / scale, np.array(at)
    drawn = draw_windows(errors)
    factors = np.zeros((len(at), scale.shape[1]))
    for target, each in enumerate(relative.unbind(2)):
        share = math.sqrt(p_of_equal_signs(each, horizons))
        pool = each[drawn] if len(drawn) < len(each) else each
        values = pool[pool.isfinite()].numpy()
        if len(values):
            symmetric = np.quantile(np.abs(values), np.abs(2 * probability - 1)) * np.sign(probability - 0.5)
            factors[:, target] = share * symmetric + (1 - share) * np.quantile(values, probability)
    return torch.from_numpy(factors).float()[:, None] * scale


def draw_windows(errors: Float[Tensor, "windows steps n_targets"]) -> Int64[Tensor, " drawn"]:
    """Draw the numbers of windows that have at most `MAX_POOLED` errors together, or of one window."""
    drawn = torch.randperm(len(errors), generator=torch.Generator().manual_seed(0))
    return drawn[: max(1, MAX_POOLED // errors[0].numel())]


def fit_level_factors(
    forecasts: Float[Tensor, "windows steps n_targets"],
    errors: Float[Tensor, "windows steps n_targets"],
    horizons: int | float,
) -> tuple[Float[Tensor, "levels n_targets"], Float[Tensor, "levels n_targets"]]:
    """Return the mean forecast of each level of each variable, in ascending order, and the logarithm of its factor.

    Equal forecasts are in one level. A variable with few different forecasts has fewer levels, of which the last one is
    repeated.
    """
    scale, drawn = errors.square().nanmean(0).sqrt(), draw_windows(errors)
    squares, forecasts = (errors[drawn] / scale).square().numpy(), forecasts[drawn]
    visits_per_window = min(horizons / len(drawn), 1)  # windows that overlap visit a level together
    found = np.zeros((2, N_LEVELS, errors.shape[2]), np.float32)
    for target, forecast in enumerate(forecasts.numpy().transpose(2, 0, 1)):
        limits = np.quantile(forecast, np.arange(1, N_LEVELS) / N_LEVELS)
        _, level = np.unique(np.searchsorted(limits, forecast), return_inverse=True)
        level = level.reshape(forecast.shape)
        entered, square = np.diff(level, axis=1, prepend=-1) != 0, squares[..., target]
        add = partial(np.bincount, level.ravel())
        visits = visits_per_window * add(entered.ravel())
        n_known, total = add(np.isfinite(square).ravel()), add(np.nan_to_num(square).ravel())
        mean_square = np.divide(total, n_known, out=np.ones_like(total), where=n_known > 0)
        log_factors = visits / (visits + POOLING) * np.log(np.maximum(mean_square, LEAST_FACTOR**2)) / 2
        of_levels = np.stack([add(forecast.ravel()) / add(), log_factors])
        found[..., target] = np.pad(of_levels, [(0, 0), (0, N_LEVELS - len(visits))], mode="edge")
    return torch.from_numpy(found[0]), torch.from_numpy(found[1])


def p_of_equal_signs(errors: Float[Tensor, "windows steps"], horizons: int | float) -> float:
    """The p-value of the hypothesis that errors are as often positive as negative; 1 where there is no test.

    Args:
        errors: of windows in the order of time; those of many series one after the other, as if they were independent.
        horizons: number of horizons that the rows of the windows hold.
    """
    signs = torch.where(errors.isnan(), errors, errors.sign()).nanmean(1)  # torch.sign(NaN) is 0
    signs = signs[signs.isfinite()].double().numpy()
    if horizons <= 1 or not len(signs):
        return 1.0
    # windows after which two have no step in common; less the rounding error of a whole number
    overlap = math.ceil((len(errors) - 1) / (horizons - 1) - 1e-6)
    p_value = diebold_mariano(signs, np.zeros_like(signs), max(1, overlap)).p_value
    return 1.0 if math.isnan(p_value) else max(p_value, 2 ** (1 - horizons))


@dataclass(frozen=True)
class Calibration:
    """Scaled offsets from a point forecast to each quantile, relative to the factor of the level of the forecast."""

    quantiles: tuple[float, ...]  # their probabilities
    offsets: Float[Tensor, "*series quantiles steps n_targets"]  # NaN for a step without errors
    windows: int  # validation windows from which the offsets of each step come, at least
    pooled_steps: int = 1  # steps of the horizon whose errors are pooled
    horizons: float = math.nan  # that the validation rows hold; NaN: unknown
    deviation: float = math.nan  # mean |truth − median| on the validation windows; NaN: unknown
    ranks: Ranks | None = None  # of error trajectories (`sample_paths`); None in earlier checkpoints
    knots: Float[Tensor, "levels n_targets"] | None = None  # scaled forecasts; None in earlier checkpoints: one level
    log_factors: Float[Tensor, "levels n_targets"] | None = None  # at the knots

    @classmethod
    def fit(
        cls,
        forecasts: Float[Tensor, "windows steps n_targets"],
        truth: Float[Tensor, "windows steps n_targets"],
        levels: Sequence[Level] = (),
        *,
        horizons: int | float,
        joint: Int64[Tensor, "series dates"] | None = None,
    ) -> "Calibration":
        """Calibrate on validation windows.

        Args:
            forecasts, truth: scaled; the truth is NaN where it is missing.
            horizons: number of horizons that the rows of the windows hold (`Windows.count_horizons`).
            joint: the numbers of the windows of each series on the dates that all have (`Windows.align`).
        """
        at = probabilities(levels, PROBABILITIES)
        forecasts = forecasts.float().cpu()
        errors = truth.float().cpu() - forecasts
        knots, log_factors = fit_level_factors(forecasts, errors, horizons)
        factors = interpolate_factors(forecasts, knots, log_factors)
        errors = errors / factors
        count = errors.isfinite().sum(0)  # (steps, n_targets)
        measured = (horizons * count / len(errors)).clamp(min=1)
        offsets = torch.lerp(
            (1 + 1 / measured).sqrt() * pooled_offsets(errors, at, horizons),
            step_offsets(errors, at),
            measured / (measured + POOLING),
        )
        least = int(count[count > 0].amin()) if count.any() else 0
        deviation = float(((errors - offsets[at.index(0.5)]).abs() * factors).nanmean())
        ranks = rank_trajectories(errors, horizons, None if joint is None else joint.cpu())
        of_levels = {"knots": knots, "log_factors": log_factors}
        return cls(at, offsets.contiguous(), least, errors.shape[1], float(horizons), deviation, ranks, **of_levels)

    def supports(self, level: Level) -> bool:
        """Whether there are enough windows for the bounds of an interval of this level, in percent."""
        return self.windows >= windows_needed(level, self.pooled_steps)

    def has(self, levels: Sequence[Level], *, with_ranks: bool = False) -> bool:
        """Whether the bounds of all these levels are among the quantiles, and whether there are ranks."""
        is_ready = self.ranks is not None or not with_ranks
        return is_ready and {p for level in levels for p in bounds(level)} <= set(self.quantiles)

    def around(
        self, forecast: Float[Tensor, "batch steps n_targets"]
    ) -> Float[Tensor, "batch steps n_targets quantiles"]:
        """Add the offsets, perhaps those of each series, to scaled point forecasts, which gives their quantiles."""
        offsets = self.offsets.to(forecast).movedim(-3, -1)
        return forecast[..., None] + self.factors(forecast)[..., None] * offsets

    def factors(self, forecast: Float[Tensor, "*batch steps n_targets"]) -> Float[Tensor, "*batch steps n_targets"]:
        """The factors of the levels of scaled point forecasts: the unit of the offsets."""
        if self.knots is None or self.log_factors is None:
            return torch.ones_like(forecast)
        return interpolate_factors(forecast, self.knots, self.log_factors)

    def deciles(self) -> "Calibration":
        offsets = self.offsets[[self.quantiles.index(p) for p in DECILES]]
        return replace(self, quantiles=DECILES, offsets=offsets)

    def first(self, steps: int) -> "Calibration":
        ranks = None if self.ranks is None else self.ranks[:, :, :steps]
        return replace(self, offsets=self.offsets[:, :steps], ranks=ranks)

    def rescaled(self, old: Scaler, new: Scaler) -> "Calibration":
        """Convert the offsets from one scale to another, so that they stay equal in original units.

        They stay equal in transformed units where the targets have a transform. Offsets of several series are pooled
        over the scales of the series, so they do not change, and neither do those of transforms of other parameters.
        The deviation, a mean over variables of different scales, is unknown in another scale.
        """
        ratio, shift = convert_scale(old, new)
        deviation = self.deviation if bool((ratio == 1).all()) else math.nan
        knots = None if self.knots is None else (self.knots * ratio + shift).float()
        return replace(self, offsets=(self.offsets * ratio).float(), deviation=deviation, knots=knots)

    def state_dict(self) -> dict[str, Any]:
        return {**vars(self), "quantiles": list(self.quantiles)}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Calibration":
        """Read the state of any version; earlier ones have fewer entries."""
        return cls(**{**state, "quantiles": tuple(state["quantiles"])})


def interpolate_factors(
    forecast: Float[Tensor, "*shape n_targets"],
    knots: Float[Tensor, "levels n_targets"],
    log_factors: Float[Tensor, "levels n_targets"],
) -> Float[Tensor, "*shape n_targets"]:
    """exp of the piecewise linear function through the knots, constant beyond the outermost ones."""
    knots, log_factors = knots.to(forecast), log_factors.to(forecast)
    widths = knots.diff(dim=0).clamp(min=torch.finfo(knots.dtype).tiny)
    found = log_factors[0].expand_as(forecast)
    for knot, width, rise in zip(knots[:-1], widths, log_factors.diff(dim=0), strict=True):
        found = found + rise * ((forecast - knot) / width).clamp(0, 1)
    return found.exp()


def convert_scale(old: Scaler, new: Scaler) -> tuple[Float[Tensor, "1 n_targets"], Float[Tensor, "1 n_targets"]]:
    """Factor and shift from scaled values on one scale to another; 1 and 0 where they stay, see `rescaled`."""
    same = torch.equal(old.location, new.location) and torch.equal(old.shape, new.shape)
    if len(old) > 1 or len(new) > 1 or not same:
        return torch.ones_like(new.scale[:1]), torch.zeros_like(new.scale[:1])
    return old.scale / new.scale, (old.center - new.center) / new.scale


@torch.inference_mode()
def calibrate(
    predict: Callable[[Batch], Tensor],
    windows: Windows,
    scaler: Scaler,
    batch_size: int,
    levels: Sequence[Level] = (),
    progress: Callable[[tuple[Tensor, ...]], Iterable[Tensor]] = list,
    *,
    horizon: int | None = None,
    chosen: Int64[Tensor, " chosen"] | None = None,
) -> Calibration:
    """Calibrate on windows of a split: those `chosen`, or every n-th one, for at most `MAX_ERRORS` errors.

    Args:
        predict: returns the scaled point forecasts (batch, pred_len, n_targets) of a batch, which are clipped.
        levels: intervals, in percent, that the calibration must have.
        progress: wraps the batches, for example in a progress bar.
        horizon: first steps of the windows that are calibrated; None: all.
    """
    if chosen is None:
        stride = window_stride(len(windows), errors_per_window=windows.pred_len * len(windows.target_index))
        chosen = torch.arange(0, len(windows), stride, device=windows.values.device)
    forecasts, truth = [], []
    for index in progress(chosen.split(batch_size)):
        batch = windows.gather(index)
        forecasts.append(scaler.clip(predict(batch), batch.series)[:, :horizon].float())
        truth.append(batch.future[:, :horizon].float())
    horizons = windows.count_horizons(len(windows) / len(chosen), horizon)
    return Calibration.fit(
        torch.cat(forecasts), torch.cat(truth), levels, horizons=horizons, joint=windows.align(chosen)
    )


def window_stride(windows: int, errors_per_window: int) -> int:
    """The smallest n for which every n-th window has at most `MAX_ERRORS` errors in total."""
    return max(1, -(-windows * errors_per_window // MAX_ERRORS))


def calibrated_levels(calibration: Calibration, levels: Sequence[Level]) -> tuple[Level, ...]:
    """Keep the levels that the calibration has enough windows for; warn of each other level."""
    kept = tuple(filter(calibration.supports, levels))
    for level in sorted({*levels} - {*kept}):
        needed = windows_needed(level, calibration.pooled_steps)
        warnings.warn(
            f"levels: {level:g}% needs {needed} validation windows to calibrate on, and there are "
            f"{calibration.windows}: left out; a larger validation part (data.split) has more",
            stacklevel=2,
        )
    return kept


def adapt(
    calibration: Calibration, errors: Float[Tensor, "series origins steps n_targets"], stride: int
) -> Iterator[Float[Tensor, "series quantiles steps n_targets"]]:
    """Yield the offsets at each origin, in the order of time, and last those at the origin after them.

    `errors`: scaled errors of earlier forecasts over their factors; NaN where the truth is missing or not known.
    """
    n_series, n_origins, n_steps, _ = errors.shape
    first = calibration.offsets.to(errors)
    spread = first[calibration.quantiles.index(0.9)] - first[calibration.quantiles.index(0.1)]
    rate = min(RATE * stride, MAX_RATE) * spread  # (steps, n_targets)
    probability = torch.tensor(calibration.quantiles).to(errors)[:, None, None]
    step = torch.arange(n_steps)
    delay = step // stride + 1  # origins until the error of each step is known
    offsets = first.expand(n_series, *first.shape).clone()
    for origin in range(n_origins + 1):
        known = origin - delay
        error = errors[:, known.clamp(min=0), step][:, None]  # (series, 1, steps, n_targets)
        moved = offsets + rate * (probability - (error <= offsets).to(errors))
        counts = (known >= 0)[:, None] & error.isfinite()
        offsets = torch.where(counts, moved, offsets)
        yield offsets.sort(dim=1).values  # updates can cross
