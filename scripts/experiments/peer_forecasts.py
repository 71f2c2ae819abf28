# pyright: reportMissingImports=false
"""Train a peer, or repeat the last value (`naive`), and write the test scores; see `experiments.peers`."""

import json
import logging
import math
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.peers import FORECASTERS, TASKS, Task, list_settings

CALENDAR = {"hour": 24, "weekday": 7, "day of the year": 365.25}
"""Parts of a date, and how many make a cycle."""
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


@dataclass(frozen=True)
class Rows:
    """The rows of a task, read without this project, and their split."""

    task: Task
    dates: pd.DatetimeIndex  # equally far apart
    targets: np.ndarray  # (rows, columns), standardised by the training rows; NaN where they are missing
    known: dict[str, np.ndarray]  # values that are known over the horizon, by name: (rows,)
    bounds: tuple[int, ...]  # rows where training ends, the test begins and the test ends

    def starts(self, part: str) -> np.ndarray:
        """Return the row of the first step of each horizon in `train`, `val` or `test`.

        The input may begin in the rows before, the horizon lies within the rows.
        """
        train_end, test_start, end = self.bounds
        first = {"train": self.task.seq_len, "val": train_end, "test": test_start}[part]
        last = {"train": train_end, "val": test_start, "test": end}[part]
        return np.arange(first, last - self.task.horizon + 1)

    def steps(self, starts: np.ndarray) -> np.ndarray:
        """Return the rows of the horizons that begin at these rows: (windows, horizon)."""
        return starts[:, None] + np.arange(self.task.horizon)

    def standardise(self, values: np.ndarray) -> np.ndarray:
        """Return values with mean 0 and standard deviation 1 in the training rows, column by column."""
        known = values[: self.bounds[0]]
        return (values - np.nanmean(known, axis=0)) / np.nanstd(known, axis=0)

    def filled(self) -> np.ndarray:
        """Return the targets with missing values interpolated, as the peers read none."""
        return pd.DataFrame(self.targets).interpolate(limit_direction="both").to_numpy()

    def calendar(self) -> dict[str, np.ndarray]:
        """Return parts of the dates."""
        hours = self.dates.hour + self.dates.minute / 60
        parts = (hours, self.dates.day_of_week, self.dates.day_of_year)
        return {name: part.to_numpy(np.float64) for name, part in zip(CALENDAR, parts, strict=True)}

    def score(self, forecasts: np.ndarray) -> dict[str, float]:
        """Return MSE and MAE of standardised forecasts, (columns, windows, horizon), over all test windows.

        Raises:
            ValueError: values to forecast are missing.
        """
        truth = np.moveaxis(self.targets[self.steps(self.starts("test"))], 2, 0)
        if np.isnan(truth).any():
            raise ValueError("the test rows have missing values")
        errors = [forecast - values for forecast, values in zip(forecasts, truth, strict=True)]
        scores = [(np.mean(error**2), np.mean(np.abs(error))) for error in errors]
        return dict(zip(("mse", "mae"), map(float, np.mean(scores, axis=0)), strict=True))


def read_rows(task: Task, root: Path) -> Rows:
    """Read the rows of a task, from the first value of the target on. Of rows with equal dates, the first is kept.

    Raises:
        ValueError: the dates are not on the grid of the task, the number of columns to forecast differs from
            `task.columns`, or values of known columns are missing.
    """
    table = pd.read_csv(root / task.path, skipinitialspace=True, encoding="latin-1")
    if "Hour" in table:  # 1 to 24
        hours = pd.to_timedelta(table["Hour"].to_numpy() - 1, unit="h")
        dates = pd.DatetimeIndex(pd.to_datetime(table["Date"])) + hours
    else:
        dates = pd.DatetimeIndex(pd.to_datetime(table["date"]))
    names = [task.target] if task.target else [name for name in table.columns if name != "date"]
    if len(names) != task.columns:
        raise ValueError(f"{task.path}: {len(names)} columns to forecast in place of {task.columns}")
    numbers = table[[*names, *task.known]].to_numpy(np.float64)
    numbers[numbers == task.missing] = np.nan
    first = int((~np.isnan(numbers[:, 0])).argmax()) if task.target else 0
    values = pd.DataFrame(numbers[first:], index=dates[first:])
    values = values.loc[~values.index.duplicated()]
    grid = pd.date_range(values.index[0], values.index[-1], freq=f"{task.minutes}min")
    if not values.index.isin(grid).all():
        raise ValueError(f"{task.path}: the rows are not {task.minutes} minutes apart")
    numbers = values.reindex(grid).to_numpy()
    known = dict(zip(task.known, numbers[:, len(names) :].T, strict=True))
    if any(np.isnan(column).any() for column in known.values()):
        raise ValueError(f"{task.path}: values of {', '.join(known)} or whole rows are missing")
    bounds = (int(len(grid) * 0.7), len(grid) - int(len(grid) * 0.2), len(grid))
    if task.days:
        bounds = tuple(int(day) * task.steps_per_day for day in np.cumsum(task.days))
    rows = Rows(task, grid, numbers[:, : len(names)], known, bounds)
    return Rows(task, grid, rows.standardise(rows.targets), known, bounds)


def repeat_last_value(rows: Rows) -> np.ndarray:
    """Forecast the last value before each horizon of the test."""
    last = rows.targets[rows.starts("test") - 1].T
    return np.repeat(last[:, :, None], rows.task.horizon, axis=2)


def make_features(rows: Rows, target: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the features of each step of the horizons that begin at `starts`, window by window, for LightGBM.

    They read no target from the first step of the horizon on. Past values are relative to the mean of the lookback
    window, so that trees need not extrapolate the level.

    Args:
        target: the column to forecast, without missing values: (rows,).
    """
    task, day, steps = rows.task, rows.task.steps_per_day, rows.steps(starts)
    if task.horizon > day or task.seq_len < day:
        raise ValueError("the lags need a horizon of at most a day and an input of at least a day")
    level = trailing_means(target, task.seq_len)[starts]
    spans = [day] if day == 24 else [day, day // 4, day // 24]
    of_windows = [
        level,
        *(trailing_means(target, span)[starts] - level for span in spans),
        *(target[starts - lag] - level for lag in (1, 2, 3)),
        *(trailing_means(values, day)[starts] for values in rows.known.values()),
        *(trailing_means(values, day)[starts + task.horizon] for values in rows.known.values()),
    ]
    lags = range(day, task.seq_len + 1, day)
    of_steps = [
        np.broadcast_to(np.arange(task.horizon), steps.shape),
        *(target[steps - lag] - level[:, None] for lag in lags),
        *(values[steps - lag] for values in rows.known.values() for lag in (0, day, lags[-1])),
        *(values[steps] for values in rows.calendar().values()),
    ]
    spread = [np.broadcast_to(values[:, None], steps.shape) for values in of_windows]
    return np.stack([values.ravel().astype(np.float32) for values in spread + of_steps], axis=1)


def trailing_means(values: np.ndarray, length: int) -> np.ndarray:
    """Return the mean of the `length` values before each row and before the end; NaN where there are fewer."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means = np.full(len(sums), np.nan)
    means[length:] = (sums[length:] - sums[:-length]) / length
    return means


def forecast_lightgbm(rows: Rows, settings: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
    """Train one model for all columns and steps, with early stopping on the validation windows."""
    import lightgbm

    limits = {key: settings.pop(key) for key in ("rows", "trees", "patience")}
    targets, task = rows.filled(), rows.task

    def make_samples(starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the features, the number of the column before them, the outputs and the levels."""
        inputs, levels = [], []
        for column, target in enumerate(targets.T):
            features = make_features(rows, target, starts)
            inputs.append(np.concatenate([np.full((len(features), 1), column, np.float32), features], axis=1))
            levels.append(np.repeat(trailing_means(target, task.seq_len)[starts], task.horizon))
        level = np.concatenate(levels)
        return np.concatenate(inputs), np.moveaxis(targets[rows.steps(starts)], 2, 0).ravel() - level, level

    data = {}
    for part in ("train", "val"):
        starts = rows.starts(part)
        starts = starts[:: math.ceil(len(starts) * task.horizon * task.columns / limits["rows"])]
        data[part] = lightgbm.Dataset(*make_samples(starts)[:2], categorical_feature=[0], reference=data.get("train"))
    booster = lightgbm.train(
        settings, data["train"], num_boost_round=limits["trees"], valid_sets=[data["val"]],
        callbacks=[lightgbm.early_stopping(limits["patience"], verbose=False)],
    )  # fmt: skip
    features, _, level = make_samples(rows.starts("test"))
    found = np.asarray(booster.predict(features, num_threads=1)) + level
    return found.reshape(task.columns, -1, task.horizon), {"trees": booster.best_iteration}


def forecast_neuralforecast(rows: Rows, name: str, settings: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
    """Train a model with early stopping on the validation rows, and forecast the test windows."""
    import torch
    from neuralforecast import NeuralForecast, models
    from neuralforecast.losses.pytorch import MSE

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    task, table = rows.task, tabulate(rows)
    train_end, test_start, end = rows.bounds
    kind, known = getattr(models, name), list(table.columns[3:])
    given: dict[str, Any] = {"n_series": task.columns} if kind.MULTIVARIATE else {}
    if kind.EXOGENOUS_FUTR:
        given["futr_exog_list"] = known
    elif kind.EXOGENOUS_HIST:
        given["hist_exog_list"] = known
    model = kind(
        h=task.horizon, input_size=task.seq_len, loss=MSE(), alias="forecast", **given, **settings, **QUIET
    )  # fmt: skip
    trained = NeuralForecast([model], freq=f"{task.minutes}min")
    found = trained.cross_validation(table, val_size=test_start - train_end, test_size=end - test_start, n_windows=None)
    found = found.sort_values(["unique_id", "cutoff", "ds"])["forecast"].to_numpy(np.float64)
    validation = {"validation_mse_by_step": trained.models[0].valid_trajectories}
    return found.reshape(task.columns, -1, task.horizon), validation


def tabulate(rows: Rows) -> pd.DataFrame:
    """Return the rows in the layout of neuralforecast: id, date, target, then the known columns and the calendar as
    cycles."""
    angles = {name: 2 * np.pi * part / CALENDAR[name] for name, part in rows.calendar().items()}
    shared = pd.DataFrame(
        {
            "ds": rows.dates,
            **{name: rows.standardise(values) for name, values in rows.known.items()},
            **{f"sine of {name}": np.sin(angle) for name, angle in angles.items()},
            **{f"cosine of {name}": np.cos(angle) for name, angle in angles.items()},
        }
    )
    tables = []
    for column, target in enumerate(rows.filled().T):
        table = shared.assign(unique_id=f"{column:03}", y=target)
        tables.append(table[["unique_id", "ds", "y", *shared.columns[1:]]].iloc[: rows.bounds[2]])
    return pd.concat(tables, ignore_index=True)


def main() -> None:
    root, name, peer, out = sys.argv[1:]
    rows, facts = read_rows(TASKS[name], Path(root)), {}
    if peer == "naive":
        forecasts = repeat_last_value(rows)
    elif (forecaster := FORECASTERS[peer]).library == "lightgbm":
        forecasts, facts = forecast_lightgbm(rows, list_settings(rows.task, forecaster))
    else:
        settings = list_settings(rows.task, forecaster)
        forecasts, facts = forecast_neuralforecast(rows, forecaster.model, settings)
    Path(out).write_text(json.dumps({**rows.score(forecasts), "test_windows": forecasts.shape[1], **facts}))


if __name__ == "__main__":
    main()
