"""Forecasts beyond pred_len: the model reads its own forecasts."""

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.inference.model import TrainedModel


def passes_over(horizon: int, pred_len: int) -> int:
    """Steps that whole passes of the network over the horizon reach."""
    return -(-horizon // pred_len) * pred_len


@torch.inference_mode()
def roll(
    model: TrainedModel,
    past: Float[Tensor, "batch seq_len n_features"],
    time: Float[Tensor, "batch steps n_time_features"],
    horizon: int,
) -> tuple[Float[Tensor, "batch {horizon} n_targets"], Float[Tensor, "batch pred_len n_targets ..."]]:
    """Scaled point forecasts of `horizon` steps, and the first output of the network: quantiles, if it has them.

    `time` holds the time features of the past and of every step that whole passes reach. After the first pred_len
    steps, forecasts take the place of the rows that are not known.
    """
    parts, first = [], None
    for done in range(0, horizon, model.pred_len):
        window = time[:, done : done + model.seq_len + model.pred_len]
        output = model.forecast(past, window[:, : model.seq_len], window[:, model.seq_len :])
        first = output if first is None else first
        parts.append(model.point(output))
        if done + model.pred_len < horizon:  # the columns forecast are the columns read
            past = torch.cat([past, parts[-1]], dim=1)[:, -model.seq_len :]
    assert first is not None
    return torch.cat(parts, dim=1)[:, :horizon], first
