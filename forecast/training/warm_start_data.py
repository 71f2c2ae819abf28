"""Data of a warm start: the linear model, and the quantiles of its errors on training windows."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data import DataModule
from forecast.data.even_spacing import choose_evenly_spaced
from forecast.data.time_features import time_feature_names
from forecast.evaluation.baselines import FittedBaselines
from forecast.models.base import LinearForecast, WarmStart
from forecast.models.linear_model import LinearWeights

MAX_ERRORS = 1 << 22
"""Largest number of errors from which quantiles are computed; their training windows are evenly spaced."""

BATCH = 256


class WarmStartData(WarmStart):
    """Implementation of `forecast.models.base.WarmStart` on a data module.

    Args:
        data: the model is fitted on its training windows.
        chosen_on: the hyperparameters of the linear model are chosen on its validation windows.
        quantiles: probabilities of the model's quantiles; None: it makes point forecasts.
        fitted: baselines fitted to the training windows of `chosen_on`.
    """

    def __init__(
        self,
        data: DataModule,
        chosen_on: DataModule,
        quantiles: Sequence[float] | None,
        fitted: FittedBaselines,
    ) -> None:
        self.data, self.chosen_on, self.quantiles, self.fitted = data, chosen_on, quantiles, fitted

    @property
    def target_index(self) -> Sequence[int]:
        return self.data.target_index

    @property
    def time_feature_names(self) -> Sequence[str]:
        return time_feature_names(self.data.freq, self.data.options.holidays)

    def own_past_weight(self) -> Float[Tensor, "seq_len pred_len"]:
        return self.fitted.fit_linear(self.data, self.chosen_on, covariates=False).past_weight

    def linear_weights(self) -> LinearWeights:
        return self.fitted.fit_linear(self.data, self.chosen_on)

    @torch.no_grad()
    def error_quantiles(self, forecast: LinearForecast) -> Float64[Tensor, "n_targets n_quantiles"]:
        """Compute the quantiles. Without them, the first epochs would only learn the width of the intervals.

        Raises:
            ValueError: the model makes point forecasts.
        """
        if self.quantiles is None:
            raise ValueError(
                "a model of point forecasts has no quantiles to start from; train with loss=quantile"
            )
        windows = self.data.windows["train"]
        count = max(1, MAX_ERRORS // (windows.pred_len * len(windows.target_index)))
        index = torch.from_numpy(choose_evenly_spaced(len(windows), count)).to(windows.device)
        errors = []
        for numbers in index.split(BATCH):
            batch = windows.gather(numbers)
            future, columns = batch.future.cpu(), windows.target_index
            point, scale = forecast(batch.past.cpu(), batch.past_time.cpu(), batch.future_time.cpu())
            errors.append(((future - point[..., columns]) / scale[..., columns]).flatten(0, 1))
        quantiles = np.nanquantile(torch.cat(errors).double().numpy(), self.quantiles, axis=0)
        return torch.from_numpy(quantiles).T
