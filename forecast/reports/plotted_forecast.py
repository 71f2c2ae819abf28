"""The numbers of pictures of forecasts. Imports no Matplotlib."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float64


@dataclass(frozen=True)
class PlottedForecast:
    """One variable of one series, in original units: its history, forecast, bounds, and truth if known."""

    label: str
    history_dates: pd.DatetimeIndex
    history: Float64[np.ndarray, " rows"]
    dates: pd.DatetimeIndex
    values: Float64[np.ndarray, " horizon"]
    low: dict[int | float, Float64[np.ndarray, " horizon"]]
    high: dict[int | float, Float64[np.ndarray, " horizon"]]
    truth: Float64[np.ndarray, " horizon"]  # NaN where it is not known


@dataclass(frozen=True)
class Band:
    """The bounds (windows, pred_len, variables) of intervals of one level, in percent, in original units."""

    level: int | float
    low: np.ndarray
    high: np.ndarray
