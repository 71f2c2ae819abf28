"""Levels of intervals, in percent, and the probabilities of their bounds. Imports no torch."""

import math
from collections.abc import Sequence
from typing import Any

from forecast.system.errors import ConfigError

Level = int | float  # nominal coverage of an interval, in percent
QUANTILE_LOSS = "quantile"
CONFORMAL, QUANTILE, ADAPTIVE = INTERVAL_METHODS = ("conformal", "quantile", "adaptive")
"""Where the bounds of intervals come from: errors on validation windows, quantiles that the network forecasts, or
conformal bounds that follow the errors on rows after training."""
DECILES = tuple(n / 10 for n in range(1, 10))
MIN_WINDOWS = 3
"""Fewest validation windows on which an interval is calibrated."""


def parse_levels(levels: Any) -> tuple[Level, ...]:
    """Sort interval levels, in percent, and remove duplicates. Raises ConfigError for an invalid level."""
    if isinstance(levels, str) or not isinstance(levels, Sequence):
        raise ConfigError(f"levels={levels}: write a list, such as levels=[80,95], or levels=[] for none")
    for level in levels:
        if isinstance(level, bool) or not isinstance(level, int | float) or not 1 <= level < 100:
            raise ConfigError(
                f"levels={list(levels)}: {level} is not a percentage from 1 to below 100, such as 90"
            )
    return tuple(sorted(set(levels)))


def bounds(level: Level) -> tuple[float, float]:
    """Probabilities of the lower and the upper bound of a central interval: 80 → 0.1 and 0.9."""
    return round(0.5 - level / 200, 6), round(0.5 + level / 200, 6)


def probabilities(levels: Sequence[Level], others: Sequence[float] = DECILES) -> tuple[float, ...]:
    """Sorted probabilities of the median, of the bounds of `levels`, and `others`."""
    return tuple(sorted({0.5, *others, *(p for level in parse_levels(levels) for p in bounds(level))}))


def trained_quantiles(loss: str, levels: Sequence[Level]) -> tuple[float, ...] | None:
    """Return the probabilities of loss=quantile: deciles and the bounds of the levels; None for other losses."""
    return probabilities(levels) if loss == QUANTILE_LOSS else None


def trained_levels(quantiles: Sequence[float], levels: Sequence[Level]) -> tuple[Level, ...]:
    """Return the levels whose bounds are among trained quantiles."""
    return tuple(level for level in levels if set(bounds(level)) <= set(quantiles))


def list_untrained(quantiles: Sequence[float], levels: Sequence[Level]) -> list[str]:
    """List the levels whose bounds are not among trained quantiles, as text."""
    trained = trained_levels(quantiles, levels)
    return [f"{level:g}" for level in levels if level not in trained]


def windows_needed(level: Level, pooled_steps: int) -> int:
    """The fewest windows on which the bounds of an interval of this level, in percent, can be calibrated.

    The tails of the errors of `pooled_steps` steps must hold one error each.
    """
    n_errors = math.ceil(round(200 / (100 - level), 6)) - 1
    return max(MIN_WINDOWS, -(-n_errors // pooled_steps))
