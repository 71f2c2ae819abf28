"""Forecasts with bounds, as a table, as plots and in words. Imports no torch."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.data.panel_labels import describe_size, label_rows, name_some
from forecast.evaluation.levels import ADAPTIVE, QUANTILE, Level
from forecast.evaluation.rounding import round_to_unit
from forecast.inference.forecaster_facts import ForecasterFacts, note_on_dates
from forecast.reports.plotted_forecast import PlottedForecast, choose_plots, describe_plots
from forecast.system.errors import ConfigError
from forecast.system.formatting import shorten

Values = Float64[np.ndarray, "series horizon n_targets"]

RECENT_ROWS = 48
"""Rows before a forecast that are shown beside it, and whose spread tells how many of its digits mean something."""


def count_history(read: int, horizon: int) -> int:
    """The rows before a forecast that are taken: those that are read, one to fill covariates from, and more to show."""
    return max(read + 1, 4 * horizon, RECENT_ROWS)


@dataclass(frozen=True)
class Forecast:
    """A forecast of each series, in original units.

    Attributes:
        forecaster: facts on the model or baseline.
        panel: the rows before the forecasts, one series for each forecast.
        columns: names of the forecast variables.
        dates: dates of each forecast (series, horizon).
        values, low, high: the point forecast, and the bounds of each level.
        truth: true values as far as the data have them, else NaN.
        method: method of the bounds: conformal, quantile or adaptive.
        new: number of series that are not in the training data.
        known: description of the future covariates that are not known for every step.
        replayed: number of earlier forecasts whose errors moved adaptive bounds.
        rows_before: rows before each forecast, at most those that the model reads, which at least one series has; None:
            every series has them.
    """

    forecaster: ForecasterFacts
    panel: Panel
    columns: list[str]
    dates: np.ndarray
    values: Values
    low: dict[Level, Values]
    high: dict[Level, Values]
    truth: Values
    method: str
    new: int
    known: list[str]
    replayed: int = 0
    rows_before: Int64[np.ndarray, " series"] | None = None

    @property
    def has_truth(self) -> bool:
        """Whether any true value is known."""
        return bool(np.isfinite(self.truth).any())

    @property
    def is_short(self) -> Bool[np.ndarray, " series"]:
        """Whether each series has fewer rows before its forecast than the model reads."""
        if self.rows_before is None:
            return np.zeros(len(self.panel), dtype=bool)
        return self.rows_before < self.rows_before.max()

    @property
    def early(self) -> str:
        """The series that end before the others, so that their forecasts begin earlier, in words; empty if none do."""
        begins = self.dates[:, 0]
        is_early = begins < begins.max()
        if not is_early.any():
            return ""
        example = int(begins.argmin())
        first, last = self.panel.utc_offset.zoned(pd.DatetimeIndex([begins[example], begins.max()]))
        return (
            f"{int(is_early.sum()):,} of {len(begins):,} series end before the others, and their forecasts begin "
            f"earlier: {quote(self.panel.ids[example])} from {first}, the latest from {last}"
        )

    def frame(self) -> pd.DataFrame:
        """The forecast as a DataFrame, see `table`."""
        index, columns = self.table()
        return pd.DataFrame(columns, index=index)

    def table(self) -> tuple[pd.Index, "ForecastColumns"]:
        """Index and columns of a table with one row for each date of each series.

        Each target has a column of its forecast, `-lo-80` and `-hi-80` for each level, and where the truth is known,
        `-true` and `-error` (forecast − truth). The index is the date, in the time zone of the data; with an id column,
        the index is the id and the date is a column. If a series has fewer rows than the model reads, the column
        `rows_before` has the number that was read.
        """
        dates = self.panel.utc_offset.zoned(
            pd.DatetimeIndex(self.dates.ravel(), name=self.panel.grid.name or "date")
        )
        index, columns = label_rows(self.panel, np.arange(len(self.panel)).repeat(self.dates.shape[1]), dates)
        parts = ForecastColumns(columns)
        for i, name in enumerate(self.columns):
            parts[name] = self.values[..., i].ravel()
            for level in self.low:
                parts[f"{name}-lo-{level:g}"] = self.low[level][..., i].ravel()
                parts[f"{name}-hi-{level:g}"] = self.high[level][..., i].ravel()
            if self.has_truth:
                parts[f"{name}-true"] = self.truth[..., i].ravel()
                parts[f"{name}-error"] = (self.values - self.truth)[..., i].ravel()
        if self.rows_before is not None and self.is_short.any():
            parts["rows_before"] = self.rows_before.repeat(self.dates.shape[1])
        return index, parts

    def rounded(self) -> "Forecast":
        """The forecast with the digits that models compute: 12.3, not 12.300000190734863; see `round_values`."""
        spread = self._recent_spread()
        low = {level: round_values(values, spread) for level, values in self.low.items()}
        high = {level: round_values(values, spread) for level, values in self.high.items()}
        return replace(self, values=round_values(self.values, spread), low=low, high=high)

    def _recent_spread(self) -> Float64[np.ndarray, "series 1 n_targets"]:
        """The standard deviation of the last `RECENT_ROWS` rows of each series; NaN where none is measured."""
        panel, targets = self.panel, [self.panel.columns.index(name) for name in self.columns]
        rows = np.maximum(panel.ends[:, None] - np.arange(1, RECENT_ROWS + 1), panel.starts[:, None])
        with warnings.catch_warnings(action="ignore"):  # of series without a measured value
            return np.nanstd(panel.values[rows][..., targets], axis=1, dtype=np.float64)[:, None]

    def plots(self) -> list[PlottedForecast]:
        """Plots of the variables and series of `choose_plots`."""
        return [
            self._plot(*plot) for plot in choose_plots(self.panel, np.arange(len(self.panel)), self.columns)
        ]

    def describe_plots(self) -> str:
        """The series and variables that `plots` leaves out, in words; empty if it shows all."""
        return describe_plots(self.panel, len(self.panel), len(self.columns))

    def _plot(self, s: int, v: int, label: str) -> PlottedForecast:
        rows = np.arange(self.panel.starts[s], self.panel.ends[s])
        return PlottedForecast(
            label,
            self.panel.local_dates(rows),
            self.panel.values[rows][:, self.panel.columns.index(self.columns[v])],
            self.panel.utc_offset.shown(pd.DatetimeIndex(self.dates[s])),
            self.values[s, :, v],
            {level: low[s, :, v] for level, low in self.low.items()},
            {level: high[s, :, v] for level, high in self.high.items()},
            self.truth[s, :, v],
        )


def dates_from(excerpt: Panel, rows: Int64[np.ndarray, " series"], horizon: int) -> np.ndarray:
    """The dates from these rows on (series, horizon), at the UTC offset of the panel."""
    places = (excerpt.grid_starts + rows - excerpt.starts)[:, None] + np.arange(horizon)
    return excerpt.grid.to_numpy()[places]


def round_values(values: Values, spread: Float64[np.ndarray, "series 1 n_targets"]) -> Values:
    """The shortest decimal numbers that are these values in float32.

    Where float32 cannot hold a hundred-thousandth of the spread of the data, as with a counter of 1.7e9, values are
    rounded to that fraction. The spread of equal numbers, which is a rounding error, does not count.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
        is_coarse = (np.spacing(np.abs(single)) > 1e-5 * spread) & (spread > 1e-10 * np.abs(values))
    rounded = np.where(is_coarse, round_to_unit(values, spread, 5), single.astype(str).astype(np.float64))
    return np.where(np.isfinite(rounded), rounded, values)


class ForecastColumns(dict[str, np.ndarray | pd.DatetimeIndex]):
    """Columns of a forecast table. Raises ConfigError if a second column has the same name."""

    def __setitem__(self, name: str, values: np.ndarray | pd.DatetimeIndex) -> None:
        if name in self:
            raise ConfigError(
                f"the forecast would have two columns {name!r}, for the data have one of that name: rename it"
            )
        super().__setitem__(name, values)


def describe_forecast(forecast: Forecast) -> list[str]:
    """Describe a forecast in lines for the terminal."""
    forecaster = forecast.forecaster
    n_series, horizon = forecast.dates.shape
    columns = shorten(forecast.columns)
    size = describe_size(forecast.panel, f"{horizon} steps", of_each=" of each")
    first, last = forecast.panel.utc_offset.zoned(
        pd.DatetimeIndex([forecast.dates.min(), forecast.dates.max()])
    )
    lines = [f"forecast   {columns}: {size}, {forecast.panel.describe_step()}, {first} to {last}"]
    if forecast.panel.calendar is not None:
        lines.append("dates      steps are rows; data.calendar, such as business or XNYS, gives other dates")
    if forecast.panel.utc_offset.stamp:
        lines.append("dates      ends of the steps, as in the data (data.stamp=end)")
    if forecaster.domain:
        note = "; a forecast is closer to the median than to the mean" if forecaster.has_transforms else ""
        lines.append(f"values     {forecaster.domain}{note}")
    lines += forecaster.description
    if forecast.new:
        lines.append(f"new        {forecast.new:,} series were not trained on: scaled by their own rows")
    if forecast.is_short.any():
        names = name_some(forecast.panel, forecast.is_short)
        lines.append(
            f"short      {int(forecast.is_short.sum()):,} of {n_series:,} series have fewer rows than the model reads; "
            f"those before them count as missing values (column rows_before): {names}"
        )
    if forecast.early:
        lines.append(f"ended      {forecast.early}")
    if forecast.known:
        lines.append(f"known      {', '.join(forecast.known)}")
    if horizon > forecaster.pred_len:
        how = "reads its own forecasts" if forecaster.is_recursive else "repeats the same values"
        lines.append(
            f"recursive  beyond pred_len={forecaster.pred_len} {forecaster.label} {how}; intervals are calibrated on "
            "forecasts of as many steps on validation rows"
        )
    if forecast.low:
        source = ", from scaled errors pooled over the series" if n_series > 1 else ""
        if forecaster.is_refitted:
            source += " (errors before the refit)"
        if forecast.method == ADAPTIVE:
            source += f", moved by the errors of {forecast.replayed:,} earlier forecasts"
        levels = ", ".join(f"{level:g}%" for level in forecast.low)
        lines.append(f"intervals  {levels}, {forecast.method}{source if forecast.method != QUANTILE else ''}")
    return lines + describe_truth(forecast)


def describe_truth(forecast: Forecast) -> list[str]:
    """Describe the errors of the steps whose truth is known, in lines for the terminal."""
    if not forecast.has_truth:
        return []
    dates, utc_offset = pd.DatetimeIndex(forecast.dates.ravel()), forecast.panel.utc_offset
    note = note_on_dates(forecast.forecaster.trained_until, dates, utc_offset)
    error, known = forecast.values - forecast.truth, np.isfinite(forecast.truth).any(axis=2)
    with warnings.catch_warnings(action="ignore"):  # of targets without a true value
        mae, rmse = np.nanmean(np.abs(error), axis=(0, 1)), np.sqrt(np.nanmean(error**2, axis=(0, 1)))
    return [
        *([f"note       {note}"] if note else []),
        f"truth      known for {int(known.sum()):,} of {known.size:,} steps",
        *(
            f"           {name}: MAE {a:.4g}, RMSE {r:.4g}"
            for name, a, r in list(zip(forecast.columns, mae, rmse, strict=True))[:8]
            if np.isfinite(a)
        ),
    ]
