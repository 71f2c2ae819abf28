"""What the simple rules take from the training rows of many series, without a loop over them."""

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data.panel import PerSeries, parts, segments


def seasonal_naive_mae_by_series(
    values: Float[Tensor, "rows n_targets"], first: PerSeries, last: PerSeries, season: int
) -> Float64[Tensor, "series n_targets"]:
    """MASE's denominator of each series from its rows first[s] … last[s] − 1.

    A series of no more than a season of training rows is measured by the step before (season 1); one of a single row
    has none (NaN).
    """
    lengths = last - first
    lag = np.where(lengths > season, season, 1)
    found = np.full((len(first), values.shape[1]), np.nan)
    for part in parts(np.maximum(lengths, 1)):
        mine = np.flatnonzero(lengths[part] > lag[part]) + part.start
        if not len(mine):
            continue
        pairs = lengths[mine] - lag[mine]
        rows = torch.from_numpy(segments(first[mine] + lag[mine], last[mine]))
        back = torch.from_numpy(np.repeat(lag[mine], pairs))
        change = (values[rows].double() - values[rows - back].double()).abs().numpy()
        found[mine] = np.add.reduceat(change, pairs.cumsum() - pairs) / pairs[:, None]
    return torch.from_numpy(found)
