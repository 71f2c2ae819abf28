"""The linear model whose forecast a ResidualInformer corrects."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class LinearModel(nn.Module):
    """ŷ = m + (x − m) W, where m is the mean of the window and W is the same for every variable.

    W is a buffer that training does not change: zero until it is set to a weight fitted in closed form. Cost:
    seq_len · pred_len for each variable.
    """

    weight: Tensor

    def __init__(self, seq_len: int, pred_len: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(seq_len, pred_len))

    def forward(
        self, centred: Float[Tensor, "batch seq_len n_features"]
    ) -> Float[Tensor, "batch pred_len n_features"]:
        """Forecast windows relative to their mean: input and output lack m."""
        # W was fitted in float64, and bfloat16 would lose most of its digits
        with torch.autocast(centred.device.type, enabled=False):
            return (centred.mT @ self.weight).mT
