"""Recursive multi-step forecasts: beyond pred_len, a forecaster reads its own forecasts."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.data import Batch

Step = Callable[[Batch], Tensor]
"""Function of a batch of windows. Returns scaled forecasts (batch, pred_len, n_targets), or quantiles of them."""


def round_up_horizon(horizon: int, pred_len: int) -> int:
    """Round the horizon up to a multiple of pred_len, the number of steps that whole passes forecast."""
    return -(-horizon // pred_len) * pred_len


@torch.inference_mode()
def forecast_recursively(
    step: Step, point: Callable[[Tensor], Tensor], batch: Batch, pred_len: int, target_index: list[int]
) -> tuple[Float[Tensor, "batch steps n_targets"], Float[Tensor, "batch pred_len n_targets ..."]]:
    """Scaled point forecasts of all steps of a batch, and what `step` returned for the first `pred_len` of them.

    Args:
        step: forecasts `pred_len` steps.
        point: takes the point forecasts from what `step` returns.
        batch: windows of a multiple of `pred_len` steps. If there are several passes, `step` reads no past of columns
            that it does not forecast: they are 0 in the later passes.
        pred_len: number of steps of a pass.
        target_index: numbers of the columns that are forecast.
    """
    seq_len, horizon = batch.past.shape[1], batch.future_time.shape[1]
    time = torch.cat([batch.past_time, batch.future_time], dim=1)
    past, parts, first = batch.past, [], None
    for done in range(0, horizon, pred_len):
        window = time[:, done : done + seq_len + pred_len]
        output = step(
            batch._replace(
                past=past,
                past_time=window[:, :seq_len],
                future=batch.future[:, done : done + pred_len],
                future_time=window[:, seq_len:],
            )
        )
        first = output if first is None else first
        parts.append(point(output))
        if done + pred_len < horizon:
            ahead = past.new_zeros(len(past), pred_len, past.shape[2])
            ahead[..., target_index] = parts[-1].to(ahead)
            past = torch.cat([past, ahead], dim=1)[:, -seq_len:]
    assert first is not None
    return torch.cat(parts, dim=1), first
