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

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from forecast.data import Batch, DataModule
from forecast.data.scaler import Scaler
from forecast.evaluation.conformal import Calibration, calibrated_levels
from forecast.evaluation.errors import RunningSums
from forecast.evaluation.levels import CONFORMAL, DECILES, QUANTILE, Level, bounds, trained_levels
from forecast.evaluation.scores import MODEL
from forecast.models.layers import sum_over_processes

MAX_SCORED = 1 << 24
"""Number of quantiles that are scored at once: 64 MiB of float32, a few times over."""

Values = Float[Tensor, "batch pred_len n_targets"]
Scores = Float64[Tensor, "batch pred_len n_targets"]


def map_quantiles(
    function: Callable[[Float[Tensor, "batch rows n_targets"]], Tensor],
    quantiles: Float[Tensor, "batch steps n_targets quantiles"],
) -> Float[Tensor, "batch steps n_targets quantiles"]:
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


class IntervalScorer:
    """Scores the intervals and the CRPS of a test.

    The quantiles of the model are trained (`loss=quantile`), or a calibration puts them around its point forecast.
    Those of a baseline come from its calibration.

    Args:
        calibrations: of the model and of each baseline, by name.
        probabilities: probabilities of the trained quantiles; None without any.
        levels: the intervals to score, in percent.
        data: the data of the test.
        device: where sums are added up.
    """

    def __init__(
        self,
        calibrations: Mapping[str, Calibration],
        probabilities: tuple[float, ...] | None,
        levels: Sequence[Level],
        data: DataModule,
        device: torch.device,
    ) -> None:
        self.calibration, self.data, self.device = calibrations[MODEL], data, device
        self.deciles = {name: calibration.deciles() for name, calibration in calibrations.items()}
        self.lacks_offsets = {name: bool(each.offsets.isnan().any()) for name, each in calibrations.items()}
        self.scaler = data.target_scaler.to(device)
        sums = make_interval_sums(self.calibration, probabilities, levels, self.scaler, data.pred_len)
        self.sums = {method: each.to(device) for method, each in sums.items()}
        empty = torch.zeros(data.n_windows[data.tested_split], dtype=torch.float64)
        self.covered = {
            method: {f"{level:g}": empty.clone() for level in each.levels} for method, each in sums.items()
        }

    def update(
        self, point: Values, forecast: Float[Tensor, "batch pred_len n_targets ..."], batch: Batch
    ) -> Scores:
        """Add the intervals of a batch: point forecasts, and the output of the model, both within the bounds.

        Returns:
            The CRPS of each value, of the trained quantiles if there are any; NaN where the true value is missing.
        """
        found, parts = [], (point, forecast, batch.future, batch.series, batch.index)
        for points, quantiles, future, series, index in split(parts, len(self.calibration.quantiles)):
            around = self.data.clip_targets(self.calibration.around(points.float()), series)
            for method, sums in self.sums.items():  # the trained quantiles come last
                bounds = around if method == CONFORMAL else quantiles
                scores = sums.update(bounds, future, series)
                for level, covered in sums.covered_by_window(bounds, future).items():
                    self.covered[method][level][index.cpu()] = covered.cpu()
            found.append(self._fill_missing(MODEL, scores, points, future, series))
        return torch.cat(found)

    def crps(self, baseline: str, point: Values, batch: Batch) -> Scores:
        """Compute the CRPS of each value of a baseline, from calibrated deciles."""
        found = []
        for points, future, series in split((point, batch.future, batch.series), len(DECILES)):
            around = self.data.clip_targets(self.deciles[baseline].around(points.float()), series)
            values, truth = (self._error_values(each, series) for each in (around, future))
            scores = crps(pinball(values, truth, DECILES), DECILES)
            found.append(self._fill_missing(baseline, scores, points, future, series))
        return torch.cat(found)

    def _error_values(self, values: Tensor, series: Tensor) -> Tensor:
        """Return scaled values on the scale of the errors, see `Scaler.error_values`."""
        return self.scaler.error_values(values.to(self.device).float(), series.to(self.device)).float()

    def _fill_missing(
        self, forecaster: str, scores: Scores, points: Values, future: Values, series: Tensor
    ) -> Scores:
        """Replace the NaN of a target without calibration by its absolute error, the CRPS without spread."""
        if not self.lacks_offsets[forecaster]:
            return scores
        forecast, truth = (self._error_values(each, series) for each in (points, future))
        return torch.where(scores.isnan(), (forecast - truth).abs().double(), scores)

    def coverage_by_window(self) -> dict[str, Float64[np.ndarray, " n_windows"]]:
        """The coverage of each window, named as in `errors_by_window.parquet`. Every process must call this."""
        return name_coverage(
            {
                method: {
                    level: sum_over_processes(each.to(self.device)).cpu() for level, each in by_level.items()
                }
                for method, by_level in self.covered.items()
            }
        )

    def compute(self) -> dict[str, Any]:
        """The scores of the intervals by method, see `IntervalSums.compute`."""
        return {method: sums.compute() for method, sums in self.sums.items()}


def make_interval_sums(
    calibration: Calibration,
    probabilities: Sequence[float] | None,
    levels: Sequence[Level],
    scaler: Scaler,
    pred_len: int,
    calibrated: Sequence[str] = (CONFORMAL,),
) -> dict[str, IntervalSums]:
    """Create empty sums of the interval scores, by method.

    Args:
        probabilities: probabilities of the trained quantiles; None without any.
        levels: the intervals to score, in percent; each method scores those that it has.
        calibrated: the methods that use the calibration.
    """
    found = dict.fromkeys(calibrated, (calibration.quantiles, calibrated_levels(calibration, levels)))
    if probabilities is not None:
        found[QUANTILE] = tuple(probabilities), trained_levels(probabilities, levels)
    return {method: IntervalSums(*each, scaler, pred_len, calibration) for method, each in found.items()}


def split(tensors: Sequence[Tensor], n_quantiles: int) -> zip:
    """Split tensors of a batch, the first of point forecasts, so that `MAX_SCORED` quantiles are scored at once."""
    at_once = max(1, MAX_SCORED // (tensors[0].shape[1:].numel() * n_quantiles))
    return zip(*(tensor.split(at_once) for tensor in tensors), strict=True)
