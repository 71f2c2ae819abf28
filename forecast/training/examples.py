"""Example forecasts of a run: a few test windows with the forecasts of the model and of the baselines."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.data import DataModule
from forecast.data.even_spacing import choose_evenly_spaced
from forecast.data.panel_labels import id_columns
from forecast.evaluation.levels import Level, bounds
from forecast.evaluation.measurement import Results
from forecast.evaluation.scores import MODEL
from forecast.reports.plotted_forecast import Band
from forecast.training.module import Forecaster
from forecast.training.point_forecast import compute_output

MAX_EXAMPLES = 3
"""Largest number of example windows."""

MAX_HISTORY = 120
"""Largest number of steps of history before a forecast: three horizons, cut to this number but not below one."""


@dataclass(frozen=True)
class Examples:
    """A few test windows in original units, evenly spaced; the choice does not depend on the model or its seq_len.

    Attributes:
        numbers: number of each window in the split.
        dates: dates of each window, history and horizon.
        truth: true values of each window (history + pred_len, n_targets).
        forecasts: forecasts of the model and each baseline (windows, pred_len, n_targets).
        band: the model's intervals of the lowest level; None without intervals.
        pred_len: steps of the horizon.
        ids: the column with the id of each window's series; empty if the data has no ids.
    """

    numbers: list[int]
    dates: list[pd.DatetimeIndex]
    truth: list[np.ndarray]
    forecasts: dict[str, np.ndarray]
    band: Band | None
    pred_len: int
    ids: dict[str, list[str]]

    def table(self, names: list[str], variables: list[int]) -> pd.DataFrame:
        """Arrange in long form: one row per window, step (history up to 0, horizon from 1) and variable."""
        parts = []
        for w, number in enumerate(self.numbers):
            history = len(self.dates[w]) - self.pred_len
            for v in variables:
                columns = {
                    name: np.concatenate([np.full(history, np.nan), values[w, :, v]])
                    for name, values in self.forecasts.items()
                }
                parts.append(
                    pd.DataFrame(
                        {
                            "window": number,
                            **{name: ids[w] for name, ids in self.ids.items()},
                            "forecast_start": self.dates[w][history],
                            "date": self.dates[w],
                            "step": np.arange(1 - history, self.pred_len + 1),
                            "variable": names[v],
                            "truth": self.truth[w][:, v],
                            **columns,
                        }
                    )
                )
        return pd.concat(parts, ignore_index=True)


def forecast_examples(forecaster: Forecaster, data: DataModule, results: Results) -> Examples:
    """Forecast a few test windows with the model and every baseline."""
    test = data.windows["test"]
    chosen = torch.from_numpy(choose_evenly_spaced(len(test), MAX_EXAMPLES)).to(test.device)
    batch = test.gather(chosen)
    output = compute_output(forecaster, batch)
    scaled = {MODEL: forecaster.point(output)}
    scaled |= {name: baseline(test, batch) for name, baseline in results.baselines.items()}
    shown = min(test.seq_len, max(test.pred_len, min(3 * test.pred_len, MAX_HISTORY)))
    origins, series = test.origins(chosen), test.series(chosen)
    rows = (origins.cpu()[:, None] + torch.arange(-shown, test.pred_len)).numpy()
    # of the panel, because scaled float32 values would lose the last digits
    values = data.panel.values[rows.ravel()].reshape(*rows.shape, -1)
    truth = values[..., [data.panel.columns.index(name) for name in data.target_columns]]

    def units(values: Tensor) -> np.ndarray:
        return data.unscale_targets(data.clip_targets(values.float(), series), series).cpu().numpy()

    intervals = compute_intervals(forecaster, output)
    return Examples(
        chosen.tolist(),
        [data.panel.dates(r) for r in rows],
        list(truth),
        {name: units(prediction) for name, prediction in scaled.items()},
        intervals and Band(intervals[0], *map(units, intervals[1:])),
        test.pred_len,
        {name: ids.tolist() for name, ids in id_columns(data.panel, series.cpu().numpy()).items()},
    )


def compute_intervals(forecaster: Forecaster, output: Tensor) -> tuple[Level, Tensor, Tensor] | None:
    """Return the lowest level of the intervals, and their scaled bounds: trained quantiles, or else conformal ones.

    Returns None without levels, and with too few validation windows to calibrate on.
    """
    if not forecaster.levels:
        return None
    level, calibration = min(forecaster.levels), forecaster.calibration
    if forecaster.quantiles is not None and not forecaster.is_untrained:
        probabilities, quantiles = forecaster.quantiles, output
    elif calibration is not None and calibration.has([level]) and calibration.supports(level):
        probabilities, quantiles = calibration.quantiles, calibration.around(forecaster.point(output))
    else:
        return None
    low, high = (quantiles[..., probabilities.index(p)] for p in bounds(level))
    return level, low, high
