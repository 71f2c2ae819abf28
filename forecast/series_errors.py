"""Forecast errors of many series, each in its own units: summed by series, then averaged over the series.

`mse` and `mae` are the means over all windows. The others are computed for each series and variable alone and then
averaged, so that a large series does not drown a small one; a series without windows counts nowhere.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from forecast.metrics import SCORES, ErrorSums, cells, over_variables

BY_STEP = ("mse", "mae", "smape")
"""Of a step of the horizon: what means the same in every series' units."""


class SeriesErrorSums(ErrorSums):
    """The same sums, and those of each series.

    Args:
        center, scale: data units = scaled · scale + center, (series, n_targets).
        naive_mae: seasonal-naive MAE of each series' training rows in data units (series, n_targets).
    """

    totals = ("sums", "count", "each", "windows")

    def __init__(
        self,
        pred_len: int,
        center: Float[Tensor, "series n_targets"],
        scale: Float[Tensor, "series n_targets"],
        naive_mae: Float[Tensor, "series n_targets"],
    ) -> None:
        super().__init__(pred_len, center[0], scale[0], naive_mae[0])
        self.center, self.scale, self.naive_mae = center.double(), scale.double(), naive_mae.double()
        self.each = torch.zeros(4, *scale.shape, dtype=torch.float64)  # as `sums`, the mean over the steps
        self.windows = torch.zeros(len(scale), dtype=torch.float64)

    def update(
        self,
        prediction: Float[Tensor, "batch pred_len n_targets"],
        target: Float[Tensor, "batch pred_len n_targets"],
        series: Int64[Tensor, " batch"] | None = None,
    ) -> None:
        """Add a batch of scaled forecasts and what came true, each of the series that its window lies in."""
        assert series is not None
        self._move_to(target.device)
        series = series.to(self.sums.device)
        center, scale = self.center[series][:, None], self.scale[series][:, None]
        found = cells(prediction.to(self.sums.device), target.to(self.sums.device), center, scale)
        self.sums += torch.stack([cell.sum(0) for cell in found])
        self.count += len(target)
        self.each.index_add_(1, series, torch.stack([cell.mean(1) for cell in found]))
        self.windows.index_add_(0, series, torch.ones_like(series, dtype=torch.float64))

    def by_series(self) -> dict[str, Float[Tensor, "series n_targets"]]:
        """Each score of each series and variable; NaN for a series without windows."""
        return self._scores(*(self.each / self.windows[:, None]))

    def scores(self) -> dict[str, float]:
        return {name: over_variables(name, score).item() for name, score in self.by_variable().items()}

    def by_variable(self) -> dict[str, Float[Tensor, " n_targets"]]:
        squared, absolute = (self.sums[:2].mean(1) / self.count).cpu()
        seen, each = (self.windows > 0).cpu(), self.by_series()
        means = {name: over_variables(name, each[name][seen].T) for name in SCORES}
        return {**means, "mse": squared, "mae": absolute}

    def by_step(self) -> dict[str, Float[Tensor, " pred_len"]]:
        """Those scores that mean the same in every series' units."""
        means = (self.sums[:3].mean(-1) / self.count).cpu()
        return dict(zip(BY_STEP, means, strict=True))
