"""The Informer's input embedding: values, positions and time features (Zhou et al. 2021, appendix B)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from forecast.attention.dropout import Dropout


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
    if (
        table.is_meta
    ):  # it has no values, and arithmetic there imports PyTorch's compiler, which takes seconds
        return table
    position = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float32) * (-math.log(10_000.0) / d_model))
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate[: d_model // 2])
    return scale * table


class Embedding(nn.Module):
    """Sum of value embedding (circular convolution), sinusoidal positions and time embedding (linear), then dropout.

    Raises:
        RuntimeError: in `forward`, for a sequence longer than `max_length`.
    """

    positions: Tensor

    def __init__(
        self, n_features: int, n_time_features: int, d_model: int, *, max_length: int, dropout: float
    ) -> None:
        super().__init__()
        self.values = CircularConv(n_features, d_model)
        nn.init.kaiming_normal_(self.values.weight, nonlinearity="leaky_relu")
        self.time = nn.Linear(n_time_features, d_model, bias=False)
        self.dropout = Dropout(dropout)
        self.register_buffer("positions", sinusoidal_positions(max_length, d_model), persistent=False)

    def forward(
        self,
        values: Float[Tensor, "batch length n_features"],
        time_features: Float[Tensor, "batch length n_time_features"],
    ) -> Float[Tensor, "batch length d_model"]:
        x = self.values(values) + self.time(time_features) + self.positions[: values.shape[1]]
        return self.dropout(x)
