"""From a trained model and a table to the values to come, with their bounds, in the table's own units."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from forecast.conformal import Calibration, calibrate, enough
from forecast.data import ForecastData, Table
from forecast.data.calendar import future_dates, time_features
from forecast.data.series_scaler import of_one_table
from forecast.data.store import StoredTable
from forecast.data.stored import DatedRows, ScaledRows, StoredWindows
from forecast.errors import ConfigError, DataError, ForecastError
from forecast.progress import track
from forecast.quantiles import Level, bounds, check_levels
from forecast.trained import TrainedModel

METHODS = ("auto", "conformal", "quantile")
ROLLED_ORIGINS = 512  # forecasts that bounds beyond pred_len are taken from, at most
FEW = 10  # horizons that fit into the validation rows, below which bounds beyond pred_len are called rough
BATCH = 64


class OneOfEach(dict[str, np.ndarray]):
    """Columns of a forecast; ConfigError for a second of one name."""

    def __setitem__(self, name: str, values: np.ndarray) -> None:
        if name in self:
            raise ConfigError(
                f"the forecast would have two columns {name!r}, one of the data's own column of that name: rename it"
            )
        super().__setitem__(name, values)


@dataclass(frozen=True)
class Prediction:
    """Values in data units: `values` (horizon, n_targets), `low` and `high` the same for each level.

    `truth` holds what the table knows of the horizon, NaN after its end; `history` the rows before, with their dates.
    """

    columns: list[str]
    dates: pd.DatetimeIndex
    values: Float64[np.ndarray, "horizon n_targets"]
    low: dict[Level, Float64[np.ndarray, "horizon n_targets"]]
    high: dict[Level, Float64[np.ndarray, "horizon n_targets"]]
    truth: Float64[np.ndarray, "horizon n_targets"]
    history_dates: pd.DatetimeIndex
    history: Float64[np.ndarray, "rows n_targets"]
    method: str  # of the bounds

    @property
    def has_truth(self) -> bool:
        return bool(np.isfinite(self.truth).any())

    def frame(self) -> pd.DataFrame:
        """A row a date; for each column its forecast, `-lo-80` and `-hi-80` for each level, and where the truth is
        known already, `-true` and `-error` (forecast − truth).
        """
        parts = OneOfEach()
        for i, name in enumerate(self.columns):
            parts[name] = self.values[:, i]
            for level in self.low:
                parts[f"{name}-lo-{level:g}"] = self.low[level][:, i]
                parts[f"{name}-hi-{level:g}"] = self.high[level][:, i]
            if self.has_truth:
                parts[f"{name}-true"] = self.truth[:, i]
                parts[f"{name}-error"] = self.values[:, i] - self.truth[:, i]
        return pd.DataFrame(parts, index=self.dates.rename("date"))


def predict(
    model: TrainedModel,
    table: Table,
    *,
    horizon: int | None = None,
    start: str | pd.Timestamp | None = None,
    levels: Sequence[Level] = (),
    method: str = "auto",
) -> Prediction:
    """The `horizon` steps (default: pred_len) from `start` (default: the step after the table's last row).

    Beyond pred_len the model's own forecasts become its history. Raises ConfigError for what cannot be asked of this
    model, DataError for a table that lacks a column or history.
    """
    levels = check_levels(levels)
    horizon = check_horizon(model, horizon)
    model.check_freq("the table", table.freq)
    origin = find_origin(model, table.dates, start)
    if isinstance(table, StoredTable):  # of which only the rows that this needs are read
        first = max(0, origin - max(model.seq_len, 2 * horizon))
        table, origin = table.part(slice(first, origin + horizon)), origin - first
    values = model.select(table)
    dates = dates_and_more(table.dates, model, horizon)
    scaled = of_one_table(model.scaler).transform(torch.from_numpy(values)).float()
    point, own = roll(model, scaled, calendar(dates, model), torch.tensor([origin]), horizon)
    method = method_for(model, method, levels, horizon)
    at: Sequence[float] = ()
    if levels and method == "quantile":
        at, quantiles = trained_bounds(model, levels, horizon), own[:, :horizon]
    elif levels:
        calibration = calibration_for(model, levels, horizon)
        levels = enough(calibration, levels)
        at, quantiles = calibration.quantiles, calibration.around(point)

    def units(scaled: Tensor) -> Float64[np.ndarray, "horizon n_targets"]:
        return of_one_table(model.target_scaler).inverse(scaled[0]).numpy()

    low, high = {}, {}
    for level in levels:
        for side, p in zip((low, high), bounds(level), strict=True):
            side[level] = units(quantiles[..., at.index(p)])
    targets = values[:, model.target_index]
    truth = np.full((horizon, targets.shape[1]), math.nan)
    known = targets[origin : origin + horizon]
    truth[: len(known)] = known
    shown = slice(max(0, origin - max(model.seq_len, 2 * horizon)), origin)
    return Prediction(
        model.target_columns, pd.DatetimeIndex(dates[origin : origin + horizon]), units(point), low, high, truth,
        pd.DatetimeIndex(dates[shown]), targets[shown], method,
    )  # fmt: skip


def check_horizon(model: TrainedModel, horizon: int | None) -> int:
    if horizon is None:
        return model.pred_len
    if isinstance(horizon, bool) or not isinstance(horizon, Integral) or horizon < 1:
        raise ConfigError(f"horizon={horizon} must be a whole number of at least 1")
    horizon = int(horizon)
    if horizon > model.pred_len and model.feature_columns != model.target_columns:
        raise ConfigError(
            f"horizon={horizon} goes beyond pred_len={model.pred_len}, and this model (features=MS) forecasts only "
            f"{model.target_columns[0]}: the other columns' future is not known; train with pred_len={horizon}"
        )
    return horizon


def find_origin(model: TrainedModel, dates: pd.DatetimeIndex, start: str | pd.Timestamp | None) -> int:
    """The row of the table's `dates` that is forecast first, their number for the step after the end."""
    rows = len(dates)
    if rows < model.seq_len:
        raise DataError(
            f"{rows:,} rows are too little history: this model reads {model.seq_len:,} rows (seq_len) before a forecast"
        )
    if start is None:
        return rows
    try:
        first = pd.DatetimeIndex([start])
    except ValueError:
        raise ConfigError(
            f"start={start} is not a date: write it as 2018-01-01 or 2018-01-01T06:00"
        ) from None
    if first.tz is not None:
        raise ConfigError(
            f"start={start}: leave the offset from UTC out, and write it as the table's dates are read"
        )
    grid = dates_and_more(dates, model, 1)[: rows + 1]
    origin = int(grid.get_indexer(first)[0])
    if origin < model.seq_len:
        why = "is not a date of the table" if origin < 0 else "has too little history"
        raise ConfigError(
            f"start={start} {why}: with seq_len={model.seq_len} a forecast may begin from {grid[model.seq_len]} to "
            f"{grid[-1]}, every {model.freq}"
        )
    return origin


def dates_and_more(dates: pd.DatetimeIndex, model: TrainedModel, horizon: int) -> pd.DatetimeIndex:
    """The dates, and those after them that whole passes of the network over the horizon reach."""
    steps = -(-horizon // model.pred_len) * model.pred_len
    return pd.DatetimeIndex(dates.append(future_dates(dates, model.freq, steps)))


def calendar(dates: pd.DatetimeIndex, model: TrainedModel) -> Float[Tensor, "dates n_time_features"]:
    return torch.from_numpy(time_features(dates, model.freq, model.holidays)).float()


@torch.inference_mode()
def roll(
    model: TrainedModel,
    values: Float[Tensor, "rows n_features"] | ScaledRows,
    time: Float[Tensor, "more_rows n_time_features"] | DatedRows,
    origins: Int64[Tensor, " batch"],
    horizon: int,
) -> tuple[Float[Tensor, "batch horizon n_targets"], Float[Tensor, "batch pred_len n_targets ..."]]:
    """Scaled point forecasts from these rows on, and the network's own first answer (quantiles, where it has them).

    After the first pred_len steps, forecasts take the place of the rows that are not known.
    """
    window, parts, first = torch.arange(-model.seq_len, 0), [], None
    past = values[origins[:, None] + window]
    for done in range(0, horizon, model.pred_len):
        rows = origins[:, None] + done
        answer = model.forecast(past, time[rows + window], time[rows + torch.arange(model.pred_len)])
        first = answer if first is None else first
        parts.append(model.point(answer))
        if done + model.pred_len < horizon:  # columns forecast are columns read
            past = torch.cat([past, parts[-1]], dim=1)[:, -model.seq_len :]
    assert first is not None
    return torch.cat(parts, dim=1)[:, :horizon], first


def method_for(model: TrainedModel, method: str, levels: Sequence[Level], horizon: int) -> str:
    """Of the bounds; `auto` takes the network's own quantiles where it has those of all levels and steps."""
    if method not in METHODS:
        raise ConfigError(f"intervals={method} is not one of {', '.join(METHODS)}")
    if method != "auto":
        return method
    wanted = {p for level in levels for p in bounds(level)}
    trained = horizon <= model.pred_len and model.quantiles is not None and wanted <= set(model.quantiles)
    return "quantile" if trained else "conformal"


def trained_bounds(model: TrainedModel, levels: Sequence[Level], horizon: int) -> Sequence[float]:
    """The probabilities of the network's quantiles. Raises ConfigError where it has none for a level or the horizon."""
    if model.quantiles is None:
        raise ConfigError(
            "intervals=quantile needs a model trained with loss=quantile, and more than its linear map: use "
            "intervals=conformal"
        )
    if horizon > model.pred_len:
        raise ConfigError(
            f"intervals=quantile reaches pred_len={model.pred_len} steps, not horizon={horizon}: use "
            "intervals=conformal"
        )
    known = [f"{100 - 200 * p:g}" for p in model.quantiles if p < 0.5]
    for level in levels:
        if not set(bounds(level)) <= set(model.quantiles):
            raise ConfigError(
                f"levels: this model was trained for {', '.join(known)}%, not {level:g}%: give one of those, or "
                "intervals=conformal"
            )
    return model.quantiles


def calibration_for(model: TrainedModel, levels: Sequence[Level], horizon: int) -> Calibration:
    """The checkpoint's calibration, or where it lacks a level or a step, a new one on validation windows."""
    stored = model.calibration
    if stored is not None and stored.has(levels) and horizon <= model.pred_len:
        return stored.first(horizon)
    try:
        tested = model.tested()
        data = tested.data()
    except ForecastError as error:
        raise type(error)(
            f"these levels or steps need calibrating on the data that the model was trained on: {error}; "
            "levels=[] goes without bounds"
        ) from None
    if horizon > model.pred_len:
        calibration = calibrate_rolled(tested, data, levels, horizon)
    else:
        calibration = calibrate(
            lambda batch: tested.point(tested.forecast(batch.past, batch.past_time, batch.future_time)),
            data.windows["val"], BATCH, levels, lambda batches: track(batches, "Calibrating"),
        ).first(horizon)  # fmt: skip
    return calibration.rescaled(tested.target_scaler, model.target_scaler)


def calibrate_rolled(
    model: TrainedModel, data: ForecastData, levels: Sequence[Level], horizon: int
) -> Calibration:
    """From forecasts rolled over the whole horizon within the validation rows, at most `ROLLED_ORIGINS` of them."""
    windows = data.windows["val"]
    is_stored = isinstance(windows, StoredWindows)
    time = windows.time if is_stored else calendar(dates_and_more(data.table.dates, model, horizon), model)
    (starts,) = windows.starts  # rows, a stride apart
    first, rows = starts.start + windows.seq_len, starts[-1] - starts.start + windows.pred_len
    count = rows - horizon + 1
    if count < 1:
        raise DataError(
            f"horizon={horizon} is longer than the {rows} validation rows that its "
            "bounds could be taken from: levels=[] goes without bounds"
        )
    if rows < FEW * horizon:
        warnings.warn(
            f"horizon={horizon}: bounds beyond pred_len={model.pred_len} come from {rows:,} validation rows, in which "
            f"so many steps fit {rows // horizon} times: they are rough, and may leave out the forecast itself; train "
            "with a longer pred_len, or give validation more rows (data.split)",
            stacklevel=2,
        )
    origins = first + torch.linspace(0, count - 1, min(count, ROLLED_ORIGINS)).long()
    steps, errors = torch.arange(horizon), []
    for batch in track(origins.split(BATCH), "Calibrating"):
        point, _ = roll(model, windows.values, time, batch, horizon)
        errors.append(windows.values[batch[:, None] + steps][..., windows.target_index] - point)
    return Calibration.fit(torch.cat(errors), levels)


def described(model: TrainedModel, found: Prediction) -> list[str]:
    """What was forecast, in lines for the screen."""
    steps, dates = len(found.dates), found.dates
    lines = [
        f"forecast   {', '.join(found.columns[:8])}{', ...' if len(found.columns) > 8 else ''}: {steps} steps, "
        f"every {model.freq}, {dates[0]} to {dates[-1]}"
    ]
    if steps > model.pred_len:
        lines.append(
            f"rolled     beyond pred_len={model.pred_len} the model reads its own forecasts; bounds are from forecasts "
            "rolled over as many steps on validation rows"
        )
    if model.refitted is not None:
        lines.append(
            f"model      refitted on all {model.refitted['rows']:,} rows, to {model.refitted['last_date']}"
        )
    if found.low:
        of_the_tested = " (from errors of the model that was tested)" if model.refitted is not None else ""
        levels = ", ".join(f"{level:g}%" for level in found.low)
        lines.append(
            f"bounds     {levels}, {found.method}{of_the_tested if found.method == 'conformal' else ''}"
        )
    if found.has_truth:
        if note := model.note_on(dates):
            lines.append(f"note       {note}")
        error = found.values - found.truth
        mae, rmse = np.nanmean(np.abs(error), axis=0), np.sqrt(np.nanmean(error**2, axis=0))
        known = int(np.isfinite(found.truth).all(axis=1).sum())
        lines.append(f"truth      known for {known} of {steps} steps")
        lines += [
            f"           {name}: MAE {a:.4g}, RMSE {r:.4g}"
            for name, a, r in list(zip(found.columns, mae, rmse, strict=True))[:8]
        ]
    return lines
