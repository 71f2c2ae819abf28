"""From a trained model and many series to the values to come of each, with their bounds, in each series' own units."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from forecast.conformal import enough
from forecast.data.csvfile import quote
from forecast.data.panel import Panel
from forecast.data.scaled_panel import ScaledPanel
from forecast.errors import ConfigError, DataError
from forecast.prediction import (
    OneOfEach,
    Prediction,
    calibration_for,
    check_horizon,
    method_for,
    trained_bounds,
)
from forecast.progress import track
from forecast.quantiles import Level, bounds, check_levels
from forecast.spread import spread
from forecast.trained import TrainedModel

BATCH = 512
PICTURED = 4  # series

Values = Float64[np.ndarray, "series horizon n_targets"]


@dataclass(frozen=True)
class SeriesPrediction:
    """Values in data units: `values` (series, horizon, n_targets), `low` and `high` the same for each level.

    `chosen` are the numbers in `panel` of the series that are forecast.
    """

    panel: Panel
    chosen: Int64[np.ndarray, " series"]
    id_column: str
    date_column: str
    columns: list[str]
    dates: np.ndarray  # (series, horizon)
    values: Values
    low: dict[Level, Values]
    high: dict[Level, Values]
    method: str  # of the bounds

    def frame(self) -> pd.DataFrame:
        """A row a series and date, the id as index: each target, its `-lo-80` and `-hi-80` for each level."""
        horizon = self.values.shape[1]
        parts = OneOfEach({self.date_column: self.dates.ravel()})
        for i, name in enumerate(self.columns):
            parts[name] = self.values[..., i].ravel()
            for level in self.low:
                parts[f"{name}-lo-{level:g}"] = self.low[level][..., i].ravel()
                parts[f"{name}-hi-{level:g}"] = self.high[level][..., i].ravel()
        ids = self.panel.ids[self.chosen].repeat(horizon)
        return pd.DataFrame(parts, index=ids.rename(self.id_column))

    def examples(self) -> list[Prediction]:
        """A few series, evenly spread, each as a forecast of one table: its id is the column's name."""
        panel, shown = self.panel, []
        for i in spread(len(self.chosen), PICTURED):
            s = int(self.chosen[i])
            end = int(panel.ends[s])
            rows = np.arange(max(int(panel.starts[s]), end - 3 * self.values.shape[1]), end)
            v = panel.columns.index(self.columns[0])
            shown.append(
                Prediction(
                    [str(panel.ids[s])],
                    pd.DatetimeIndex(self.dates[i]),
                    self.values[i, :, :1],
                    {level: low[i, :, :1] for level, low in self.low.items()},
                    {level: high[i, :, :1] for level, high in self.high.items()},
                    np.full_like(self.values[i, :, :1], np.nan),
                    panel.dates(rows),
                    panel.values[rows][:, [v]],
                    self.method,
                )
            )
        return shown


def predict(
    model: TrainedModel,
    panel: Panel,
    *,
    horizon: int | None = None,
    start: str | pd.Timestamp | None = None,
    levels: Sequence[Level] = (),
    method: str = "auto",
) -> SeriesPrediction:
    """The `horizon` steps (default: pred_len, and no more) after the end of every series.

    A series that was trained on keeps its scale; a new one is scaled by its own rows. Those with fewer than seq_len
    rows are left out, with a warning. Raises ConfigError for what cannot be asked of this model, DataError where what
    should be known ahead is missing.
    """
    levels = check_levels(levels)
    if start is not None:
        raise ConfigError(
            f"start={start}: many series are forecast from their own ends; give a file that ends before it"
        )
    horizon = check_horizon(model, horizon)
    if horizon > model.pred_len:
        raise ConfigError(
            f"horizon={horizon} is beyond pred_len={model.pred_len}, and many series are not rolled on: train with "
            f"pred_len={horizon}"
        )
    method = method_for(model, method, levels, horizon)
    model.check_freq("the series", panel.freq)
    panel = panel.until(model.pred_len)
    chosen = np.flatnonzero(panel.lengths >= model.seq_len)
    if not len(chosen):
        raise DataError(
            f"the longest series has {panel.lengths.max():,} rows, and this model reads {model.seq_len:,} (seq_len)"
        )
    if len(chosen) < len(panel):
        warnings.warn(
            f"{len(panel) - len(chosen):,} of {len(panel):,} series left out: fewer than seq_len={model.seq_len} rows",
            stacklevel=2,
        )
    check_known(panel, chosen, model.pred_len)
    saved = model.config["data"]
    scaled = ScaledPanel.of(
        "the series",
        panel,
        model.data_state,
        panel.starts,
        panel.ends,
        kind=saved["scaler"],
        by=saved["scale_by"],
        holidays=model.holidays,
    )
    point, own = forecasts(model, scaled, torch.from_numpy(chosen))
    point = point[:, :horizon]
    at: Sequence[float] = ()
    if levels and method == "quantile":
        at, quantiles = trained_bounds(model, levels, horizon), own[:, :horizon]
    elif levels:
        calibration = calibration_for(model, levels, horizon)
        levels = enough(calibration, levels)
        at, quantiles = calibration.quantiles, calibration.around(point)
    scaler, numbers = scaled.scaler.select(model.target_index), torch.from_numpy(chosen)

    def units(values: Tensor) -> Values:
        return scaler.inverse(values, numbers).numpy()

    low, high = {}, {}
    for level in levels:
        for side, p in zip((low, high), bounds(level), strict=True):
            side[level] = units(quantiles[..., at.index(p)])
    places = (panel.firsts + panel.lengths)[chosen][:, None] + np.arange(horizon)
    return SeriesPrediction(
        panel, chosen, saved["id_column"], saved["date_column"], model.target_columns, panel.grid.to_numpy()[places],
        units(point), low, high, method,
    )  # fmt: skip


def check_known(panel: Panel, chosen: Int64[np.ndarray, " series"], steps: int) -> None:
    """Raises DataError naming the first series, column and date that is to be known ahead and is not."""
    if not panel.known_columns:
        return
    rows = panel.ends[chosen][:, None] + np.arange(steps)  # (series, steps)
    there = rows < panel.stops[chosen][:, None]
    known = panel.known[np.where(there, rows, 0)]  # (series, steps, known)
    missing = ~(np.isfinite(known) & there[..., None])
    if missing.any():
        s, step, column = (int(i) for i in np.argwhere(missing)[0])
        series = chosen[s]
        date = panel.grid[int((panel.firsts + panel.lengths)[series]) + step]
        raise DataError(
            f"series {quote(panel.ids[series])}: {panel.known_columns[column]} is not known for {date}: a forecast "
            f"needs future covariates for {steps} steps after each series' end: add such rows, their values empty, or "
            "give future=FILE"
        )


@torch.inference_mode()
def forecasts(
    model: TrainedModel, scaled: ScaledPanel, chosen: Int64[Tensor, " series"]
) -> tuple[Tensor, Tensor]:
    """Scaled point forecasts (series, pred_len, n_targets), and the network's answers: quantiles, where it has them."""
    points, answers = [], []
    ends = torch.from_numpy(scaled.panel.ends)
    past, future = torch.arange(-model.seq_len, 0), torch.arange(model.pred_len)
    for series in track(chosen.split(BATCH), "Forecasting"):
        origins = ends[series][:, None]
        rows, ahead = origins + past, origins + future
        answer = model.forecast(
            scaled.values[rows], scaled.time.of(rows, series), scaled.time.of(ahead, series)
        )
        answers.append(answer)
        points.append(model.point(answer))
    return torch.cat(points), torch.cat(answers)


def described(model: TrainedModel, found: SeriesPrediction) -> list[str]:
    """What was forecast, in lines for the screen."""
    shown = ", ".join(found.columns[:8]) + (", ..." if len(found.columns) > 8 else "")
    new = int((~found.panel.ids[found.chosen].isin(model.data_state["ids"])).sum())
    lines = [
        f"forecast   {shown}: {len(found.chosen):,} series, {found.values.shape[1]} steps after the end of each, every "
        f"{model.freq}, {pd.Timestamp(found.dates.min())} to {pd.Timestamp(found.dates.max())}"
    ]
    if new:
        lines.append(f"new        {new:,} series were not trained on: scaled by their own rows")
    if model.refitted is not None:
        lines.append(
            f"model      refitted on all {model.refitted['rows']:,} rows, to {model.refitted['last_date']}"
        )
    if found.low:
        levels = ", ".join(f"{level:g}%" for level in found.low)
        lines.append(f"bounds     {levels}, {found.method}, from scaled errors pooled over the series")
    return lines
