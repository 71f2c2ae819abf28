"""A learnt embedding of the time features of a step."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from forecast.attention.dropout import Dropout, apply_after_dropped_gelu

HARMONICS = 4
HIDDEN = 64
JITTER = {"day of year": 0.06, "week of year": 0.06, "day of month": 0.07}
"""Standard deviation of the random shift, in training, of time features that identify single days."""
STD_FLOOR = 0.1
"""Added in quadrature to the standard deviation of a covariate over a window, in scaled values."""


class TimeEmbedding(nn.Module):
    """Embed time features f in [−½, ½]: f, sin(πkf), cos(πkf) for k ≤ 4, then a hidden layer and a linear one.

    The sines and cosines let a shallow network learn the profile of an hour or a weekday; the hidden layer combines
    hour, weekday and holiday. Covariates follow the calendar features and may have any size; they get no sines and
    cosines.

    In training, the features in `JITTER` are shifted by normal noise, equally in a window's past and horizon: with a
    few years of data they identify each day, and the network would memorise that day's errors.
    """

    is_calendar: Tensor

    def __init__(self, n_time_features: int, d_time: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(n_time_features * (1 + 2 * HARMONICS), HIDDEN)
        self.out = nn.Linear(HIDDEN, d_time)
        self.dropout = Dropout(dropout)
        self.jitter: dict[int, float] = {}
        self.register_buffer("is_calendar", torch.ones(n_time_features))

    def set_calendar_features(self, names: Sequence[str]) -> None:
        """Set the names of the calendar features, which come first; all later features are covariates."""
        self.is_calendar[len(names) :] = 0
        self.jitter = {names.index(name): width for name, width in JITTER.items() if name in names}

    def forward(
        self, time_features: Float[Tensor, "batch length n_time_features"]
    ) -> Float[Tensor, "batch length d_time"]:
        f = time_features
        if self.training and self.jitter:
            shift = torch.zeros(f.shape[0], 1, f.shape[2], device=f.device, dtype=f.dtype)
            for feature, width in self.jitter.items():
                shift[..., feature].normal_(std=width)
            f = f + shift
        return apply_after_dropped_gelu(self.out, self._embed_waves(f), self.dropout)

    def pool(
        self, time_features: Float[Tensor, "batch length n_time_features"], stride: int
    ) -> Float[Tensor, "batch groups n_time_features"]:
        """Pool groups of `stride` steps.

        A calendar feature is that of step `stride // 2` of the group, counted from 0. A covariate is the mean over the
        group.
        """
        groups = time_features.unflatten(1, (-1, stride))
        return torch.where(self.is_calendar > 0, groups[:, :, stride // 2], groups.mean(2))

    def _embed_waves(
        self, f: Float[Tensor, "batch length n_time_features"]
    ) -> Float[Tensor, "batch length hidden"]:
        """Compute hidden([f, sin(πkf), cos(πkf)]) for k ≤ 4, where covariates have no sines and cosines.

        Instead of the sines and cosines of covariates, their weights are set to zero, and the bias is the weight of a
        constant feature: no separate pass over (batch, length) is needed.
        """
        multiples = math.pi * torch.arange(1, HARMONICS + 1, device=f.device, dtype=f.dtype)
        angles = (f[..., None] * multiples).flatten(-2)
        inputs = torch.cat([f, angles.sin(), angles.cos(), f.new_ones(*f.shape[:-1], 1)], dim=-1)
        has_waves = self.is_calendar.repeat_interleave(HARMONICS)
        used = torch.cat([torch.ones_like(self.is_calendar), has_waves, has_waves])
        weight = torch.cat([self.hidden.weight * used, self.hidden.bias[:, None]], dim=1)
        return F.linear(inputs, weight)

    def relative_covariates(
        self,
        past_time: Float[Tensor, "batch seq_len n_time_features"],
        future_time: Float[Tensor, "batch pred_len n_time_features"],
    ) -> Float[Tensor, "batch steps n_time_features"]:
        """Covariates relative to their mean and standard deviation over the past; 0 for calendar features."""
        mean = past_time.mean(1, keepdim=True)
        std = (past_time.var(1, keepdim=True, unbiased=False) + STD_FLOOR**2).sqrt()
        relative = (torch.cat([past_time, future_time], dim=1) - mean) / std
        return relative * (1 - self.is_calendar)
