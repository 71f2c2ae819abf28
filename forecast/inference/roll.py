"""Rolled forecasts: beyond pred_len, the model reads its own forecasts."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.inference.model import TrainedModel


def passes_over(horizon: int, pred_len: int) -> int:
    """Number of steps that the passes of the network forecast: the horizon, rounded up to a multiple of pred_len."""
    return -(-horizon // pred_len) * pred_len


@torch.inference_mode()
def roll(
    model: TrainedModel,
    past: Float[Tensor, "batch seq_len n_features"],
    time: Float[Tensor, "batch steps n_time_features"],
    horizon: int,
    clip: Callable[[Tensor], Tensor],
) -> tuple[Float[Tensor, "batch {horizon} n_targets"], Float[Tensor, "batch pred_len n_targets ..."]]:
    """Scaled point forecasts of `horizon` steps, and the output of the first pass: quantiles, if the network has them.

    Args:
        model: the trained model.
        past: scaled rows before the forecast.
        time: time features of the past and of `passes_over(horizon, pred_len)` steps after it.
        horizon: number of steps.
        clip: puts scaled point forecasts within their bounds; see `Scaler.clip`.
    """
    parts, first = [], None
    for done in range(0, horizon, model.pred_len):
        window = time[:, done : done + model.seq_len + model.pred_len]
        output = model.forecast(past, window[:, : model.seq_len], window[:, model.seq_len :])
        first = output if first is None else first
        parts.append(clip(model.point(output)))
        if done + model.pred_len < horizon:  # the model forecasts every column that it reads
            past = torch.cat([past, parts[-1]], dim=1)[:, -model.seq_len :]
    assert first is not None
    return torch.cat(parts, dim=1)[:, :horizon], first
