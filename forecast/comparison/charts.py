"""What the page's charts draw, as plain values: rounded and thinned out, so that a page of many runs stays small."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from forecast.comparison.tables import COSTS, date_format
from forecast.comparison.tasks import Entry, Task

DIGITS = 4  # of a drawn value
CURVE_POINTS, STEP_POINTS, WINDOW_POINTS = 100, 120, 300
MOST_VARIABLES = 24  # in the chart of errors by variable
FORECAST_VALUES = 300_000  # of all tasks together, 6 bytes each

Values = list[float | None]


def data(task: Task, n_tasks: int) -> dict[str, Any]:
    """Everything that one task's charts draw; variants and baselines by their place in `entries`."""
    drawn = [*task.variants, *task.baselines]
    steps = thinned(task.pred_len, STEP_POINTS)
    variables = most_wrong(task)
    return {
        "title": task.title,
        "entries": [
            {
                "name": entry.name,
                "baseline": entry.is_baseline,
                "seeds": [run.metrics["seed"] for run in entry.runs],
                "mse": rounded(entry.values("mse")),
                "steps": rounded(entry.by_step[steps]),
                "variables": rounded(entry.by_variable[variables]),
                "curves": [] if entry.is_baseline else [curves(run.curves) for run in entry.runs],
            }
            for entry in drawn
        ],
        "steps": [i + 1 for i in steps],
        "variables": [str(task.first_run.variables["variable"][i]) for i in variables],
        "costs": [cost for column in COSTS[:4] if (cost := costs(task, column.key, column.heading))],
        "windows": forecasts(task, drawn, FORECAST_VALUES // n_tasks),
    }


def costs(task: Task, key: str, heading: str) -> dict[str, Any] | None:
    """Mean cost of each variant and those on the Pareto front; None where a variant's cost is unknown."""
    means = [entry.mean(key) for entry in task.variants]
    if not all(map(math.isfinite, means)):
        return None
    front = pareto_front(means, [entry.mean("mse") for entry in task.variants])
    return {"key": key, "heading": heading, "values": rounded(means), "front": front}


def pareto_front(costs: Sequence[float], errors: Sequence[float]) -> list[int]:
    """The numbers of those that no other beats in one without losing in the other, from the cheapest on."""
    front: list[int] = []
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], errors[i])):
        if not front or errors[i] < errors[front[-1]]:
            front.append(i)
    return front


def curves(table: pd.DataFrame) -> dict[str, Any]:
    kept = table.iloc[thinned(len(table), CURVE_POINTS)]
    return {
        "epoch": [int(epoch) + 1 for epoch in kept["epoch"]],
        **{name: rounded(kept[name]) for name in ("val/mse", "train/loss") if name in kept},
    }


def most_wrong(task: Task) -> list[int]:
    """The variables with the best variant's largest errors, in the order of the data."""
    return sorted(np.argsort(-task.best.by_variable)[:MOST_VARIABLES].tolist())


def forecasts(task: Task, drawn: list[Entry], budget: int) -> dict[str, Any] | None:
    """The same windows forecast by each entry's first seed that kept its forecasts; None where no run did.

    With many variants, of many variables only so many are kept that `budget` values suffice, the last among them.
    """
    found = [next((run for run in entry.runs if run.has_forecasts), None) for entry in drawn]
    tables = [run and run.forecasts for run in found]
    known = [table for table in tables if table is not None]
    if not known:
        return None
    longest = max(known, key=len)  # runs with a longer seq_len show more history
    starts = pd.DatetimeIndex(longest.drop_duplicates("window")["forecast_start"])
    names = list(dict.fromkeys(longest["variable"]))
    length = len(longest) // (len(starts) * len(names))
    fit = max(1, budget // (len(starts) * min(task.pred_len, WINDOW_POINTS) * len(known)))
    kept = [task.pred_len - length + 1 + i for i in thinned(length, WINDOW_POINTS)]  # steps
    ahead = [step for step in kept if step > 0]
    truth, dates = series(longest, "truth", kept), series(longest, "date", kept)
    answers = [
        None if table is None else series(table, entry.column, ahead)
        for entry, table in zip(drawn, tables, strict=True)
    ]
    written = date_format(longest["date"].to_numpy())
    shown = list(enumerate(names))[-fit:]
    windows = [
        {
            "start": start.strftime(written),
            "dates": pd.DatetimeIndex(dates[w * len(names)]).strftime(written).tolist(),
            "history": len(kept) - len(ahead),
            "variables": {
                name: {
                    "truth": rounded(truth[w * len(names) + v]),
                    "forecasts": [
                        None if answer is None else rounded(answer[w * len(names) + v]) for answer in answers
                    ],
                }
                for v, name in shown
            },
        }
        for w, start in enumerate(starts)
    ]
    return {
        "variables": names[-fit:],
        "every": math.ceil(length / WINDOW_POINTS),
        "windows": windows,
        "missing": [entry.name for entry, table in zip(drawn, tables, strict=True) if table is None],
    }


def series(table: pd.DataFrame, column: str, steps: list[int]) -> np.ndarray:
    """The values of a column at some steps: a row a window and variable, in the order of the table."""
    return table[column].to_numpy()[np.isin(table["step"].to_numpy(), steps)].reshape(-1, len(steps))


def thinned(length: int, most: int) -> list[int]:
    """Every so-manieth of `length` positions, counted back from the last, so that `most` are kept at most."""
    every = max(1, math.ceil(length / most))
    return sorted(range(length - 1, -1, -every))


def rounded(values: Any) -> Values:
    """Plain numbers with few digits; None where one is not finite."""
    return [float(f"{v:.{DIGITS}g}") if math.isfinite(v) else None for v in np.asarray(values, dtype=float)]
