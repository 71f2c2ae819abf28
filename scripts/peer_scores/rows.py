"""The rows of a task, read without this project: dates, the targets, and the columns that are known ahead."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

from peer_scores.tasks import Task

CALENDAR = {"hour": 24, "weekday": 7, "day of the year": 365.25}
"""Parts of a date, and how many make a cycle."""

Values = Float64[np.ndarray, " rows"]


@dataclass(frozen=True)
class Rows:
    """The rows of a task.

    Attributes:
        dates: of the rows, equally far apart.
        targets: the values to forecast; NaN where they are missing.
        known: values that are known over the horizon, by name.
    """

    dates: pd.DatetimeIndex
    targets: Float64[np.ndarray, "rows columns"]
    known: dict[str, Values]

    def calendar(self) -> dict[str, Values]:
        """Return parts of the dates."""
        hours = self.dates.hour + self.dates.minute / 60
        parts = (hours, self.dates.day_of_week, self.dates.day_of_year)
        return {name: part.to_numpy(np.float64) for name, part in zip(CALENDAR, parts, strict=True)}


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
    if any(np.isnan(values).any() for values in known.values()):
        raise ValueError(f"{task.path}: values of {', '.join(known)} or whole rows are missing")
    return Rows(grid, numbers[:, : len(names)], known)


def interpolate(targets: Float64[np.ndarray, "rows columns"]) -> Float64[np.ndarray, "rows columns"]:
    """Fill missing values linearly, as the peers read none."""
    return pd.DataFrame(targets).interpolate(limit_direction="both").to_numpy()
