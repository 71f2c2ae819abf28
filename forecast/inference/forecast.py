"""Forecasts with bounds, as a table, as plots and in words, and checks of the options of `predict` and `backtest`.

Imports no torch.
"""

import math
import warnings
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Float64, Int64
from omegaconf import DictConfig, OmegaConf

from forecast.data.calendars import format_date
from forecast.data.panel import Panel, describe_size, label_rows, name_some
from forecast.evaluation.scores import (
    ADAPTIVE,
    CONFORMAL,
    INTERVAL_METHODS,
    LABELS,
    MODEL,
    QUANTILE,
    SAME_ERROR,
    Level,
    ReportedScores,
    describe_change,
    parse_levels,
    round_values,
)
from forecast.reports.plots import PlottedForecast, choose_plots, describe_plots, describe_span
from forecast.system.errors import ConfigError, check_choice, check_count
from forecast.system.formatting import format_amount, plural, shorten

AUTO = "auto"

NEVER, FINE_TUNE, SCRATCH = "never", "fine_tune", "scratch"
POLICIES = (NEVER, FINE_TUNE, SCRATCH)
"""The policies after each `refit_every` rows: nothing, more epochs of the trained model, or a new training."""

Values = Float64[np.ndarray, "series horizon n_targets"]

RECENT_ROWS = 48
"""Rows before a forecast that are shown beside it, and whose spread tells how many of its digits mean something."""

Extremes = Float64[np.ndarray, "series columns"]

FAR = {"standard": (-10.0, 10.0), "robust": (-10.0, 10.0), "minmax": (-1.0, 2.0), "none": (-np.inf, np.inf)}
"""Scaled values by `data.scaler` beyond which an input is far outside the training rows.

They are their mean ± 10 standard deviations, their median ± 10 interquartile ranges, and their minimum and maximum
by the distance between these. An hourly load stays within 5 standard deviations, spikes of prices reach 10 and more.
"""
SERIES_AT_ONCE = 512  # number of series that are forecast at once


def check_forecast(config: DictConfig) -> None:
    """Raise ConfigError for an option of `forecast.predict` that no model can use."""
    if config.baseline is not None:
        check_baseline(config.baseline)
    check_method(config.intervals, config.baseline)
    if config.levels is not None:
        parse_levels(OmegaConf.to_object(config.levels) if OmegaConf.is_config(config.levels) else config.levels)
    for key in ("horizon", "samples"):
        if config[key] is not None:
            check_count(key, config[key])
    if config.start is not None:
        read_date("start", config.start)


def check_baseline(name: object) -> None:
    """Raise ConfigError if there is no baseline of this name."""
    check_choice("baseline", name, LABELS, advice="; null: the model")


def check_method(method: str, baseline: object) -> None:
    """Raise ConfigError for an unknown method of intervals, or trained quantiles of a baseline (None: the model)."""
    check_choice("intervals", method, (AUTO, *INTERVAL_METHODS))
    if method == QUANTILE and baseline is not None:
        raise ConfigError(
            f"intervals=quantile are the model's, not those of baseline={baseline}: use conformal or adaptive"
        )


def read_date(key: str, text: str | pd.Timestamp) -> pd.Timestamp:
    """Read a user's date. Raises ConfigError for a text that is no date of ISO 8601."""
    date = pd.to_datetime(text, format="ISO8601", errors="coerce")
    if pd.isna(date):
        raise ConfigError(f"{key}={text} is not a date: write it as 2018-01-31 or 2018-01-31T06:00")
    return date


def check_backtest(config: DictConfig) -> None:
    """Raise ConfigError for an invalid option of a backtest."""
    for key in ("refit", "resume"):
        if config[key] is not None:
            raise ConfigError(f"{key}={config[key]}: a backtest has no {key}: leave it out")
    for key in ("steps", "stride", "refit_every"):
        if config[key] is not None:
            check_count(key, config[key], unit="rows")
    if not config.checkpoint and config.steps is not None and config.steps < config.pred_len:
        raise ConfigError(f"steps={config.steps} is shorter than pred_len={config.pred_len}: give more steps")
    interval_methods(config)
    list_policies(config)


def interval_methods(config: DictConfig) -> tuple[str, ...]:
    """The methods of the intervals to score. Raises ConfigError for an unknown one."""
    check_choice("intervals", config.intervals, (CONFORMAL, ADAPTIVE))
    return (CONFORMAL,) if config.intervals == CONFORMAL else (CONFORMAL, ADAPTIVE)


def list_policies(config: DictConfig) -> list[str]:
    """The policies of `retrain`. Raises ConfigError for an unknown one, or for one that needs `refit_every`."""
    given = config.retrain if OmegaConf.is_list(config.retrain) else [config.retrain]
    policies, setting = list(dict.fromkeys(given)), f"retrain=[{','.join(map(str, given))}]"
    if not policies or not set(policies) <= set(POLICIES):
        raise ConfigError(f"{setting} must be one or more of {', '.join(POLICIES)}")
    if config.refit_every is None and policies not in ([SCRATCH], [NEVER]):
        raise ConfigError(f"{setting} needs refit_every=, the number of rows between two trainings")
    return policies


@dataclass(frozen=True)
class ForecasterFacts:
    """Facts on a model or baseline that describe its forecasts, in values that JSON can hold.

    Attributes:
        name, label: `model`, or the name of the baseline; the name in words.
        is_recursive, is_refitted: see `forecasters.PointForecaster`.
    """

    name: str
    label: str
    is_recursive: bool
    is_refitted: bool
    pred_len: int
    description: list[str]  # lines for the terminal on what forecasts
    domain: str  # transforms and bounds of the targets in words; empty if there are none
    has_transforms: bool
    trained_until: str
    test: ReportedScores | None


def count_history(read: int, horizon: int) -> int:
    """The rows before a forecast that are taken: those that are read, one to fill covariates from, and more to show."""
    return max(read + 1, 4 * horizon, RECENT_ROWS)


@dataclass(frozen=True)
class Forecast:
    """A forecast of each series, in original units.

    Attributes:
        values, low, high: the point forecast, and the bounds of each level.
        paths: sample paths (series, horizon, n_targets, samples); None if there are none.
        order, is_joint: how the sample paths were ordered, in words, and whether all series were drawn jointly.
        rows_before: rows before each forecast, at most those that the model reads, which at least one series has; None:
            every series has them.
        n_sums, sums: number of sums over series, which stand before them, and a description (`hierarchy`).
    """

    forecaster: ForecasterFacts
    panel: Panel  # the rows before the forecasts, one series for each forecast
    columns: list[str]
    dates: np.ndarray  # dates of each forecast (series, horizon)
    values: Values
    low: dict[Level, Values]
    high: dict[Level, Values]
    truth: Values  # true values as far as the data have them, else NaN
    method: str
    new: int = 0  # number of series that are not in the training data
    known: Sequence[str] = ()  # description of the future covariates that are not known for every step
    replayed: int = 0  # number of earlier forecasts whose errors moved adaptive bounds
    paths: Float64[np.ndarray, "series horizon n_targets samples"] | None = None
    order: str = ""
    is_joint: bool = False
    rows_before: Int64[np.ndarray, " series"] | None = None
    n_sums: int = 0
    sums: str = ""

    @property
    def has_truth(self) -> bool:
        return bool(np.isfinite(self.truth).any())

    @property
    def is_short(self) -> Bool[np.ndarray, " series"]:
        """Whether each series has fewer rows before its forecast than the model reads."""
        if self.rows_before is None:
            return np.zeros(len(self.panel), dtype=bool)
        return self.rows_before < self.rows_before.max()

    def frame(self) -> pd.DataFrame:
        index, columns = self.table()
        return pd.DataFrame(columns, index=index)

    def table(self) -> tuple[pd.Index, dict[str, Any]]:
        """Index and columns of a table with one row for each date of each series.

        Each target has a column of its forecast, `-lo-80` and `-hi-80` for each level, and where the truth is known,
        `-true` and `-error` (forecast − truth). The index is the date, in the time zone of the data; with an id column,
        the index is the id and the date is a column. If a series has fewer rows than the model reads, the column
        `rows_before` has the number that was read. Raises ConfigError if two columns have the same name.
        """
        found: list[tuple[str, np.ndarray]] = []
        for i, name in enumerate(self.columns):
            parts = [(name, self.values)]
            for level in self.low:
                bounds = {"lo": self.low, "hi": self.high}
                parts += [(f"{name}-{side}-{level:g}", bound[level]) for side, bound in bounds.items()]
            if self.has_truth:
                parts += [(f"{name}-true", self.truth), (f"{name}-error", self.values - self.truth)]
            found += [(key, values[..., i].ravel()) for key, values in parts]
        if self.rows_before is not None and self.is_short.any():
            found.append(("rows_before", self.rows_before.repeat(self.dates.shape[1])))
        return self._add_labels(found)

    def sample_frame(self) -> pd.DataFrame:
        """The samples as a DataFrame, see `table`: one row for each date of each path of each series.

        The column `sample` has the number of the path, from 0.
        """
        assert self.paths is not None
        paths = self.paths.transpose(2, 0, 3, 1)  # (n_targets, series, samples, horizon)
        n_series, samples, horizon = paths.shape[1:]
        numbers = np.tile(np.arange(samples).repeat(horizon), n_series)
        named = zip(self.columns, paths.reshape(len(paths), -1), strict=True)
        index, columns = self._add_labels([("sample", numbers), *named], samples)
        return pd.DataFrame(columns, index=index)

    def _add_labels(
        self, columns: Sequence[tuple[str, np.ndarray]], repeats: int = 1
    ) -> tuple[pd.Index, dict[str, Any]]:
        """Index and columns of a table that has all dates of a series `repeats` times."""
        dates = self.dates.repeat(repeats, axis=0)
        each = pd.DatetimeIndex(dates.ravel(), name=self.panel.grid.name or "date")
        series = np.arange(len(self.panel)).repeat(repeats * dates.shape[1])
        index, labels = label_rows(self.panel, series, self.panel.utc_offset.zoned(each))
        found = [*labels.items(), *columns]
        named, names = dict(found), [name for name, _ in found]
        if len(named) < len(found):
            twice = max(names, key=names.count)
            raise ConfigError(
                f"the forecast would have two columns {twice!r}, for the data have one of that name: rename it"
            )
        return index, named

    def rounded(self) -> "Forecast":
        """The forecast with the digits that models compute: 12.3, not 12.300000190734863; see `round_values`."""
        spread, n_levels = self._recent_spread(), len(self.low)
        found = round_values(np.stack([self.values, *self.low.values(), *self.high.values()]), spread)
        parts = found[1 : n_levels + 1], found[n_levels + 1 :]
        low, high = (dict(zip(self.low, part, strict=True)) for part in parts)
        paths = None if self.paths is None else round_values(self.paths, spread[..., None])
        return replace(self, values=found[0], low=low, high=high, paths=paths)

    def _recent_spread(self) -> Float64[np.ndarray, "series 1 n_targets"]:
        """The standard deviation of the last `RECENT_ROWS` rows of each series; NaN where none is measured."""
        panel, targets = self.panel, [self.panel.columns.index(name) for name in self.columns]
        rows = np.maximum(panel.ends[:, None] - np.arange(1, RECENT_ROWS + 1), panel.starts[:, None])
        with warnings.catch_warnings(action="ignore"):  # of series without a measured value
            return np.nanstd(panel.values[rows][..., targets], axis=1, dtype=np.float64)[:, None]

    def plots(self) -> list[PlottedForecast]:
        chosen = choose_plots(self.panel, np.arange(len(self.panel)), self.columns)
        return [self._plot(*plot) for plot in chosen]

    def describe_plots(self) -> str:
        """A note on the series and variables that `plots` leaves out, in brackets; empty if it shows all."""
        left_out = describe_plots(self.panel, len(self.panel), len(self.columns))
        return f" ({left_out})" if left_out else ""

    def title(self, data: str) -> str:
        span = describe_span(self.panel.utc_offset.shown(pd.DatetimeIndex(self.dates.ravel())))
        by = f" by {self.forecaster.label}" * (self.forecaster.name != MODEL)
        return f"{data}: forecast {span}{by}{self.describe_plots()}"

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
            self.panel.utc_offset.timezone,
        )


def dates_from(excerpt: Panel, rows: Int64[np.ndarray, " series"], horizon: int) -> np.ndarray:
    """The dates from these rows on (series, horizon), at the UTC offset of the panel."""
    places = (excerpt.grid_starts + rows - excerpt.starts)[:, None] + np.arange(horizon)
    return excerpt.grid.to_numpy()[places]


def describe_forecast(forecast: Forecast) -> list[str]:
    forecaster = forecast.forecaster
    n_series, horizon = forecast.dates.shape
    size = describe_size(forecast.panel, f"{horizon:,} steps", of_each=" of each")
    dates = pd.DatetimeIndex([forecast.dates.min(), forecast.dates.max()])
    first, last = map(format_date, forecast.panel.utc_offset.zoned(dates))
    lines = [f"forecast   {shorten(forecast.columns)}: {size}, {forecast.panel.describe_step()}, {first} to {last}"]
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
    if forecast.known:
        lines.append(f"known      {', '.join(forecast.known)}")
    if horizon > forecaster.pred_len:
        how = "reads its own forecasts" if forecaster.is_recursive else "repeats the same values"
        how += "; intervals are calibrated on forecasts of as many steps on validation rows" if forecast.low else ""
        lines.append(f"recursive  beyond pred_len={forecaster.pred_len} {forecaster.label} {how}")
    if forecast.low:
        source = ", from scaled errors pooled over the series" if n_series > 1 else ""
        if forecaster.is_refitted:
            source += " (errors before the refit)"
        if forecast.method == ADAPTIVE:
            source += f", moved by the errors of {forecast.replayed:,} earlier forecasts"
        levels = ", ".join(f"{level:g}%" for level in forecast.low)
        lines.append(f"intervals  {levels}, {forecast.method}{source if forecast.method != QUANTILE else ''}")
    if forecast.sums:
        lines.append(f"sums       {forecast.sums}")
    if forecast.paths is not None:
        lines.append(f"samples    {plural(forecast.paths.shape[-1], 'path')}, {forecast.order}")
    return lines + describe_truth(forecast)


def describe_truth(forecast: Forecast) -> list[str]:
    """Describe the errors of the steps whose truth is known, in lines for the terminal."""
    if not forecast.has_truth:
        return []
    dates, trained_until = pd.DatetimeIndex(forecast.dates.ravel()), forecast.forecaster.trained_until
    error = (forecast.values - forecast.truth)[forecast.n_sums :]
    known = np.isfinite(error).any(axis=2)
    with warnings.catch_warnings(action="ignore"):  # of targets without a true value
        mae, rmse = np.nanmean(np.abs(error), axis=(0, 1)), np.sqrt(np.nanmean(error**2, axis=(0, 1)))
    lines = []
    if (dates <= pd.Timestamp(trained_until)).any():
        shown = forecast.panel.utc_offset.describe(trained_until, with_offset=False)
        lines = [f"note       dates to {shown} were trained on: their errors say little about the errors of new dates"]
    lines.append(f"truth      known for {int(known.sum()):,} of {known.size:,} steps")
    errors = list(zip(forecast.columns, mae, rmse, strict=True))[:8]
    return lines + [f"           {name}: MAE {a:.4g}, RMSE {r:.4g}" for name, a, r in errors if np.isfinite(a)]


def describe_test(forecast: Forecast) -> list[str]:
    """Describe the test scores of the forecaster in lines; no lines without a test."""
    test, name = forecast.forecaster.test, forecast.forecaster.name
    if test is None:
        return []
    if name != MODEL:
        unknown = ["the coverage of its intervals was not measured"] if forecast.low else []
        return [f"test       {line}" for line in (compare_forecasters(test, name, MODEL), *unknown)]
    best = test.best_baseline
    lines = [compare_forecasters(test, MODEL, best)]
    if test.mse[best] < (1 - SAME_ERROR) * test.mse[MODEL]:
        lines = [f"{compare_forecasters(test, best, MODEL)}: baseline={best} forecasts with it"]
    if forecast.dates.shape[1] <= forecast.forecaster.pred_len:
        lines += describe_coverage(test, forecast.method, list(forecast.low))
    return [f"test       {line}" for line in lines]


def compare_forecasters(test: ReportedScores, name: str, other: str) -> str:
    one, two = ({MODEL: "the model", **LABELS}[each] for each in (name, other))
    if test.mse[other] == 0:
        return f"{two} had no error"
    change = test.mse[name] / test.mse[other] - 1
    if abs(change) < SAME_ERROR:
        return f"{one} and {two} had the same MSE"
    return f"{one} had {describe_change(change)} than {two}"


def describe_coverage(test: ReportedScores, method: str, levels: list[Level]) -> list[str]:
    """The coverage of each level, and why one misses its level, where the test measured intervals of this method."""
    measured = test.coverage.get(method, {})
    shown = {level: measured.get(f"{level:g}", math.nan) for level in levels}
    lines = [
        f"the {level:g}% interval covered {coverage:.1%} of the values"
        for level, coverage in shown.items()
        if math.isfinite(coverage)
    ]
    return lines + ([test.misses[method]] if lines and method in test.misses else [])


def find_extremes(
    values: Float[np.ndarray, "rows columns"], first: Int64[np.ndarray, " series"], length: int
) -> tuple[Extremes, Extremes]:
    """The lowest and the highest value of each window of rows; NaN where all are missing."""
    windows = [np.asarray(values[row : row + length], np.float64) for row in first]
    low, high = (np.array([extreme.reduce(window) for window in windows]) for extreme in (np.fmin, np.fmax))
    return low, high


def warn_of_far_values(
    columns: Sequence[str],
    read: Container[str],
    extremes: tuple[Extremes, Extremes],
    limits: tuple[Extremes, Extremes],
    panel: Panel,
) -> None:
    """Warn of the columns with a value beyond `limits`, see `FAR`, among those that are read."""
    (lowest, highest), (low, high) = extremes, limits
    value = np.where(highest > high, highest, lowest)
    found = describe_columns(value, (lowest < low) | (highest > high), columns, read, panel, (low, high))
    if found:
        warnings.warn(
            f"far outside the training data, so that the forecast extrapolates: {shorten(found, 5)}", stacklevel=3
        )


def warn_of_constant_values(
    columns: Sequence[str], read: Container[str], extremes: tuple[Extremes, Extremes], seq_len: int, panel: Panel
) -> None:
    """Warn of the columns that have one value in all the rows of a window, among those that are read."""
    lowest, highest = extremes
    if found := describe_columns(lowest, (lowest == highest) & (seq_len > 1), columns, read, panel):
        warnings.warn(f"constant in the {seq_len} rows before the forecast: {shorten(found, 5)}", stacklevel=3)


def describe_columns(
    values: Extremes,
    is_found: Bool[np.ndarray, "series columns"],
    columns: Sequence[str],
    read: Container[str],
    panel: Panel,
    expected: tuple[Extremes, Extremes] | None = None,
) -> list[str]:
    """Name the columns that are read and found in a series, with the value of the first such series."""
    found = []
    for i, name in enumerate(columns):
        if name in read and is_found[:, i].any():
            s = int(is_found[:, i].argmax())
            text = f"{name} is {format_amount(values[s, i])}"
            if expected is not None:
                text += f", expected {format_amount(expected[0][s, i])} to {format_amount(expected[1][s, i])}"
            found.append(f"{text} (series {name_some(panel, is_found[:, i])})" if panel.has_ids else text)
    return found


def count_series(some: int, of: int) -> str:
    """The number of series that a warning is about, in words; empty for a table of one series."""
    return f" in {some:,} of {of:,} series" if of > 1 else ""
