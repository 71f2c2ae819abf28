"""Probabilities of quantile forecasts and intervals, and the pinball loss."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.system.errors import ConfigError

Level = int | float  # nominal coverage of an interval, in percent
QUANTILE = "quantile"  # the loss
DECILES = tuple(n / 10 for n in range(1, 10))


def parse_levels(levels: Any) -> tuple[Level, ...]:
    """Sort interval levels, in percent, and remove duplicates. Raises ConfigError for an invalid level."""
    if isinstance(levels, str) or not isinstance(levels, Sequence):
        raise ConfigError(f"levels={levels}: write a list, such as levels=[80,95], or levels=[] for none")
    for level in levels:
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 100:
            raise ConfigError(f"levels={list(levels)}: {level} is not a percentage between 0 and 100")
    return tuple(sorted(set(levels)))


def bounds(level: Level) -> tuple[float, float]:
    """Probabilities of the lower and the upper bound of a central interval: 80 → 0.1 and 0.9."""
    return round(0.5 - level / 200, 6), round(0.5 + level / 200, 6)


def probabilities(levels: Sequence[Level], others: Sequence[float] = DECILES) -> tuple[float, ...]:
    """Sorted probabilities of the median, of the bounds of `levels`, and `others`."""
    return tuple(sorted({0.5, *others, *(p for level in parse_levels(levels) for p in bounds(level))}))


def trained_quantiles(loss: str, levels: Sequence[Level]) -> tuple[float, ...] | None:
    """Return the probabilities of loss=quantile: deciles and the bounds of the levels; None for other losses."""
    return probabilities(levels) if loss == QUANTILE else None


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
