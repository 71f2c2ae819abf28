"""Conformal intervals: how far the truth lay from the forecasts of validation windows, step by step.

For each step of the horizon and each variable, the offset of probability τ is that quantile of truth − forecast over
the validation windows, taken a rank outwards, as split conformal prediction does (Papadopoulos et al. 2002; Lei et al.
2018): of n errors in order, number ⌈(n + 1)τ⌉ above the median and ⌊(n + 1)τ⌋ below. Both sides are taken apart, so
a forecast that is biased on validation windows has bounds that are not. The promised coverage supposes windows to
come as if shuffled; windows that overlap and data that drift do not, so the coverage on test windows is always
measured and shown.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.data import Batch, Windows
from forecast.data.scaling import Scaler
from forecast.evaluation.quantiles import Level, bounds, probabilities

AMONG = (0.005, 0.01, 0.025, *(n / 20 for n in range(1, 20)), 0.975, 0.99, 0.995)
"""Probabilities kept for every model: levels 10, 20, ... 90, 95, 98 and 99."""

MEMORY = 1 << 27
"""Errors held at a time, 512 MiB of float32; where there are more, every so manieth window is used."""


@dataclass(frozen=True)
class Calibration:
    """Scaled offsets from a point forecast to each quantile, from `windows` validation windows."""

    quantiles: tuple[float, ...]
    offsets: Float[Tensor, "quantiles steps n_targets"]
    windows: int

    @classmethod
    def fit(
        cls, errors: Float[Tensor, "windows steps n_targets"], levels: Sequence[Level] = ()
    ) -> "Calibration":
        """From scaled errors, truth − forecast, of some windows."""
        at, n = probabilities(levels, AMONG), len(errors)
        ordered = errors.sort(dim=0).values
        outwards = [(math.floor if p < 0.5 else math.ceil, round((n + 1) * p, 6)) for p in at]
        ranks = [rounded(rank) for rounded, rank in outwards]
        index = torch.tensor([min(max(rank, 1), n) - 1 for rank in ranks], device=errors.device)
        return cls(at, ordered[index].cpu().float(), n)

    def has(self, levels: Sequence[Level]) -> bool:
        return {p for level in levels for p in bounds(level)} <= set(self.quantiles)

    def around(
        self, forecast: Float[Tensor, "batch steps n_targets"]
    ) -> Float[Tensor, "batch steps n_targets quantiles"]:
        """The quantiles of these scaled point forecasts."""
        return forecast[..., None] + self.offsets.to(forecast).permute(1, 2, 0)

    def first(self, steps: int) -> "Calibration":
        return Calibration(self.quantiles, self.offsets[:, :steps], self.windows)

    def rescaled(self, old: Scaler, new: Scaler) -> "Calibration":
        """The offsets, equal in units of the data, for forecasts on another scale.

        Offsets of several series are pooled over their scales, so they stay as they are.
        """
        if len(old) > 1 or len(new) > 1:
            return self
        return Calibration(self.quantiles, (self.offsets * (old.scale / new.scale)).float(), self.windows)

    def state_dict(self) -> dict[str, Any]:
        return {"quantiles": list(self.quantiles), "offsets": self.offsets, "windows": self.windows}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Calibration":
        return cls(tuple(state["quantiles"]), state["offsets"], state["windows"])


@torch.inference_mode()
def calibrate(
    predict: Callable[[Batch], Tensor],
    windows: Windows,
    batch_size: int,
    levels: Sequence[Level] = (),
    shown: Callable[[tuple[Tensor, ...]], Iterable[Tensor]] = list,
) -> Calibration:
    """Calibrate on the windows of a split, all of them or as many evenly spaced ones as `MEMORY` holds.

    `predict` gives scaled point forecasts (batch, pred_len, n_targets); `shown` may wrap the batches in a progress bar.
    """
    stride = every(len(windows), size=windows.pred_len * len(windows.target_index))
    chosen = torch.arange(0, len(windows), stride, device=windows.values.device)
    errors = []
    for index in shown(chosen.split(batch_size)):
        batch = windows.gather(index)
        errors.append((batch.future - predict(batch)).float())
    return Calibration.fit(torch.cat(errors), levels)


def every(windows: int, size: int) -> int:
    """Which of so many windows of `size` errors each are used: every one, or every so manieth."""
    return max(1, -(-windows * size // MEMORY))


def enough(calibration: Calibration, levels: Sequence[Level]) -> tuple[Level, ...]:
    """The levels that so many windows can be calibrated for; a warning names those left out."""
    kept = []
    for level in levels:
        needed = math.ceil(round(200 / (100 - level), 6)) - 1
        if calibration.windows >= needed:
            kept.append(level)
        else:
            warnings.warn(
                f"levels: {level:g}% needs {needed} validation windows to calibrate on, and there are "
                f"{calibration.windows}: left out",
                stacklevel=2,
            )
    return tuple(kept)
