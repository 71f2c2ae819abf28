"""Quantile forecasts: functions of quantiles, the pinball loss and the CRPS."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.evaluation.levels import DECILES


def map_quantiles(
    function: Callable[[Float[Tensor, "batch rows n_targets"]], Tensor],
    quantiles: Float[Tensor, "batch steps n_targets quantiles"],
) -> Float[Tensor, "batch steps n_targets quantiles"]:
    """Apply an increasing function of windows to each quantile."""
    count, steps = quantiles.shape[3], quantiles.shape[1]
    rows = quantiles.permute(0, 3, 1, 2).flatten(1, 2)  # (batch, quantiles · steps, n_targets)
    return function(rows).unflatten(1, (count, steps)).permute(0, 2, 3, 1)


def pinball(
    quantiles: Float[Tensor, "*shape quantiles"], target: Float[Tensor, "*shape"], at: Sequence[float]
) -> Float[Tensor, "*shape quantiles"]:
    """Pinball loss max(τ·e, (τ − 1)·e), e = target − quantile; a quantile minimises it (Koenker and Bassett 1978)."""
    tau = torch.tensor(at, dtype=target.dtype, device=target.device)
    error = target[..., None] - quantiles
    return torch.maximum(tau * error, (tau - 1) * error)


def crps(losses: Float[Tensor, "*shape quantiles"], at: Sequence[float]) -> Float64[Tensor, "*shape"]:
    """Approximate the CRPS (see `crps_weights`) from the pinball losses of the deciles among quantiles."""
    of_deciles = losses[..., [at.index(p) for p in DECILES]]
    return (of_deciles * crps_weights(DECILES).to(losses)).sum(-1, dtype=torch.float64)


def crps_weights(at: Sequence[float]) -> Float[Tensor, " quantiles"]:
    """Weights w of CRPS = 2∫ pinball dτ ≈ Σ w_τ · pinball_τ: twice the part of (0, 1) nearest to each probability."""
    edges = [0.0, *((low + high) / 2 for low, high in pairwise(at)), 1.0]
    return 2 * torch.tensor(edges, dtype=torch.float64).diff()
