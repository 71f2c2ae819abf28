"""Scores of quantiles and of intervals, accumulated over batches of windows.

coverage  fraction of true values within an interval; ideally the level of the interval. Missing ones do not count.
above     fraction of true values above the interval; `below`: below it
width     mean width of an interval, scaled and in original units; scaled as errors are, see `errors`
score     interval score of level 1 − α, scaled: width + 2/α times the distance of a true value outside of the interval
          (Gneiting and Raftery 2007)
pinball   mean pinball loss over the deciles, scaled
crps      continuous ranked probability score, scaled, approximated from the deciles; the MAE for a forecast without
          spread

error_ratio  mean |true value − median|, relative to that of the validation windows (`Calibration.deviation`)
horizons     number of horizons that the validation rows hold

Pinball loss and CRPS use only the deciles, which every method has, so that methods can be compared. For a normal
forecast the approximation is 5% too large.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data.scaler import Scaler
from forecast.data.step_features import Index
from forecast.evaluation.conformal import Calibration, calibrated_levels
from forecast.evaluation.errors import Points, RunningSums
from forecast.evaluation.scores import CONFORMAL, DECILES, QUANTILE, Level, bounds, trained_levels

Quantiles = Float[Tensor, "batch steps n_targets quantiles"]


def map_quantiles(
    function: Callable[[Float[Tensor, "batch rows n_targets"]], Tensor], quantiles: Quantiles
) -> Quantiles:
    """Apply an increasing function of windows to each quantile."""
    count, steps = quantiles.shape[3], quantiles.shape[1]
    rows = quantiles.permute(0, 3, 1, 2).flatten(1, 2)  # (batch, quantiles · steps, n_targets)
    return function(rows).unflatten(1, (count, steps)).permute(0, 2, 3, 1)


def pinball(
    quantiles: Float[Tensor, "*shape quantiles"], target: Float[Tensor, "*shape"], at: Sequence[float]
) -> Float[Tensor, "*shape quantiles"]:
    """Pinball loss max(τ·e, (τ − 1)·e), e = target − quantile; a quantile minimises it (Koenker and Bassett 1978)."""
    tau = torch.tensor(at, dtype=target.dtype, device=target.device)
    error = target[..., None] - quantiles
    return torch.maximum(tau * error, (tau - 1) * error)


def crps(losses: Float[Tensor, "*shape quantiles"], at: Sequence[float]) -> Float64[Tensor, "*shape"]:
    """Approximate the CRPS (see `crps_weights`) from the pinball losses of the deciles among quantiles."""
    of_deciles = losses[..., [at.index(p) for p in DECILES]]
    return (of_deciles * crps_weights(DECILES).to(losses)).sum(-1, dtype=torch.float64)


def crps_weights(at: Sequence[float]) -> Float[Tensor, " quantiles"]:
    """Weights w of CRPS = 2∫ pinball dτ ≈ Σ w_τ · pinball_τ: twice the part of (0, 1) nearest to each probability."""
    edges = [0.0, *((low + high) / 2 for low, high in pairwise(at)), 1.0]
    return 2 * torch.tensor(edges, dtype=torch.float64).diff()


class IntervalSums(RunningSums):
    """Running sums of the interval scores of one method, in float64; `compute()` adds them up over processes.

    Args:
        at: probabilities of the quantiles, which include the deciles and the bounds of each level.
        validation: the errors on validation windows, to which those of the test are compared.
    """

    def __init__(
        self,
        at: Sequence[float],
        levels: Sequence[Level],
        scaler: Scaler,
        pred_len: int,
        validation: Calibration | None = None,
    ) -> None:
        self.at, self.levels, self.scaler, self.validation = tuple(at), tuple(levels), scaler, validation
        self.sides = [tuple(self.at.index(p) for p in bounds(level)) for level in levels]
        n_targets = scaler.center.shape[1]
        shapes = {
            "inside": (len(levels), pred_len, n_targets),
            **dict.fromkeys(("above", "below", "width", "width_raw"), (len(levels), n_targets)),
            "deviation": (),
            "losses": (len(at),),
            "count": (pred_len, n_targets),  # true values
        }
        super().__init__(**{name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()})

    def update(
        self, quantiles: Quantiles, target: Points, series: Index
    ) -> tuple[Float64[Tensor, "batch pred_len n_targets"], Float64[Tensor, "levels batch"]]:
        """Add a batch of scaled quantile forecasts and truths (NaN: missing); `series[i]` is the series of window i.

        Returns the CRPS of each value, NaN where it is missing or its target has no calibration, and the share of the
        true values of each window within the interval of each level, NaN without true values.
        """
        quantiles, target = quantiles.to(self.device).float(), target.to(self.device).float()
        series, self.scaler, sums = series.to(self.device), self.scaler.to(self.device), self.sums
        measured = ~target.isnan() & ~quantiles.isnan().all(-1)  # a target may have no calibration
        values, truth = (self.scaler.error_values(each, series).float() for each in (quantiles, target))
        losses = pinball(values, truth, self.at)
        deviation = (target - quantiles[..., self.at.index(0.5)]).abs().double()
        sums["deviation"] += torch.where(measured, deviation, 0.0).sum()
        sums["losses"] += torch.where(measured[..., None], losses, 0.0).sum((0, 1, 2), dtype=torch.float64)
        sums["count"] += measured.sum(0)
        covered = torch.zeros(len(self.levels), len(target), dtype=torch.float64, device=self.device)
        for i, sides in enumerate(self.sides):
            low, high = (quantiles[..., side] for side in sides)
            inside = (low <= target) & (target <= high)
            covered[i] = inside.sum((1, 2)).double() / measured.sum((1, 2))
            sums["inside"][i] += inside.sum(0)
            sums["above"][i] += (target > high).sum((0, 1))
            sums["below"][i] += (target < low).sum((0, 1))
            width = (values[..., sides[1]] - values[..., sides[0]]).double()
            in_units = self.scaler.inverse(high, series) - self.scaler.inverse(low, series)
            for name, each in (("width", width), ("width_raw", in_units)):
                sums[name][i] += torch.where(measured, each, 0.0).sum((0, 1))
        return crps(losses, self.at), covered

    def compute(self) -> dict[str, dict[str, float] | float]:
        """Scores by level and overall: coverage and widths as means over the variables, the others over all values.

        Such as `{"80": {"coverage", "above", "below", "width", "width_raw", "score"}, ..., "pinball", "crps"}`, and
        `error_ratio` and `horizons` where the errors of the validation windows are known.
        """
        sums = self.totals()
        count, losses = sums["count"].sum(0), sums["losses"] / sums["count"].sum()
        by_variable = {"coverage": sums["inside"].sum(1)}
        by_variable |= {name: sums[name] for name in ("above", "below", "width", "width_raw")}
        scores: dict[str, dict[str, float] | float] = {}
        for i, (level, sides) in enumerate(zip(self.levels, self.sides, strict=True)):
            means = {name: (each[i] / count).nanmean().item() for name, each in by_variable.items()}
            score = losses[[*sides]].sum().item() * 2 / (1 - level / 100)
            scores[f"{level:g}"] = {**means, "score": score}
        scores["pinball"] = losses[[self.at.index(p) for p in DECILES]].mean().item()
        scores["crps"] = crps(losses, self.at).item()
        if self.validation is not None and self.validation.deviation > 0:
            deviation = (sums["deviation"] / count.sum()).item()
            scores["error_ratio"] = deviation / self.validation.deviation
            scores["horizons"] = self.validation.horizons
        return scores

    def coverage_by(self, by: Literal["step", "variable"]) -> Float64[Tensor, "levels rows"]:
        """Coverage of each step, averaged over the variables, or of each variable; NaN without true values."""
        sums = self.totals()
        if by == "step":
            return (sums["inside"] / sums["count"]).nanmean(-1)
        return sums["inside"].sum(1) / sums["count"].sum(0)


Intervals = Mapping[str, IntervalSums]  # by method


def tabulate_coverage(sums: Intervals, by: Literal["step", "variable"]) -> dict[str, Float64[np.ndarray, " rows"]]:
    """Return the coverage of each step, or of each variable, as columns of a table. Every process must call this."""
    return name_coverage(sums, {method: each.coverage_by(by) for method, each in sums.items()})


def name_coverage(
    sums: Intervals, coverage: Mapping[str, Float64[Tensor, "levels rows"]]
) -> dict[str, Float64[np.ndarray, " rows"]]:
    """Name the columns of a table after the method and the level of their intervals: `conformal_coverage_80`."""
    return {
        f"{method}_coverage_{level:g}": column.numpy()
        for method, found in coverage.items()
        for level, column in zip(sums[method].levels, found, strict=True)
    }


def make_interval_sums(
    calibration: Calibration,
    probabilities: Sequence[float] | None,
    levels: Sequence[Level],
    scaler: Scaler,
    pred_len: int,
    calibrated: Sequence[str] = (CONFORMAL,),
) -> dict[str, IntervalSums]:
    """Create empty sums of the interval scores, by method, which scores those of the levels that it has.

    `probabilities` are those of the trained quantiles; None without any. `calibrated` methods use the calibration.
    """
    found = dict.fromkeys(calibrated, (calibration.quantiles, calibrated_levels(calibration, levels)))
    if probabilities is not None:
        found[QUANTILE] = tuple(probabilities), trained_levels(probabilities, levels)
    return {method: IntervalSums(*each, scaler, pred_len, calibration) for method, each in found.items()}
