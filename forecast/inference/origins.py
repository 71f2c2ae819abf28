"""Origins of forecasts, and the rows of the panel that the forecasts need."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int64

from forecast.data import Panel
from forecast.data.files.cells import quote
from forecast.data.missing import carry_forward
from forecast.inference.forecast import Values
from forecast.inference.model import TrainedModel
from forecast.system.errors import ConfigError, DataError


def choose_origins(
    model: TrainedModel, panel: Panel, start: str | pd.Timestamp | None
) -> tuple[Int64[np.ndarray, " chosen"], Int64[np.ndarray, " chosen"]]:
    """Return the numbers of the series that can be forecast, and the first row to forecast of each.

    Raises:
        DataError: no series has enough history.
        ConfigError: no series can be forecast from `start`.
    """
    if panel.lengths.max() < model.seq_len:
        has = f"the longest of {len(panel):,} series has" if len(panel) > 1 else "there are"
        raise DataError(
            f"this model reads {model.seq_len:,} rows (seq_len) before a forecast, and {has} "
            f"{panel.lengths.max():,}: give more history"
        )
    origins = panel.ends
    if start is not None:
        origins = panel.starts + find_date(panel, start) - panel.grid_starts
    possible = (origins - panel.starts >= model.seq_len) & (origins <= panel.ends)
    if not possible.any():
        places = [panel.grid_starts.min() + model.seq_len, (panel.grid_starts + panel.lengths).max()]
        begin, end = panel.clock.zoned(panel.with_dates_after_ends(1).grid[places])
        span = f"from {begin} to {end}"
        raise ConfigError(
            f"start={start} is not a date of the data, or has too little history: with seq_len={model.seq_len} a "
            f"forecast may begin {span}, every {model.freq}"
        )
    if not possible.all():
        warnings.warn(
            f"{int((~possible).sum()):,} of {len(panel):,} series left out: fewer than seq_len={model.seq_len} rows "
            "before the forecast, or no row right before it",
            stacklevel=2,
        )
    chosen = np.flatnonzero(possible)
    return chosen, origins[chosen]


def find_date(panel: Panel, start: str | pd.Timestamp) -> int:
    """Return the position of a date in the grid, or right after its end; a position far outside for any other date."""
    try:
        date = pd.Timestamp(start)
    except ValueError:
        raise ConfigError(
            f"start={start} is not a date: write it as 2018-01-01 or 2018-01-01T06:00"
        ) from None
    try:
        place = panel.with_dates_after_ends(1).grid.get_indexer(pd.DatetimeIndex([panel.clock.read(date)]))[0]
    except ValueError as error:
        raise ConfigError(f"start={start}: leave the UTC offset out: {error}") from None
    return int(place) if place >= 0 else -len(panel.grid) - panel.n_rows


def carry_history(panel: Panel) -> Panel:
    """The panel with missing future covariates of its history replaced by the value before, as in training."""
    if panel.future is None or panel.is_on_disk or np.isfinite(panel.future).all():
        return panel
    carried = carry_forward(torch.from_numpy(panel.future), panel.starts, panel.stops, start=np.nan).numpy()
    after_end = np.arange(len(carried)) >= np.repeat(panel.ends, panel.stops - panel.starts)
    return replace(panel, future=np.where(after_end[:, None], panel.future, carried))


def take_part(
    model: TrainedModel,
    panel: Panel,
    chosen: Int64[np.ndarray, " chosen"],
    origins: Int64[np.ndarray, " chosen"],
    horizon: int,
    passes: int,
) -> tuple[Panel, Int64[np.ndarray, " chosen"]]:
    """Copy the rows that the forecasts need into a panel in memory; return it with the origins in it.

    Series of the training data need only the rows around the forecast. New series need all rows before it, for their
    scale.
    """
    history = max(model.seq_len, 4 * horizon, 48)
    has_scale = np.array(model.data_state["ids"])[np.array(model.data_state["has_scale"])]
    is_known = panel.ids[chosen].isin(has_scale) | (model.config["data"].get("scale_by") == "all")
    first = np.where(is_known, np.maximum(panel.starts[chosen], origins - history), panel.starts[chosen])
    stops = np.minimum(panel.stops[chosen], origins + passes)
    ends = np.minimum(panel.ends[chosen], stops)
    part = panel.take_rows(chosen, first, stops, ends).with_dates_after_ends(passes)
    return part, part.starts + origins - first


def known_truth(
    part: Panel, rows: Int64[np.ndarray, " series"], horizon: int, target_index: list[int]
) -> Values:
    """True values from these rows on (series, horizon, n_targets); NaN after the end of a series."""
    wanted = rows[:, None] + np.arange(horizon)
    there = wanted < part.ends[:, None]
    values = part.values[np.where(there, wanted, 0)][..., target_index]
    return np.where(there[..., None], values, np.nan)


def check_future_covariates(part: Panel, rows: Int64[np.ndarray, " series"], steps: int) -> None:
    """Raise DataError that names the first series, column and date whose future covariate is not known."""
    if part.future is None:
        return
    wanted = rows[:, None] + np.arange(steps)
    there = wanted < part.stops[:, None]
    missing = ~(np.isfinite(part.future[np.where(there, wanted, 0)]) & there[..., None])
    if missing.any():
        s, step, column = (int(i) for i in np.argwhere(missing)[0])
        place = int((part.grid_starts + rows - part.starts)[s]) + step
        date = part.clock.zoned(part.grid[[place]])[0]
        where = f"series {quote(part.ids[s])}: " if part.has_ids else ""
        name = part.future_covariates[column]
        raise DataError(
            f"{where}{part.indicators.get(name, name)} is not known for {date}: this forecast needs future covariates "
            f"for {steps} steps after its start: add such rows, their values empty, or give future=FILE"
        )
