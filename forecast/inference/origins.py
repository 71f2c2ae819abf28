"""Origins of forecasts, the rows of the panel that the forecasts need, and notes on trained rows."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int64

from forecast.data import DataModule, Panel, Windows
from forecast.data.calendars import UtcOffset, check_year
from forecast.data.panel import name_some
from forecast.data.row_ranges import RowRanges, has_values, ranges
from forecast.data.scaled_panel import ScaledPanel, Scales
from forecast.data.source import ScalingOptions
from forecast.data.step_features import carry_into
from forecast.inference.forecast import Values, read_date
from forecast.inference.model import TrainedModel
from forecast.inference.model_data import take_future_from
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import plural


class SeriesOrigins(NamedTuple):
    """The forecast origins of some series of a panel, one for each."""

    series: Int64[np.ndarray, " chosen"]
    rows: Int64[np.ndarray, " chosen"]  # the first row to forecast of each of them


def choose_origins(model: TrainedModel, panel: Panel, start: str | pd.Timestamp | None) -> SeriesOrigins:
    """Choose the series that can be forecast, and their origins.

    Beside series with enough history, a series with fewer rows is chosen if it has a value of every column in them:
    `take_excerpt` puts missing rows before them. Other series are left out, with a warning.

    Raises DataError: no series has enough history; ConfigError: no series can be forecast from `start`.
    """
    if panel.lengths.max() < model.seq_len:
        has = f"the longest of {len(panel):,} series has" if len(panel) > 1 else "there are"
        raise DataError(
            f"this model reads {model.seq_len:,} rows (seq_len) before a forecast, and {has} {panel.lengths.max():,}: "
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
    is_short = ~possible & (origins > panel.starts) & (origins <= panel.ends)
    possible |= is_short & has_values(panel.values, panel.starts, np.where(is_short, origins, panel.starts))
    if not possible.all():
        warnings.warn(
            f"{int((~possible).sum()):,} of {len(panel):,} series left out, because a column has no value before the "
            f"forecast, or no row is right before it: {name_some(panel, ~possible)}",
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


def take_excerpt(
    model: TrainedModel, panel: Panel, origins: SeriesOrigins, *, history: int, n_steps: int, ahead: Panel | None = None
) -> tuple[Panel, Int64[np.ndarray, " chosen"]]:
    """Copy the rows that the forecasts need into a panel in memory; return it with the first row to forecast of each.

    Series of the training data need only the rows around the forecast. New series need all rows before it, for their
    scale. A series with fewer than seq_len rows before its origin gets rows before them, in which nothing is known.

    `ahead`: values of future covariates after the end of the only series, see `forecast.inference.model_data`.
    """
    chosen, rows = origins
    has_scale = np.array(model.data_state["ids"])[np.array(model.data_state["has_scale"])]
    is_known = panel.ids[chosen].isin(has_scale) | (model.config["data"].get("scale_by") == "all")
    first = np.where(is_known, np.maximum(panel.starts[chosen], rows - history), panel.starts[chosen])
    stops = np.minimum(panel.stops[chosen], rows + n_steps)
    ends = np.minimum(panel.ends[chosen], stops)
    excerpt = carry_into(panel.take_rows(chosen, first, stops, ends), panel, chosen, first)
    before = (model.seq_len - (rows - first)).clip(0)
    excerpt = add_unknown_rows(excerpt.with_dates_after_ends(n_steps), before, n_steps)
    if ahead is not None:
        excerpt = take_future_from(excerpt, ahead)
    return excerpt, excerpt.starts + before + rows - first


def add_unknown_rows(panel: Panel, before: Int64[np.ndarray, " series"], steps: int) -> Panel:
    """The panel in memory with rows in which nothing is known: `before[s]` before the first row of series s.

    With future covariates, there are also at least `steps` rows after the end of each series. Dates before the grid are
    even steps, even if `panel` has a calendar: no value of these rows is known.
    """
    stops = panel.stops if panel.future is None else np.maximum(panel.stops, panel.ends + steps)
    if not before.any() and (panel.stops >= stops).all():
        return panel
    lengths = before + stops - panel.starts
    starts = lengths.cumsum() - lengths
    known = ranges(starts + before, starts + before + panel.stops - panel.starts)

    def spread(block: np.ndarray) -> np.ndarray:
        found = np.full((int(lengths.sum()), block.shape[1]), np.nan)
        found[known] = block
        return found

    earlier = int((before - panel.grid_starts).max().clip(0))
    grid = pd.date_range(end=pd.Timestamp(panel.grid[0]), periods=earlier + 1, freq=panel.freq)[:-1]  # type: ignore[arg-type]
    grid = pd.DatetimeIndex(grid.append(panel.grid).as_unit(panel.grid.unit), name=panel.grid.name)  # type: ignore[attr-defined]
    return replace(
        panel,
        grid=grid,
        grid_starts=panel.grid_starts + earlier - before,
        starts=starts,
        ends=panel.ends - panel.starts + starts + before,
        stops=starts + lengths,
        values=spread(np.asarray(panel.values)),
        future=None if panel.future is None else spread(np.asarray(panel.future)),
    )


def scale_excerpt(model: TrainedModel, excerpt: Panel, rows: Int64[np.ndarray, " chosen"]) -> ScaledPanel:
    """Scale a panel as in training; a new series by its rows before its origin, `rows[s]`."""
    options = ScalingOptions.of_settings(model.config["data"])
    before = RowRanges(excerpt.starts, rows)
    scales = Scales.fit("the data", excerpt, before, options, state=model.data_state)
    return ScaledPanel.of("the data", excerpt, scales, options, season=model.season)


def windows_from(model: TrainedModel, scaled: ScaledPanel, origins: Sequence[range], pred_len: int) -> Windows:
    starts = [range(rows.start - model.seq_len, rows.stop - model.seq_len, rows.step) for rows in origins]
    return scaled.windows(starts, seq_len=model.seq_len, pred_len=pred_len, target_index=model.target_index)


def known_truth(excerpt: Panel, rows: Int64[np.ndarray, " series"], horizon: int, target_index: list[int]) -> Values:
    """True values from these rows on (series, horizon, n_targets); NaN after the end of a series."""
    wanted = rows[:, None] + np.arange(horizon)
    there = wanted < excerpt.ends[:, None]
    values = excerpt.values[np.where(there, wanted, 0)][..., target_index]
    return np.where(there[..., None], values, np.nan)


def count_seen(model: TrainedModel, data: DataModule, rows: Int64[np.ndarray, " origins"]) -> dict[str, int]:
    """Count the origins among the `training` rows of a model, and among its `validation` rows after them.

    For rows of the training data, the rows of each series count; for other data, the dates.
    """
    if data.options.split != "test" and data.last_date("train") == model.trained_until:
        series = data.panel.series_of(rows)
        trained, validated = (rows < data.rows[split].stop[series] for split in ("train", "val"))
    else:
        dates, ends = data.panel.dates(rows), (model.trained_until, model.validated_until)
        trained, validated = (np.asarray(dates <= pd.Timestamp(end or ends[0])) for end in ends)
    return {"training": int(trained.sum()), "validation": int((validated & ~trained).sum())}


def note_on_seen(model: TrainedModel, seen: Mapping[str, int], of: str, utc_offset: UtcOffset) -> str:
    """Return a caution if some origins, such as `of` "12 origins", were trained on (`count_seen`); else empty text."""
    ends = {"training": model.trained_until, "validation": model.validated_until or model.trained_until}
    parts = [
        f"{number:,} in {rows} rows (to {utc_offset.describe(ends[rows], with_offset=False)})"
        for rows, number in seen.items()
        if number
    ]
    if not parts:
        return ""
    return f"of {of}, {' and '.join(parts)}: their errors say little about the errors of new dates"


def note_on_windows(model: TrainedModel, data: DataModule, split: str = "test") -> str:
    """Return a caution if some windows of a split were trained on, as after a refit; else an empty string."""
    windows = data.windows[split]
    rows = windows.origins(torch.arange(len(windows), device=windows.device)).cpu().numpy()
    seen = count_seen(model, data, rows)
    return note_on_seen(model, seen, plural(len(rows), "window"), data.panel.utc_offset)
