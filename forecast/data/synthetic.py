"""What the generated sets are made of: hours of the day, noise that lasts, delays."""

import numpy as np
import pandas as pd
from jaxtyping import Float

Series = Float[np.ndarray, " rows"]


def between(hour: Series, start: float, end: float) -> Series:
    """1 between two hours of the day, 0 outside, with soft edges."""
    return 1 / (1 + np.exp(-2 * (hour - start))) - 1 / (1 + np.exp(-2 * (hour - end)))


def around(hour: Series, peak: float | Series, width: float) -> Series:
    """1 at an hour of the day, falling to 0 on both sides, around the clock."""
    away = (hour - peak + 12) % 24 - 12
    return np.exp(-0.5 * (away / width) ** 2)


def persistent(random: np.random.Generator, rows: int, *, hours: int) -> Series:
    """Noise of unit deviation whose memory fades within `hours`."""
    keep = np.exp(-1 / hours)
    shocks = random.standard_normal(rows)
    shocks[1:] *= np.sqrt((1 + keep) / (1 - keep))
    return lag(shocks, hours=hours)


def lag(series: Series, *, hours: int) -> Series:
    """What follows `series` with a delay of `hours`, as a temperature follows its cause."""
    return pd.Series(series).ewm(alpha=1 - np.exp(-1 / hours), adjust=False).mean().to_numpy()
