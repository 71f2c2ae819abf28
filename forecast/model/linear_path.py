"""The part of a forecast that one linear map gives."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class LinearPath(nn.Module):
    """ŷ = m + (x − m) W, m the window's mean: the same map for every variable, fitted before training and then fixed.

    The weight is a buffer, zero until it is set to the map that `forecast.start_map` fits.
    """

    weight: Tensor

    def __init__(self, seq_len: int, pred_len: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(seq_len, pred_len))

    def forward(
        self, centred: Float[Tensor, "batch seq_len n_features"]
    ) -> Float[Tensor, "batch pred_len n_features"]:
        """`centred` and the answer are relative to the window's mean."""
        with torch.autocast(centred.device.type, enabled=False):  # fitted in float64: bfloat16 would lose it
            return (centred.mT @ self.weight).mT
