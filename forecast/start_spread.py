"""How far apart a model's quantiles lie before its first step: as those of the errors of what it starts from."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from forecast.data import Windows
from forecast.model import ResidualInformer

ERRORS = 1 << 22
"""Taken of training windows evenly spread."""
AT_ONCE = 256


@torch.no_grad()
def fit_spread(
    model: ResidualInformer, windows: Windows, at: Sequence[float]
) -> Float64[Tensor, "n_targets n_quantiles"]:
    """The quantiles of the untrained model's errors, truth less median, in units of each window's deviation.

    Without them the first epochs go into the width of the intervals: what the trunk learns for it is lost for the
    forecast.
    """
    wanted = max(1, ERRORS // (windows.pred_len * len(windows.target_index)))
    index = torch.linspace(
        0, len(windows) - 1, min(wanted, len(windows)), device=windows.values.device
    ).long()
    model.eval()
    errors = []
    for some in index.split(AT_ONCE):
        batch = windows.gather(some)
        past, past_time, future_time, future = (
            part.cpu() for part in (batch.past, batch.past_time, batch.future_time, batch.future)
        )
        median = model(past, past_time, future_time)[..., len(at) // 2 :: len(at)]
        scale = model.deviation(past)[..., windows.target_index]
        errors.append(((future - median) / scale).flatten(0, 1))
    model.train()
    return torch.from_numpy(np.quantile(torch.cat(errors).double().numpy(), at, axis=0)).T
