"""Data of the page's charts as plain values, rounded and subsampled so that the page of many runs stays small."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from forecast.reports.colours import LIGHT, colour_number
from forecast.reports.compare.entry import Entry
from forecast.reports.compare.factors import Factor
from forecast.reports.compare.number_format import find_date_format
from forecast.reports.compare.scores import COSTS, is_comparable
from forecast.reports.compare.task import Task

DIGITS = 4  # significant digits of a value
MAX_CURVE_POINTS, MAX_STEP_POINTS, MAX_DATE_POINTS, MAX_WINDOW_POINTS = 100, 120, 200, 300
"""Points of one line at most."""
MAX_VARIABLES = 24  # in the chart of errors by variable
MAX_FORECAST_VALUES = 300_000  # values of all forecast charts together, about 6 bytes each

Values = list[float | None]


def make_chart_data(task: Task, n_tasks: int) -> dict[str, Any]:
    """Return the data of all charts of one of `n_tasks` tasks. Variants and baselines are numbered as in `entries`."""
    drawn = [*task.variants, *task.baselines]
    colours = number_colours(task.variants)
    steps = subsample(task.pred_len, MAX_STEP_POINTS)
    variables = find_largest_errors(task)
    return {
        "title": task.title,
        "score": task.score_label,
        "reference": "the best variant" if task.reference is task.best else task.reference.name,
        "entries": [
            {
                "name": entry.name,
                "baseline": entry.is_baseline,
                "colour": colours.get(entry.name),
                "seeds": [run.metrics["seed"] for run in entry.runs],
                "errors": round_values(entry.values(entry.score)),
                "difference": make_difference(task, entry),
                "cumulative": make_cumulative(task, entry),
                "steps": round_values(entry.by_step[steps]),
                "variables": round_values(entry.by_variable[variables]),
                "curves": [] if entry.is_baseline else [make_curves(run.curves) for run in entry.runs],
            }
            for entry in drawn
        ],
        "steps": [i + 1 for i in steps],
        "variables": [str(task.first_run.variables["variable"][i]) for i in variables],
        "dates": find_dates(task),
        "costs": [cost for column in COSTS[:4] if (cost := make_cost(task, column.key, column.heading))],
        "windows": make_forecasts(task, drawn, MAX_FORECAST_VALUES // n_tasks),
    }


def number_colours(variants: Sequence[Entry]) -> dict[str, int]:
    """Return the index of each variant's colour: that of its attention type, or its rank if there is one type only."""
    types = [str(entry.runs[0].metrics["attention"]) for entry in variants]
    if len(set(types)) == 1:
        return {entry.name: rank % len(LIGHT) for rank, entry in enumerate(variants)}
    return {entry.name: colour_number(name, types) for entry, name in zip(variants, types, strict=True)}


def make_factor_data(factor: Factor | None) -> dict[str, Any] | None:
    """Return the data of the charts of a factor: differences from the best value, and average ranks."""
    if factor is None:
        return None
    entries = []
    for number, level in enumerate(factor.levels):
        difference, rank = factor.differences.get(level), factor.average_rank(level)
        percent = (
            [100 * v for v in (difference.mean, *difference.relative_interval())]
            if difference
            else [math.nan]
        )
        is_attention = factor.name == "attention"
        entries.append(
            {
                "name": level,
                "baseline": False,
                "colour": colour_number(level, factor.levels) if is_attention else number % len(LIGHT),
                "difference": None if any(map(math.isnan, percent)) else round_values(percent),
                "rank": make_rank(rank, factor.critical_difference),
            }
        )
    return {"score": factor.tasks[0].score_label, "entries": entries}


def make_rank(rank: float, critical_difference: float) -> Values | None:
    """Return an average rank, and half the critical difference to each side; None if there are too few tasks."""
    half = critical_difference / 2
    return None if math.isnan(half) else round_values([rank, rank - half, rank + half])


def make_difference(task: Task, entry: Entry) -> Values | None:
    """Return the error minus the reference's and its 95% interval, in percent of the latter; None if it is unknown."""
    if entry is task.reference:
        return None
    numbers = [task.relative_difference(entry), *task.relative_interval(entry)]
    return None if any(map(math.isnan, numbers)) else round_values([100 * number for number in numbers])


def make_cumulative(task: Task, entry: Entry) -> Values | None:
    """Return the sum of the loss differences from the reference up to each date, in percent of the reference's error.

    The last value is the relative difference of the errors (Goyal and Welch 2008, A Comprehensive Look at the Empirical
    Performance of Equity Premium Prediction, figure 1).
    """
    losses, reference = entry.tested_losses, task.reference.tested_losses
    if entry is task.reference or not task.reference.error > 0:
        return None
    sums = np.cumsum(losses - reference) / (len(losses) * task.reference.error)
    return round_values(100 * sums[subsample(len(losses), MAX_DATE_POINTS)])


def find_dates(task: Task) -> list[str]:
    """Return the first forecast dates of the losses in `make_cumulative`."""
    shown = task.dates[subsample(len(task.dates), MAX_DATE_POINTS)]
    return pd.DatetimeIndex(shown).strftime(find_date_format(task.dates)).tolist()


def make_cost(task: Task, key: str, heading: str) -> dict[str, Any] | None:
    """Return the mean cost of each variant, with the Pareto front if it can be compared; None if a cost is unknown."""
    means = [entry.mean(key) for entry in task.variants]
    if not all(map(math.isfinite, means)):
        return None
    errors = [entry.error for entry in task.variants]
    front = find_pareto_front(means, errors) if is_comparable(task, key) else []
    return {"key": key, "heading": heading, "values": round_values(means), "front": front}


def find_pareto_front(costs: Sequence[float], errors: Sequence[float]) -> list[int]:
    """Return the indices of the points that no other point dominates, in ascending order of cost.

    Of equal points, one is returned.
    """
    front: list[int] = []
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], errors[i])):
        if not front or errors[i] < errors[front[-1]]:
            front.append(i)
    return front


def make_curves(table: pd.DataFrame) -> dict[str, Any]:
    """Return the training curves of a run, from its metrics.csv."""
    rows = table.iloc[subsample(len(table), MAX_CURVE_POINTS)]
    return {
        "epoch": [int(epoch) + 1 for epoch in rows["epoch"]],
        **{name: round_values(rows[name]) for name in ("val/mse", "train/loss") if name in rows},
    }


def find_largest_errors(task: Task) -> list[int]:
    """Return the indices of the variables with the best variant's largest errors, in the order of the data."""
    return sorted(np.argsort(-task.best.by_variable)[:MAX_VARIABLES].tolist())


def make_forecasts(task: Task, drawn: list[Entry], budget: int) -> dict[str, Any] | None:
    """Return forecasts of the same test windows, by the first run of each entry that saved any.

    Returns None if no run saved its forecasts. If all variables need more than `budget` values, only the last
    variables are returned.
    """
    runs = [next((run for run in entry.runs if run.has_forecasts), None) for entry in drawn]
    tables = [run and run.forecasts for run in runs]
    known = [table for table in tables if table is not None]
    if not known:
        return None
    longest = max(known, key=len)  # runs with a longer seq_len save more history
    starts = pd.DatetimeIndex(longest.drop_duplicates("window")["forecast_start"])
    variables = list(dict.fromkeys(longest["variable"]))
    length = len(longest) // (len(starts) * len(variables))
    steps = [task.pred_len - length + 1 + i for i in subsample(length, MAX_WINDOW_POINTS)]
    future_steps = [step for step in steps if step > 0]
    truth, dates = select_steps(longest, "truth", steps), select_steps(longest, "date", steps)
    forecasts = [
        None if table is None else select_steps(table, entry.column, future_steps)
        for entry, table in zip(drawn, tables, strict=True)
    ]
    n_fitting = max(1, budget // (len(starts) * min(task.pred_len, MAX_WINDOW_POINTS) * len(known)))
    shown = list(enumerate(variables))[-n_fitting:]
    date_format = find_date_format(longest["date"].to_numpy())
    windows = []
    for number, start in enumerate(starts):
        first = number * len(variables)  # row of the window's first variable
        by_variable = {
            name: {
                "truth": round_values(truth[first + i]),
                "forecasts": [None if rows is None else round_values(rows[first + i]) for rows in forecasts],
            }
            for i, name in shown
        }
        windows.append(
            {
                "start": start.strftime(date_format),
                "dates": pd.DatetimeIndex(dates[first]).strftime(date_format).tolist(),
                "history": len(steps) - len(future_steps),
                "variables": by_variable,
            }
        )
    return {
        "variables": [name for _, name in shown],
        "every": math.ceil(length / MAX_WINDOW_POINTS),
        "windows": windows,
        "missing": [entry.name for entry, table in zip(drawn, tables, strict=True) if table is None],
    }


def select_steps(table: pd.DataFrame, column: str, steps: list[int]) -> np.ndarray:
    """Return a column of a forecasts table at the given steps (n_windows * n_variables, n_steps)."""
    return table[column].to_numpy()[np.isin(table["step"].to_numpy(), steps)].reshape(-1, len(steps))


def subsample(length: int, most: int) -> list[int]:
    """Return at most `most` equally spaced indices of `length` positions, among them the last."""
    every = max(1, math.ceil(length / most))
    return sorted(range(length - 1, -1, -every))


def round_values(values: Any) -> Values:
    """Return values with few digits as floats, None for values that are not finite."""
    return [float(f"{v:.{DIGITS}g}") if math.isfinite(v) else None for v in np.asarray(values, dtype=float)]
