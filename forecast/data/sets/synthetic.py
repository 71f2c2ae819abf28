"""Components of the synthetic data sets: daily profiles, autocorrelated noise, delays."""

import numpy as np
import pandas as pd
from jaxtyping import Float

Series = Float[np.ndarray, " rows"]


def between(hour: Series, start: float, end: float) -> Series:
    """Return 1 between two hours of the day and 0 outside, with smooth edges."""
    return 1 / (1 + np.exp(-2 * (hour - start))) - 1 / (1 + np.exp(-2 * (hour - end)))


def around(hour: Series, peak: float | Series, width: float) -> Series:
    """Return a Gaussian bump at an hour of the day, periodic in 24 hours."""
    away = (hour - peak + 12) % 24 - 12
    return np.exp(-0.5 * (away / width) ** 2)


def persistent(random: np.random.Generator, rows: int, *, hours: int) -> Series:
    """Return AR(1) noise of unit standard deviation with a time constant of `hours`."""
    keep = np.exp(-1 / hours)
    shocks = random.standard_normal(rows)
    shocks[1:] *= np.sqrt((1 + keep) / (1 - keep))
    return lag(shocks, hours=hours)


def lag(series: Series, *, hours: int) -> Series:
    """Smooth a series exponentially with a time constant of `hours`, which delays it."""
    return pd.Series(series).ewm(alpha=1 - np.exp(-1 / hours), adjust=False).mean().to_numpy()
