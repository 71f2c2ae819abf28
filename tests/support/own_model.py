"""Models as users write them in their own modules, named by `model._target_`."""

from typing import Any

import torch
from torch import Tensor, nn

from forecast.models import ForecastModel
from forecast.models.base import WarmStart


class OneLayer(ForecastModel):
    """A linear layer from the past of the targets to the horizon, and nothing else."""

    def __init__(
        self, *, n_features: int, n_targets: int, n_quantiles: int, seq_len: int, pred_len: int, **unused: Any
    ) -> None:
        super().__init__()
        self.n_targets, self.n_quantiles, self.pred_len = n_targets, n_quantiles, pred_len
        self.layer = nn.Linear(n_features * seq_len, pred_len * n_targets * n_quantiles)

    def forward(self, past: Tensor, past_time: Tensor, future_time: Tensor) -> Tensor:
        return self.layer(past.flatten(1)).unflatten(1, (self.pred_len, -1))


class ShrunkLinear(ForecastModel):
    """A linear model fitted in closed form plus a shrunk correction. It overrides all hooks but attention_layers."""

    target_index: Tensor
    weight: Tensor

    def __init__(self, *, n_targets: int, n_quantiles: int, seq_len: int, pred_len: int, **unused: Any) -> None:
        super().__init__()
        self.n_quantiles = n_quantiles
        self.register_buffer("target_index", torch.zeros(n_targets, dtype=torch.int64))
        self.register_buffer("weight", torch.zeros(seq_len, pred_len))
        self.register_buffer("shrinkage", torch.ones(()))
        self.correction = nn.Linear(seq_len, pred_len * n_quantiles)
        nn.init.zeros_(self.correction.weight)
        nn.init.zeros_(self.correction.bias)

    @property
    def warm_start_name(self) -> str | None:
        return "line of least squares"

    def warm_start(self, start: WarmStart) -> None:
        self.target_index.copy_(torch.tensor(start.target_index))
        assert start.linear is not None
        self.weight.copy_(start.linear.past_weight)

    def keep_median(self) -> None:
        self.n_quantiles = 1

    def forward(self, past: Tensor, past_time: Tensor, future_time: Tensor) -> Tensor:
        assert self.shrinkage is not None
        past = past[..., self.target_index].mT  # (batch, n_targets, seq_len)
        mean = past.mean(2, keepdim=True)
        added = self.shrinkage * self.correction(past - mean)
        middle = added.shape[2] // len(self.weight[0]) // 2
        added = added.unflatten(2, (len(self.weight[0]), -1))  # (batch, n_targets, pred_len, outputs)
        linear = mean + (past - mean) @ self.weight
        median = linear + added[..., middle]
        if self.n_quantiles == 1:
            return median.mT
        outputs = [median if i == middle else added[..., i] for i in range(self.n_quantiles)]
        return torch.stack(outputs, dim=3).transpose(1, 2).flatten(2)


class NotAModel(nn.Linear):
    """A class that is no subclass of ForecastModel."""
