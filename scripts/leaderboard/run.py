"""Train on the rows before the first origin of a task, forecast its origins, and score the forecasts."""

import json
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast import Model, fit
from leaderboard.scores import DECILES, repeat_season, score_window
from leaderboard.tasks import TARGET, Task

LEVELS = (20, 40, 60, 80)
"""Levels of the intervals whose bounds are the deciles beside the median."""
CONTEXT = 4
"""Windows of rows that a model is given: more than it reads, for baselines that read further back."""

Row = dict[str, float | str]
Predict = Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]


def run_task(task: Task, table: pd.DataFrame, model: str, overrides: list[str]) -> list[Row]:
    """Train a model, and return its row and that of the linear baseline of the same run.

    The working directory receives a run folder. `validation_mse` is that of the model before it is trained on all rows.

    Args:
        model: option of `model`, then overrides that are a part of its name, separated by spaces.
        overrides: others.
    """
    option, *changes = model.split()
    rows = table.iloc[: next(task.origins(len(table)))]
    return score_with_baseline(
        task.name,
        (model, " ".join(["linear baseline", *changes])),
        lambda: train(task, rows, [f"model={option}", *changes, *overrides]),
        lambda trained, baseline: score_task(task, table, predict_with(trained, baseline)),
        time.perf_counter,
    )


def score_with_baseline(
    task: str,
    names: tuple[str, str],
    train: Callable[[], Model],
    score: Callable[[Model, str | None], dict[str, float]],
    read_clock: Callable[[], float],
) -> list[Row]:
    """Train a model, and return its row and that of the linear baseline of the same run.

    Args:
        names: of the model and of the baseline.
        score: return the scores of the trained model, or of the baseline of this name.
        read_clock: return the seconds that are compared.
    """
    began = read_clock()
    trained = train()
    seconds = read_clock() - began
    metrics = json.loads((trained.path.parents[1] / "metrics.json").read_text())
    rows: list[Row] = []
    for name, baseline in zip(names, (None, "linear"), strict=True):
        began = read_clock()
        row: Row = {"model": name, "task": task, **score(trained, baseline), "training_s": seconds}
        row["inference_s"] = read_clock() - began
        if baseline is None:
            row["validation_mse"] = metrics["validation_mse"]
        rows.append(row)
    return rows


def train(task: Task, rows: pd.DataFrame, overrides: list[str]) -> Model:
    """Train on nine deciles: the settings are selected on the last rows, then the model is trained on all rows."""
    return fit(
        rows,
        target=TARGET,
        future_covariates=[name for name in rows if name != TARGET],
        attention="full",
        seq_len=task.seq_len,
        pred_len=task.horizon,
        loss="quantile",
        levels=list(LEVELS),
        refit="full",
        overrides=["logger=[]", "pictures=false", "data.split=[0.8,0.15,0.05]", *overrides],
    )


def predict_with(trained: Model, baseline: str | None) -> Predict:
    """Return the function from the rows before an origin, and the covariates after it, to a forecast."""
    return lambda past, future: trained.predict(past, future=future, levels=LEVELS, baseline=baseline)


def score_task(task: Task, table: pd.DataFrame, predict: Predict) -> dict[str, float]:
    """Return the mean scores over the origins."""
    values, scores = table[TARGET].to_numpy(dtype=np.float64), []
    for origin in task.origins(len(table)):
        past = table.iloc[origin - CONTEXT * task.seq_len : origin]
        future = table.iloc[origin : origin + task.horizon].drop(columns=TARGET)
        deciles = stack_deciles(predict(past, future))
        truth = values[origin : origin + task.horizon]
        scores.append(score_window(values[:origin], truth, deciles, task.season))
    return average(scores)


def stack_deciles(forecast: pd.DataFrame, target: str = TARGET) -> Float64[np.ndarray, "horizon 9"]:
    """The deciles of a forecast in ascending order."""
    low = [f"{target}-lo-{level}" for level in reversed(LEVELS)]
    high = [f"{target}-hi-{level}" for level in LEVELS]
    deciles = forecast[[*low, target, *high]].to_numpy(dtype=np.float64)
    assert deciles.shape[1] == len(DECILES)
    return deciles


def score_seasonal_naive(task: Task, table: pd.DataFrame) -> dict[str, float]:
    """Return the scores of the seasonal naive, which must equal the published ones."""
    values, scores = table[TARGET].to_numpy(dtype=np.float64), []
    for origin in task.origins(len(values)):
        past, truth = values[:origin], values[origin : origin + task.horizon]
        scores.append(score_window(past, truth, repeat_season(past, task.horizon, task.season), task.season))
    return average(scores)


def average(scores: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([each[name] for each in scores])) for name in scores[0]}
