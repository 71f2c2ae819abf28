"""The numbers of pictures of forecasts. Imports no Matplotlib."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from forecast.data.panel import Panel
from forecast.data.time_features import choose_evenly_spaced

MAX_PLOTTED_SERIES, MAX_PLOTTED_VARIABLES = 4, 8


class Plot(NamedTuple):
    """A variable of a series, by their numbers, and its label in a picture."""

    series: int
    variable: int
    label: str


def choose_plots(panel: Panel, series: Int64[np.ndarray, " series"], columns: list[str]) -> list[Plot]:
    """Choose some variables of a table, or the first variable of some of these series, evenly spaced.

    A few pictures show either the variables or the series.
    """
    if not panel.has_ids:
        chosen = choose_evenly_spaced(len(columns), MAX_PLOTTED_VARIABLES)
        return [Plot(0, int(v), columns[v]) for v in chosen]
    name = f"{panel.ids.name} " if panel.ids.name else ""
    chosen = series[choose_evenly_spaced(len(series), MAX_PLOTTED_SERIES)]
    return [Plot(int(s), 0, f"{name}{panel.ids[s]}: {columns[0]}") for s in chosen]


def describe_plots(panel: Panel, n_series: int, n_columns: int) -> str:
    """Describe the series and variables that `choose_plots` leaves out; empty if it leaves out none."""
    of_series = n_series if panel.has_ids else 0
    parts = [f"{MAX_PLOTTED_SERIES} of {of_series:,} series"] if of_series > MAX_PLOTTED_SERIES else []
    shown = 1 if of_series else min(n_columns, MAX_PLOTTED_VARIABLES)
    if shown < n_columns:
        parts.append(f"{shown} of {n_columns:,} variables")
    return ", ".join(parts)


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
