"""Quantile forecasts: which probabilities, in order, and the loss that trains them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.system.errors import ConfigError

Level = int | float  # of an interval, in percent
DECILES = tuple(n / 10 for n in range(1, 10))


def check_levels(levels: Any) -> tuple[Level, ...]:
    """A list of interval levels in percent, increasing, each once. Raises ConfigError for what is none."""
    if isinstance(levels, str) or not isinstance(levels, Sequence):
        raise ConfigError(f"levels={levels}: write a list, such as levels=[80,95], or levels=[] for none")
    for level in levels:
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 100:
            raise ConfigError(f"levels={list(levels)}: {level} is not a percentage between 0 and 100")
    return tuple(sorted(set(levels)))


def bounds(level: Level) -> tuple[float, float]:
    """The two probabilities between which a central interval of this level lies: 80 → 0.1 and 0.9."""
    return round(0.5 - level / 200, 6), round(0.5 + level / 200, 6)


def probabilities(levels: Sequence[Level], among: Sequence[float] = DECILES) -> tuple[float, ...]:
    """Increasing, symmetric about the median: `among` and the bounds of the levels."""
    return tuple(sorted({0.5, *among, *(p for level in check_levels(levels) for p in bounds(level))}))


def pinball(
    quantiles: Float[Tensor, "*shape quantiles"], target: Float[Tensor, "*shape"], at: Sequence[float]
) -> Float[Tensor, "*shape quantiles"]:
    """The loss whose minimum is the quantile (Koenker and Bassett 1978): max(τ·e, (τ − 1)·e), e = target − quantile."""
    tau = torch.tensor(at, dtype=target.dtype, device=target.device)
    error = target[..., None] - quantiles
    return torch.maximum(tau * error, (tau - 1) * error)


def crps_weights(at: Sequence[float]) -> Float[Tensor, " quantiles"]:
    """Weights w with CRPS ≈ Σ w_τ · pinball_τ: twice each probability's share of (0, 1), as CRPS = 2∫ pinball dτ."""
    edges = [0.0, *((low + high) / 2 for low, high in pairwise(at)), 1.0]
    return 2 * torch.tensor(edges, dtype=torch.float64).diff()
