"""What the simple rules take from the training rows of many series, without a loop over them."""

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data.panel import PerSeries, parts, segments
from forecast.data.windows import Windows
from forecast.spread import spread

SAMPLED, PAIRS, ENOUGH = 1 << 17, 1 << 21, 4096
"""Training windows that the linear map is fitted on, at most, evenly spread over all; with fewer, on every one. Of many
columns so many that windows times columns are `PAIRS`, `ENOUGH` at least."""

CELLS = 1 << 24
"""Numbers copied at a time, 128 MiB."""


def windows_fitted_on(train: Windows) -> int:
    return min(len(train), SAMPLED, max(ENOUGH, PAIRS // len(train.target_index)))


def fitted_on(train: Windows) -> list[str]:
    """What the linear map is fitted on, in words, where that is not every training window."""
    fitted, every = windows_fitted_on(train), len(train)
    return (
        [f"linear map fitted on {fitted:,} of {every:,} training windows, evenly spread"]
        if fitted < every
        else []
    )


def sampled_gram(train: Windows) -> Float64[Tensor, "width width"]:
    """Σ over training windows and targets of the outer product of each window, less its mean, with itself."""
    device = train.values.device
    steps = torch.arange(-train.seq_len, train.pred_len, device=device)
    gram = torch.zeros(len(steps), len(steps), dtype=torch.float64, device=device)
    chosen = torch.from_numpy(spread(len(train), windows_fitted_on(train))).to(device)
    for index in chosen.split(max(1, CELLS // (len(steps) * len(train.target_index)))):
        rows = train.origins(index)[:, None] + steps
        windows = train.values[rows][..., train.target_index].double()
        flat = (windows - windows.mean(1, keepdim=True)).transpose(1, 2).flatten(0, 1)
        gram += flat.T @ flat
    return gram


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
