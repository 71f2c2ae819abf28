"""How far apart a model's quantiles lie before its first step: as those of the errors of its linear map."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from forecast.baselines import BATCH
from forecast.data import Windows
from forecast.model import ResidualInformer
from forecast.spread import spread

ERRORS = 1 << 22
"""Taken of training windows evenly spread."""


@torch.no_grad()
def fit_spread(
    model: ResidualInformer, windows: Windows, at: Sequence[float]
) -> Float64[Tensor, "n_targets n_quantiles"]:
    """The quantiles of the errors, truth less forecast, of the linear map, in units of each window's deviation.

    Without them the first epochs go into the width of the intervals: what the trunk learns for it is lost for the
    forecast.
    """
    wanted = max(1, ERRORS // (windows.pred_len * len(windows.target_index)))
    index = torch.from_numpy(spread(len(windows), wanted)).to(windows.values.device)
    errors = []
    for some in index.split(BATCH):
        batch = windows.gather(some)
        past, future, columns = batch.past.cpu(), batch.future.cpu(), windows.target_index
        mean = past.mean(1, keepdim=True)
        forecast, scale = mean + model.linear_forecast(past - mean), model.deviation(past - mean)
        errors.append(((future - forecast[..., columns]) / scale[..., columns]).flatten(0, 1))
    return torch.from_numpy(np.quantile(torch.cat(errors).double().numpy(), at, axis=0)).T
