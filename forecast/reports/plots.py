"""The colours and the numbers of pictures. Imports no Matplotlib."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from forecast.data.panel import Panel
from forecast.data.time_features import choose_evenly_spaced, describe_frequency

ATTENTION_TYPES = (
    "full", "probsparse", "linear", "nystrom", "fastformer", "gated_delta", "sliding_window", "uniform", "none",
)  # fmt: skip
COLOURS = (
    "#0b6e99", "#c2410c", "#15803d", "#7c3aed", "#be185d", "#0f766e", "#78350f", "#8a6a00", "#475569", "#1d4ed8",
    "#9f1239",
)  # fmt: skip
"""Colours of the attention types, in this order, in every figure and page; the last ones are those of other types."""

MAX_PLOTTED_SERIES, MAX_PLOTTED_VARIABLES = 4, 8


def colour_number(attention: str, others: Sequence[str] = ()) -> int:
    """Return the index of an attention type's colour in `COLOURS`.

    `others` are the names in the same figure: types of a user's own module take the last colours in this order.
    """
    if attention in ATTENTION_TYPES:
        return ATTENTION_TYPES.index(attention)
    own = [name for name in dict.fromkeys(others or [attention]) if name not in ATTENTION_TYPES]
    return len(ATTENTION_TYPES) + own.index(attention) % (len(COLOURS) - len(ATTENTION_TYPES))


def attention_colour(attention: str, others: Sequence[str] = ()) -> str:
    return COLOURS[colour_number(attention, others)]


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


def name_step_ahead(panel: Panel) -> str:
    """The time of a step in words, such as `hour` or `15 minutes`; `step` where it has no name or differs."""
    step = describe_frequency(panel.freq)
    return "step" if panel.calendar is not None or step == panel.freq else step


def describe_span(dates: pd.DatetimeIndex) -> str:
    """The first and the last date in words: 24 Jan to 20 Feb 2022, or 5 May 2013 00:00 to 23:00."""
    ends: list[datetime] = sorted(dates.to_pydatetime().tolist())
    first, last = ends[0], ends[-1]
    is_one_day, has_times = first.date() == last.date(), bool((dates != dates.normalize()).any())
    begin, end = f"{first.day} {first:%b}", f"{last.day} {last:%b %Y}"
    begin += f" {first.year}" if is_one_day or first.year != last.year else ""
    if has_times:
        begin, end = f"{begin} {first:%H:%M}", f"{last:%H:%M}" if is_one_day else f"{end} {last:%H:%M}"
    return begin if begin == end else f"{begin} to {end}"


@dataclass(frozen=True)
class PlottedForecast:
    """One variable of one series, in original units: its history, forecast, bounds by level, and truth if known."""

    label: str
    history_dates: pd.DatetimeIndex
    history: Float64[np.ndarray, " rows"]
    dates: pd.DatetimeIndex
    values: Float64[np.ndarray, " horizon"]
    low: dict[int | float, Float64[np.ndarray, " horizon"]]
    high: dict[int | float, Float64[np.ndarray, " horizon"]]
    truth: Float64[np.ndarray, " horizon"]  # NaN where it is not known
    timezone: str | None = None  # of the dates; None if it is not known
