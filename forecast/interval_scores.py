"""How good intervals are, summed over windows one batch at a time.

coverage  share of true values within an interval; its level says what it should be
width     mean width of an interval, on scaled values and in the data's own units
pinball   mean pinball loss over the deciles, scaled
crps      continuous ranked probability score, scaled, approximated by the deciles; for a forecast without
          spread it is the MAE

Deciles alone, which every method has: a mean over more quantiles weighs tails that others lack. Of a normal forecast
the approximation is 5% too large.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from forecast.quantiles import DECILES, Level, bounds, crps_weights, pinball


class IntervalSums:
    """Running sums over the quantile forecasts of one method, in float64.

    Args:
        at: the probabilities of the quantiles, the deciles among them.
        levels: the intervals that are scored, in percent; the bounds of each are among `at`.
        scale: data units = scaled · scale, one a target (n_targets,), or of many series (series, n_targets).
    """

    def __init__(
        self, at: Sequence[float], levels: Sequence[Level], scale: Float[Tensor, "*series n_targets"]
    ) -> None:
        self.at, self.levels, self.scale = tuple(at), tuple(levels), scale.double().cpu()
        self.pinball = torch.zeros(len(at), dtype=torch.float64)
        self.inside = torch.zeros(len(levels), scale.shape[-1], dtype=torch.float64)
        self.width = torch.zeros(len(levels), scale.shape[-1], dtype=torch.float64)
        self.width_raw = torch.zeros(len(levels), scale.shape[-1], dtype=torch.float64)
        self.count = torch.zeros((), dtype=torch.float64)  # values seen of each target

    def update(
        self,
        quantiles: Float[Tensor, "batch pred_len n_targets quantiles"],
        target: Float[Tensor, "batch pred_len n_targets"],
        series: Int64[Tensor, " batch"] | None = None,
    ) -> None:
        """Add a batch of scaled quantile forecasts and what came true; of many series, which each window lies in."""
        scale = self.scale if self.scale.ndim == 1 or series is None else self.scale[series.cpu()]
        if quantiles.device.type == "mps":  # which has no float64
            quantiles, target = quantiles.cpu(), target.cpu()
        quantiles, target = quantiles.float(), target.float()
        self.pinball += (
            pinball(quantiles, target, self.at).sum((0, 1, 2), dtype=torch.float64).cpu() / (target.shape[-1])
        )
        for i, level in enumerate(self.levels):
            low, high = (quantiles[..., self.at.index(p)] for p in bounds(level))
            self.inside[i] += ((low <= target) & (target <= high)).double().sum((0, 1)).cpu()
            widths = (high - low).double().sum(1).cpu()  # (batch, n_targets)
            self.width[i] += widths.sum(0)
            self.width_raw[i] += (widths * scale).sum(0)
        self.count += target.shape[0] * target.shape[1]

    def scores(self) -> dict[str, dict[str, float] | float]:
        """`{"80": {"coverage", "width", "width_raw"}, ..., "pinball", "crps"}`, averaged over the variables."""
        scores: dict[str, dict[str, float] | float] = {}
        for i, level in enumerate(self.levels):
            width = self.width[i] / self.count
            scores[f"{level:g}"] = {
                "coverage": (self.inside[i] / self.count).mean().item(),
                "width": width.mean().item(),
                "width_raw": (self.width_raw[i] / self.count).mean().item(),
            }
        each = self.pinball[[self.at.index(p) for p in DECILES]] / self.count
        return scores | {"pinball": each.mean().item(), "crps": (each @ crps_weights(DECILES)).item()}
