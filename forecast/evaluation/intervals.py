"""Scores of intervals, accumulated over batches of windows.

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

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from forecast.data.scaling.scaler import Scaler
from forecast.evaluation.conformal import Calibration
from forecast.evaluation.levels import DECILES, Level, bounds
from forecast.evaluation.quantiles import crps, pinball
from forecast.evaluation.running_sums import RunningSums


class IntervalSums(RunningSums):
    """Running sums of the interval scores of one method, in float64; `compute()` adds them up over processes.

    Args:
        at: probabilities of the quantiles, which include the deciles.
        levels: the intervals to score, in percent; `at` includes the bounds of each.
        scaler: of the targets.
        pred_len: number of steps of a forecast.
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
        n_targets = scaler.center.shape[1]
        shapes = {
            "inside": (len(levels), pred_len, n_targets),
            "above": (len(levels), n_targets),
            "below": (len(levels), n_targets),
            "deviation": (),
            "width": (len(levels), n_targets),
            "width_raw": (len(levels), n_targets),
            "losses": (len(at),),
            "count": (pred_len, n_targets),  # true values
        }
        super().__init__(**{name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()})

    def update(
        self,
        quantiles: Float[Tensor, "batch pred_len n_targets quantiles"],
        target: Float[Tensor, "batch pred_len n_targets"],
        series: Int64[Tensor, " batch"],
    ) -> Float64[Tensor, "batch pred_len n_targets"]:
        """Add a batch of scaled quantile forecasts and truths (NaN: missing); `series[i]` is the series of window i.

        Returns:
            The CRPS of each value; NaN where it is missing, and for a target without calibration.
        """
        quantiles, target = quantiles.to(self.device).float(), target.to(self.device).float()
        series, self.scaler, sums = series.to(self.device), self.scaler.to(self.device), self.sums
        measured = ~target.isnan() & ~quantiles.isnan().all(-1)  # a target may have no calibration
        values, truth = (self.scaler.error_values(each, series).float() for each in (quantiles, target))
        losses = pinball(values, truth, self.at)
        deviation = (target - quantiles[..., self.at.index(0.5)]).abs().double()
        sums["deviation"] += torch.where(measured, deviation, 0.0).sum()
        sums["losses"] += torch.where(measured[..., None], losses, 0.0).sum((0, 1, 2), dtype=torch.float64)
        for i, inside in enumerate(self._inside(quantiles, target)):
            sides = [self.at.index(p) for p in bounds(self.levels[i])]
            low, high = (quantiles[..., side] for side in sides)
            sums["inside"][i] += inside.sum(0)
            sums["above"][i] += (target > high).sum((0, 1))
            sums["below"][i] += (target < low).sum((0, 1))
            width = values[..., sides[1]] - values[..., sides[0]]
            sums["width"][i] += torch.where(measured, width.double(), 0.0).sum((0, 1))
            in_units = self.scaler.inverse(high, series) - self.scaler.inverse(low, series)
            sums["width_raw"][i] += torch.where(measured, in_units, 0.0).sum((0, 1))
        sums["count"] += measured.sum(0)
        return crps(losses, self.at)

    def covered_by_window(
        self,
        quantiles: Float[Tensor, "batch pred_len n_targets quantiles"],
        target: Float[Tensor, "batch pred_len n_targets"],
    ) -> dict[str, Float64[Tensor, " batch"]]:
        """Share of the true values of each window that lie within an interval, by level; NaN without true values."""
        quantiles, target = quantiles.to(self.device).float(), target.to(self.device).float()
        count = (~target.isnan() & ~quantiles.isnan().all(-1)).sum((1, 2))
        return self._by_level(
            [inside.sum((1, 2)).double() / count for inside in self._inside(quantiles, target)]
        )

    def _inside(self, quantiles: Tensor, target: Tensor) -> list[Bool[Tensor, "batch pred_len n_targets"]]:
        """Whether each true value lies within the interval of each level."""
        sides = [[quantiles[..., self.at.index(p)] for p in bounds(level)] for level in self.levels]
        return [(low <= target) & (target <= high) for low, high in sides]

    def compute(self) -> dict[str, dict[str, float] | float]:
        """Scores by level and overall: coverage and widths as means over the variables, the others over all values.

        Such as `{"80": {"coverage", "above", "below", "width", "width_raw", "score"}, ..., "pinball", "crps"}`, and
        `error_ratio` and `horizons` where the errors of the validation windows are known.
        """
        sums = self.totals()
        sums["inside"], count = sums["inside"].sum(1), sums["count"].sum(0)
        losses = sums["losses"] / count.sum()
        scores: dict[str, dict[str, float] | float] = {}
        for i, level in enumerate(self.levels):
            sides = losses[[self.at.index(p) for p in bounds(level)]]
            means = {
                name: (sums[name][i] / count).nanmean().item()
                for name in ("inside", "above", "below", "width", "width_raw")
            }
            scores[f"{level:g}"] = {
                "coverage": means.pop("inside"),
                **means,
                "score": sides.sum().item() * 2 / (1 - level / 100),
            }
        pinball_of_deciles = losses[[self.at.index(p) for p in DECILES]].mean()
        scores |= {"pinball": pinball_of_deciles.item(), "crps": crps(losses, self.at).item()}
        if self.validation is None or not self.validation.deviation > 0:
            return scores
        ratio = (sums["deviation"] / count.sum()).item() / self.validation.deviation
        return scores | {"error_ratio": ratio, "horizons": self.validation.horizons}

    def coverage_by_step(self) -> dict[str, Float64[Tensor, " pred_len"]]:
        """Coverage of each step, averaged over the variables, by level. Every process must call this."""
        sums = self.totals()
        return self._by_level((sums["inside"] / sums["count"]).nanmean(-1))

    def coverage_by_variable(self) -> dict[str, Float64[Tensor, " n_targets"]]:
        """Coverage of each variable by level; NaN without true values. Every process must call this."""
        sums = self.totals()
        return self._by_level(sums["inside"].sum(1) / sums["count"].sum(0))

    def _by_level(self, coverage: Iterable[Tensor]) -> dict[str, Tensor]:
        return {f"{level:g}": each for level, each in zip(self.levels, coverage, strict=True)}


def tabulate_coverage_by_step(
    sums: Mapping[str, IntervalSums],
) -> dict[str, Float64[np.ndarray, " pred_len"]]:
    """Return the coverage of each step as columns of `errors_by_step.csv`, such as `conformal_coverage_80`.

    Args:
        sums: by method. Every process must call this.
    """
    return name_coverage({method: each.coverage_by_step() for method, each in sums.items()})


def tabulate_coverage_by_variable(
    sums: Mapping[str, IntervalSums],
) -> dict[str, Float64[np.ndarray, " n_targets"]]:
    """Return the coverage of each variable as columns of `errors_by_variable.csv`.

    Args:
        sums: by method. Every process must call this.
    """
    return name_coverage({method: each.coverage_by_variable() for method, each in sums.items()})


def name_coverage(coverage: Mapping[str, Mapping[str, Tensor]]) -> dict[str, np.ndarray]:
    """Name the columns of a table after the method and the level of their intervals."""
    return {
        f"{method}_coverage_{level}": each.numpy()
        for method, by_level in coverage.items()
        for level, each in by_level.items()
    }
