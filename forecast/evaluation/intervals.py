"""Scores of intervals, accumulated over batches of windows.

coverage  fraction of true values within an interval; ideally the level of the interval. Missing ones do not count.
width     mean width of an interval, scaled and in the units of the data
score     interval score of level 1 − α, scaled: width + 2/α times the distance of a true value outside of the interval
          (Gneiting and Raftery 2007)
pinball   mean pinball loss over the deciles, scaled
crps      continuous ranked probability score, scaled, approximated from the deciles; the MAE for a forecast without
          spread

Pinball loss and CRPS use only the deciles, which every method has, so that methods can be compared. For a normal
forecast the approximation is 5% too large.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torchmetrics import Metric

from forecast.data.scaler import Scaler
from forecast.evaluation.quantiles import DECILES, Level, bounds, crps_weights, pinball


class IntervalSums(Metric):
    """Running sums of the interval scores of one method, in float64, added up over processes by `compute()`.

    Args:
        at: probabilities of the quantiles, which include the deciles.
        levels: the intervals to score, in percent; `at` includes the bounds of each.
        scaler: of the targets.
    """

    full_state_update = False
    losses: Tensor
    inside: Tensor
    width: Tensor
    width_raw: Tensor
    count: Tensor

    def __init__(self, at: Sequence[float], levels: Sequence[Level], scaler: Scaler) -> None:
        super().__init__()
        self.at, self.levels, self.scaler = tuple(at), tuple(levels), scaler
        n_targets = scaler.center.shape[1]
        for name in ("inside", "width", "width_raw"):
            zeros = torch.zeros(len(levels), n_targets, dtype=torch.float64)
            self.add_state(name, zeros, dist_reduce_fx="sum")
        self.add_state("losses", torch.zeros(len(at), dtype=torch.float64), dist_reduce_fx="sum")
        # number of true values of each target
        self.add_state("count", torch.zeros(n_targets, dtype=torch.float64), dist_reduce_fx="sum")

    def update(
        self,
        quantiles: Float[Tensor, "batch pred_len n_targets quantiles"],
        target: Float[Tensor, "batch pred_len n_targets"],
        series: Int64[Tensor, " batch"],
    ) -> None:
        """Add a batch of scaled quantile forecasts and truths (NaN: missing); `series[i]` is the series of window i."""
        quantiles, target = quantiles.to(self.device).float(), target.to(self.device).float()
        series, self.scaler = series.to(self.device), self.scaler.to(self.device)
        measured = ~target.isnan() & ~quantiles.isnan().all(-1)  # a target may have no calibration
        losses = torch.where(measured[..., None], pinball(quantiles, target, self.at), 0.0)
        self.losses += losses.sum((0, 1, 2), dtype=torch.float64)
        for i, level in enumerate(self.levels):
            low, high = (quantiles[..., self.at.index(p)] for p in bounds(level))
            self.inside[i] += ((low <= target) & (target <= high)).double().sum((0, 1))
            self.width[i] += torch.where(measured, (high - low).double(), 0.0).sum((0, 1))
            in_units = self.scaler.inverse(high, series) - self.scaler.inverse(low, series)
            self.width_raw[i] += torch.where(measured, in_units, 0.0).sum((0, 1))
        self.count += measured.sum((0, 1))

    def compute(self) -> dict[str, dict[str, float] | float]:
        """Scores averaged over the variables: by level and overall.

        Such as `{"80": {"coverage", "width", "width_raw", "score"}, ..., "pinball", "crps"}`.
        """
        scores: dict[str, dict[str, float] | float] = {}
        total = self.losses.cpu() / self.count.sum().cpu()
        for i, level in enumerate(self.levels):
            sides = total[[self.at.index(p) for p in bounds(level)]]
            scores[f"{level:g}"] = {
                "coverage": (self.inside[i] / self.count).nanmean().item(),
                "width": (self.width[i] / self.count).nanmean().item(),
                "width_raw": (self.width_raw[i] / self.count).nanmean().item(),
                "score": sides.sum().item() * 2 / (1 - level / 100),
            }
        each = total[[self.at.index(p) for p in DECILES]]
        return scores | {"pinball": each.mean().item(), "crps": (each @ crps_weights(DECILES)).item()}
