"""The model interface of fev, the package of fev-bench (extra `fev`): one training for all windows of a task."""

from typing import Any

import numpy as np
import pandas as pd

from forecast.api import Model, fit
from forecast.evaluation.levels import Level
from forecast.system.errors import NotInstalled

try:
    import fev  # pyright: ignore[reportMissingImports]
    from fev.constants import PREDICTIONS  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as error:
    raise NotInstalled("forecast.adapters.fev_model", "fev", error.name or "fev") from None

TARGET = "target"


class InformerForecast(fev.ForecastingModel):
    """Trains one model on the rows before the first window of a task, and forecasts every window with it.

    Each of several targets is forecast as a series of its own. A task with quantiles trains them (`loss=quantile`); the
    median is the point forecast. The working directory receives a run folder.

    Args:
        settings: arguments of `forecast.fit`. Without `seq_len`, `forecast.check` suggests the lengths and the settings
            of training for the rows of the task.
    """

    model_name = "informer-forecast"

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = settings

    def _fit_predict(self, task: fev.Task) -> list[Any]:
        model, forecasts = None, []
        levels = sorted({level_of(quantile) for quantile in task.quantile_levels} - {0})
        for window in task.iter_windows():
            past, future = read_window(window)
            if model is None:
                with self._record_training_time():
                    model = train(task, past, levels, self.settings)
            with self._record_inference_time():
                found = model.predict(
                    past, future=future if task.known_dynamic_columns else None, levels=levels
                )
            by_series = dict(list(found.groupby(task.id_column, sort=False)))
            records = [
                to_record(by_series[name], task.quantile_levels) for name in past[task.id_column].unique()
            ]
            forecasts.append(fev.combine_univariate_predictions_to_multivariate(records, task.target_columns))
        return forecasts


def read_window(window: fev.EvaluationWindow) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows before and after the cutoff in long format, with the static covariates as columns."""
    past, future, static = fev.convert_input_data(window, as_univariate=True, univariate_target_column=TARGET)
    if static is not None:
        past, future = (rows.merge(static, on=window.id_column) for rows in (past, future))
    return past, future


def train(task: fev.Task, past: pd.DataFrame, levels: list[Level], settings: dict[str, Any]) -> Model:
    """Train on the rows before the first window."""
    columns: dict[str, Any] = {
        "target": TARGET,
        "id_column": task.id_column,
        "date_column": task.timestamp_column,
        "past_covariates": task.past_dynamic_columns,
        "future_covariates": task.known_dynamic_columns,
        "static_covariates": task.static_columns,
    }
    given: dict[str, Any] = {"pred_len": task.horizon, "refit": "full", "pictures": False}
    given |= {"loss": "quantile", "levels": levels} if levels else {}
    given |= {**columns, "suggest": "seq_len" not in settings, **settings}
    given["overrides"] = ["logger=[]", *settings.get("overrides", ())]
    return fit(past, **given)


def level_of(quantile: float) -> Level:
    """The level, in percent, of the interval that a quantile bounds; 0: the median."""
    return float(np.round(abs(200 * quantile - 100), 6))


def to_record(rows: pd.DataFrame, quantiles: list[float]) -> dict[str, list[float]]:
    """The forecast of a series in the schema of fev: the point forecast and the quantiles."""
    record = {PREDICTIONS: rows[TARGET].tolist()}
    for quantile in quantiles:
        side = "lo" if quantile < 0.5 else "hi"
        level = level_of(quantile)
        record[str(quantile)] = rows[f"{TARGET}-{side}-{level:g}" if level else TARGET].tolist()
    return record
