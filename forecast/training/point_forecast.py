"""Forecasts of a model in training, outside of the trainer."""

import torch
from torch import Tensor

from forecast.data import Batch
from forecast.training.module import Forecaster


def predict(forecaster: Forecaster, batch: Batch) -> Tensor:
    """Compute scaled point forecasts in the precision of the weights."""
    return forecaster.point(compute_output(forecaster, batch))


@torch.no_grad()
def compute_output(forecaster: Forecaster, batch: Batch) -> Tensor:
    """Compute the scaled output of the model, with quantiles if it has any, in the precision of the weights."""
    forecaster.eval()
    weights = next(forecaster.parameters())
    device = batch.past.device
    past, past_time, future, future_time = (part.to(weights) for part in batch[:4])
    # not compiled: there are too few windows, and they may be on another device
    with torch.compiler.set_stance("force_eager"):
        batch = Batch(past, past_time, future, future_time, batch.index, batch.series)
        return forecaster(batch).to(device)
