"""Origins of forecasts, and the rows of the panel that the forecasts need."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Int64

from forecast.data import Panel, Windows
from forecast.data.future_covariates import carry_into
from forecast.data.options import ScalingOptions
from forecast.data.panel_labels import describe_longest
from forecast.data.row_ranges import RowRanges, ranges
from forecast.data.scaled_panel import ScaledPanel
from forecast.data.scaling.scales import Scales
from forecast.data.utc_offset import check_year
from forecast.inference.forecast import Values
from forecast.inference.model import TrainedModel
from forecast.inference.store_future import take_future_from
from forecast.system.errors import ConfigError, DataError


class SeriesOrigins(NamedTuple):
    """The forecast origins of some series of a panel, one for each.

    Attributes:
        series: numbers of the series.
        rows: the first row to forecast of each of them.
    """

    series: Int64[np.ndarray, " chosen"]
    rows: Int64[np.ndarray, " chosen"]


def choose_origins(model: TrainedModel, panel: Panel, start: str | pd.Timestamp | None) -> SeriesOrigins:
    """Choose the series that can be forecast, and their origins.

    Raises:
        DataError: no series has enough history.
        ConfigError: no series can be forecast from `start`.
    """
    if panel.lengths.max() < model.seq_len:
        raise DataError(
            f"this model reads {model.seq_len:,} rows (seq_len) before a forecast, and {describe_longest(panel)}: "
            "give more history"
        )
    origins = panel.ends
    if start is not None:
        origins = panel.starts + find_date(panel, "start", start) - panel.grid_starts
    possible = (origins - panel.starts >= model.seq_len) & (origins <= panel.ends)
    if not possible.any():
        places = [panel.grid_starts.min() + model.seq_len, (panel.grid_starts + panel.lengths).max()]
        begin, end = panel.utc_offset.zoned(panel.with_dates_after_ends(1).grid[places])
        span = f"from {begin} to {end}"
        raise ConfigError(
            f"start={start} is not a date of the data, or has too little history: with seq_len={model.seq_len} a "
            f"forecast may begin {span}, {panel.describe_step()}"
        )
    if not possible.all():
        warnings.warn(
            f"{int((~possible).sum()):,} of {len(panel):,} series left out: fewer than seq_len={model.seq_len} rows "
            "before the forecast, or no row right before it",
            stacklevel=2,
        )
    chosen = np.flatnonzero(possible)
    return SeriesOrigins(chosen, origins[chosen])


def find_date(panel: Panel, key: str, text: str | pd.Timestamp) -> int:
    """Return the position of a user's date in the grid, or right after its end.

    A date that is not there gets a position before every row.
    """
    date = read_date(key, text)
    check_year(f"{key}={text}", date)
    try:
        wanted = pd.DatetimeIndex([panel.utc_offset.read(date)])  # type: ignore[arg-type]
    except ValueError as error:
        raise ConfigError(f"{key}={text}: leave the UTC offset out: {error}") from None
    place = panel.with_dates_after_ends(1).grid.get_indexer(wanted)[0]
    return int(place) if place >= 0 else -len(panel.grid) - panel.n_rows


def read_date(key: str, text: str | pd.Timestamp) -> pd.Timestamp:
    """Read a user's date. Raises ConfigError for a text that is no date, or in which day and month could be swapped."""
    write = "write it as 2018-01-31 or 2018-01-31T06:00"
    iso = pd.to_datetime(text, format="ISO8601", errors="coerce")
    if not pd.isna(iso):
        return iso
    try:
        with warnings.catch_warnings(
            action="ignore", category=UserWarning
        ):  # where only one order can be meant
            dates = [pd.to_datetime(text, dayfirst=dayfirst) for dayfirst in (False, True)]
    except ValueError:
        raise ConfigError(f"{key}={text} is not a date: {write}") from None
    if dates[0] != dates[1]:
        raise ConfigError(f"{key}={text}: day or month first? {write}")
    return dates[0]


def take_excerpt(
    model: TrainedModel,
    panel: Panel,
    origins: SeriesOrigins,
    *,
    history: int,
    n_steps: int,
    ahead: Panel | None = None,
) -> tuple[Panel, Int64[np.ndarray, " chosen"]]:
    """Copy the rows that the forecasts need into a panel in memory; return it with the first row to forecast of each.

    Series of the training data need only the rows around the forecast. New series need all rows before it, for their
    scale.

    Args:
        history: rows before each origin that the forecasts need.
        n_steps: rows from the origin on that the forecasts need.
        ahead: values of future covariates after the end of the only series, see `forecast.inference.store_future`.
    """
    chosen, rows = origins
    has_scale = np.array(model.data_state["ids"])[np.array(model.data_state["has_scale"])]
    is_known = panel.ids[chosen].isin(has_scale) | (model.config["data"].get("scale_by") == "all")
    first = np.where(is_known, np.maximum(panel.starts[chosen], rows - history), panel.starts[chosen])
    stops = np.minimum(panel.stops[chosen], rows + n_steps)
    ends = np.minimum(panel.ends[chosen], stops)
    excerpt = carry_into(panel.take_rows(chosen, first, stops, ends), panel, chosen, first)
    excerpt = add_rows_after_ends(excerpt.with_dates_after_ends(n_steps), n_steps)
    if ahead is not None:
        excerpt = take_future_from(excerpt, ahead)
    return excerpt, excerpt.starts + rows - first


def add_rows_after_ends(panel: Panel, steps: int) -> Panel:
    """The panel in memory with at least `steps` rows after the end of each series, in which nothing is known."""
    if panel.future is None or (panel.stops >= panel.ends + steps).all():
        return panel
    lengths = np.maximum(panel.stops, panel.ends + steps) - panel.starts
    starts = lengths.cumsum() - lengths
    rows = ranges(starts, starts + panel.stops - panel.starts)
    blocks = []
    for block in (panel.values, panel.future):
        blocks.append(np.full((int(lengths.sum()), block.shape[1]), np.nan))
        blocks[-1][rows] = block
    ends = panel.ends - panel.starts + starts
    return replace(
        panel, starts=starts, ends=ends, stops=starts + lengths, values=blocks[0], future=blocks[1]
    )


def scale_excerpt(model: TrainedModel, excerpt: Panel, rows: Int64[np.ndarray, " chosen"]) -> ScaledPanel:
    """Scale a panel as in training; a new series by its rows before its origin, `rows[s]`."""
    options = ScalingOptions.of_settings(model.config["data"])
    scales = Scales.restore("the data", excerpt, model.data_state, RowRanges(excerpt.starts, rows), options)
    return ScaledPanel.of("the data", excerpt, scales, options, season=model.season)


def windows_from(
    model: TrainedModel, scaled: ScaledPanel, origins: Sequence[range], pred_len: int
) -> Windows:
    """The windows that forecast from these rows of each series on."""
    starts = [range(rows.start - model.seq_len, rows.stop - model.seq_len, rows.step) for rows in origins]
    return scaled.windows(starts, seq_len=model.seq_len, pred_len=pred_len, target_index=model.target_index)


def known_truth(
    excerpt: Panel, rows: Int64[np.ndarray, " series"], horizon: int, target_index: list[int]
) -> Values:
    """True values from these rows on (series, horizon, n_targets); NaN after the end of a series."""
    wanted = rows[:, None] + np.arange(horizon)
    there = wanted < excerpt.ends[:, None]
    values = excerpt.values[np.where(there, wanted, 0)][..., target_index]
    return np.where(there[..., None], values, np.nan)
