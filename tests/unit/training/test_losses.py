"""Losses of windows that select the best epoch."""

import numpy as np
import pytest
import torch

from forecast.data import Batch
from forecast.data.scaler import Scaler
from forecast.training.module import window_losses

QUANTILES = (0.1, 0.5, 0.9)


def batch_of(future: torch.Tensor) -> Batch:
    empty = torch.zeros(len(future), 0, 0)
    index = torch.arange(len(future))
    return Batch(empty, empty, future, empty, index, torch.zeros_like(index))


@pytest.mark.parametrize("quantiles", [None, QUANTILES])
def test_the_loss_of_a_window_is_the_mean_over_its_values(quantiles: tuple[float, ...] | None) -> None:
    generator = torch.Generator().manual_seed(0)
    future = torch.randn(5, 4, 2, generator=generator)
    future[1, 2, 0] = future[3] = torch.nan
    shape = future.shape if quantiles is None else (*future.shape, len(quantiles))
    forecast = torch.randn(shape, generator=generator)
    found = window_losses(
        forecast, batch_of(future), Scaler(torch.zeros(1, 2), torch.ones(1, 2)), quantiles
    ).numpy()
    for window in range(5):
        total = absolute = 0.0
        for place in np.ndindex(4, 2):
            truth, predicted = future[window][place].item(), forecast[window][place].numpy()
            if np.isnan(truth):
                continue
            if quantiles is None:
                total += (truth - predicted) ** 2
            else:
                pairs = zip(quantiles, predicted, strict=True)
                total += sum((p - (truth < q)) * (truth - q) for p, q in pairs) / len(quantiles)
                absolute += abs(truth - predicted[1])
        assert found[window, -1] == pytest.approx(total / 8, rel=1e-5)
        if quantiles is not None:
            assert found[window, 0] == pytest.approx(absolute / 8, rel=1e-5)
