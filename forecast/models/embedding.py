"""Embeddings of steps and patches."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from forecast.attention.dropout import Dropout, apply_after_dropped_gelu
from forecast.models.linear_model import FutureTime, PastTime

HARMONICS = 4
HIDDEN = 64
JITTER = {"day of year": 0.06, "week of year": 0.06, "day of month": 0.07}
"""Standard deviation of the random shift, in training, of time features that identify single days."""
STD_FLOOR = 0.1  # added in quadrature to the standard deviation of a covariate over a window, in scaled values

TimeFeatures = Float[Tensor, "batch length n_time_features"]
ByChannel = Float[Tensor, "batch channels tokens d_model"]  # the tokens of channels, see `layers.ChannelLayout`
Steps = Float[Tensor, "batch channels length width"]


class CircularConv(nn.Module):
    """Circular convolution of width 3 along a sequence.

    Same function and weights as `nn.Conv1d(d_in, d_out, 3, padding=1, padding_mode="circular")`, but on
    `(batch, length, channels)` and as one matrix product, without a transpose. Cost: 3 · length · d_in · d_out.
    """

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        conv = nn.Conv1d(d_in, d_out, 3)
        assert conv.bias is not None
        self.weight = conv.weight  # (d_out, d_in, 3)
        self.bias = conv.bias

    def forward(self, x: Float[Tensor, "batch length d_in"]) -> Float[Tensor, "batch length d_out"]:
        if torch.is_autocast_enabled(x.device.type):  # cast once, before the copies
            x = x.to(torch.get_autocast_dtype(x.device.type))
        neighbours = torch.cat([x.roll(1, dims=1), x, x.roll(-1, dims=1)], dim=-1)  # (batch, length, 3·d_in)
        return F.linear(neighbours, self.weight.transpose(1, 2).flatten(1), self.bias)


def sinusoidal_positions(length: int, d_model: int, scale: float = 1.0) -> Float[Tensor, "length d_model"]:
    """Compute sin and cos of positions at wavelengths from 2π to 10000·2π (Vaswani et al. 2017, section 3.5).

    They are multiplied by `scale`.
    """
    table = torch.zeros(length, d_model)
    if table.is_meta:  # without values; arithmetic there imports PyTorch's compiler, which takes seconds
        return table
    position = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float32) * (-math.log(10_000.0) / d_model))
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate[: d_model // 2])
    return scale * table


class Embedding(nn.Module):
    """Sum of value embedding (circular convolution), sinusoidal positions and time embedding (linear), then dropout.

    Raises RuntimeError: in `forward`, for a sequence longer than `max_length`.
    """

    positions: Tensor

    def __init__(self, n_features: int, n_time_features: int, d_model: int, *, max_length: int, dropout: float) -> None:
        super().__init__()
        self.values = CircularConv(n_features, d_model)
        nn.init.kaiming_normal_(self.values.weight, nonlinearity="leaky_relu")
        self.time = nn.Linear(n_time_features, d_model, bias=False)
        self.dropout = Dropout(dropout)
        self.register_buffer("positions", sinusoidal_positions(max_length, d_model), persistent=False)

    def forward(
        self,
        values: Float[Tensor, "batch length n_features"],
        time_features: TimeFeatures,
    ) -> Float[Tensor, "batch length d_model"]:
        x = self.values(values) + self.time(time_features) + self.positions[: values.shape[1]]
        return self.dropout(x)


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

    def forward(self, time_features: TimeFeatures) -> Float[Tensor, "batch length d_time"]:
        f = time_features
        if self.training and self.jitter:
            shift = torch.zeros(f.shape[0], 1, f.shape[2], device=f.device, dtype=f.dtype)
            for feature, width in self.jitter.items():
                shift[..., feature].normal_(std=width)
            f = f + shift
        return apply_after_dropped_gelu(self.out, self._embed_waves(f), self.dropout)

    def pool(self, time_features: TimeFeatures, stride: int) -> Float[Tensor, "batch groups n_time_features"]:
        """Pool groups of `stride` steps.

        A calendar feature is that of step `stride // 2` of the group, counted from 0. A covariate is the mean over the
        group.
        """
        groups = time_features.unflatten(1, (-1, stride))
        return torch.where(self.is_calendar > 0, groups[:, :, stride // 2], groups.mean(2))

    def _embed_waves(self, f: TimeFeatures) -> Float[Tensor, "batch length hidden"]:
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
        self, past_time: PastTime, future_time: FutureTime
    ) -> Float[Tensor, "batch steps n_time_features"]:
        """Covariates relative to their mean and standard deviation over the past; 0 for calendar features."""
        mean = past_time.mean(1, keepdim=True)
        std = (past_time.var(1, keepdim=True, unbiased=False) + STD_FLOOR**2).sqrt()
        relative = (torch.cat([past_time, future_time], dim=1) - mean) / std
        return relative * (1 - self.is_calendar)


def pad_to_patches(steps: Steps, patch_len: int) -> Float[Tensor, "batch channels padded width"]:
    """Pad steps with zeros at the end to whole patches; return `steps` itself if nothing is missing."""
    missing = -steps.shape[2] % patch_len
    return F.pad(steps, (0, 0, 0, missing)) if missing else steps


def largest_divisor(number: int, limit: int) -> int:
    """Return the largest divisor of a number that is at most `limit`."""
    return max(divisor for divisor in range(1, min(number, limit) + 1) if number % divisor == 0)


def patch_centres(
    seq_len: int, pred_len: int, patch_len: int
) -> tuple[Int[np.ndarray, " past_tokens"], Int[np.ndarray, " future_tokens"]]:
    """Compute the steps that the tokens of the past and of the horizon stand for.

    A token's step is the middle of its patch, or the last step of the horizon. The patches of the past end at its last
    step, those of the horizon begin at its first.
    """
    half = patch_len // 2
    past = seq_len - patch_len * np.arange(seq_len // patch_len, 0, -1) + half
    future = seq_len + np.arange(0, pred_len, patch_len) + half
    return past, np.minimum(future, seq_len + pred_len - 1)


class PatchEmbedding(nn.Module):
    """Embed every `patch_len` steps, values and time embeddings, as one token.

    token = A [values of the patch] + b + C [time embeddings of the patch]; cost length · d_model for each variable.
    Steps that share a time embedding are embedded as if each of them had it.
    """

    def __init__(self, n_features: int, d_time: int, d_model: int, *, patch_len: int) -> None:
        super().__init__()
        self.patch_len = patch_len
        self.values = nn.Linear(patch_len * n_features, d_model)
        self.time = nn.Linear(patch_len * d_time, d_model, bias=False)

    def forward(
        self, values: Float[Tensor, "batch channels length n_features"], time: Float[Tensor, "batch 1 groups d_time"]
    ) -> ByChannel:
        """Embed a `length` that is a multiple of `patch_len`. The groups of steps of a token have equal lengths."""
        tokens = values.shape[2] // self.patch_len
        by_step = self.time.weight.unflatten(1, (self.patch_len, -1))
        # (d_model, groups of a token, d_time)
        weight = by_step.unflatten(1, (time.shape[2] // tokens, -1)).sum(2)
        return self.values(_join(values, tokens)) + F.linear(_join(time, tokens), weight.flatten(1))


def _join(steps: Steps, tokens: int) -> Float[Tensor, "batch channels tokens joined"]:
    """Concatenate the values of the steps of each token."""
    return steps.unflatten(2, (tokens, -1)).flatten(3)


class StepHead(nn.Module):
    """Turn a patch's token and the time embedding of each of its steps into the values of the steps.

    y(step) = W gelu(A(step's place in the patch) token + B time(step)) + c

    A patch may begin at any hour; the effect of an hour, a weekday or a holiday is shared by all places in a patch. W
    and c are zero at the start, so that an untrained head adds nothing.
    """

    def __init__(self, d_model: int, d_time: int, n_outputs: int, *, patch_len: int, hidden: int = 32) -> None:
        super().__init__()
        self.patch_len = patch_len
        self.token = nn.Linear(d_model, patch_len * hidden)
        self.time = nn.Linear(d_time, hidden, bias=False)
        self.out = nn.Linear(hidden, n_outputs)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(
        self, tokens: ByChannel, time: Float[Tensor, "batch 1 length d_time"]
    ) -> Float[Tensor, "batch channels length n_outputs"]:
        steps = self.token(tokens).unflatten(3, (self.patch_len, -1)).flatten(2, 3)
        return self.out(F.gelu(steps + self.time(time)))
