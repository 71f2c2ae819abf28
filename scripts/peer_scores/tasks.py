"""The rows of a task, read without this project: dates, the target, and the columns that are known ahead."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

from results.settings import WITH_COVARIATES

SEQ_LEN, HORIZON = 168, 24
CALENDAR = {"hour": 24, "weekday": 7, "day of the year": 365.25}
"""Parts of a date, and how many make a cycle."""


@dataclass(frozen=True)
class Rows:
    """The rows of a task.

    Attributes:
        dates: of the rows, one hour apart.
        target: the values to forecast.
        known: values that are known over the horizon, by name.
    """

    dates: pd.DatetimeIndex
    target: Float64[np.ndarray, " rows"]
    known: dict[str, Float64[np.ndarray, " rows"]]

    def calendar(self) -> dict[str, Float64[np.ndarray, " rows"]]:
        """Return parts of the dates."""
        parts = (self.dates.hour, self.dates.day_of_week, self.dates.day_of_year)
        return {name: part.to_numpy(np.float64) for name, part in zip(CALENDAR, parts, strict=True)}


def read_rows(name: str, root: Path) -> Rows:
    """Read the rows of a task, from the first value of the target on."""
    path, target, known = WITH_COVARIATES[name]
    table = pd.read_csv(root / path, skipinitialspace=True)
    if "Hour" in table:  # 1 to 24
        hours = pd.to_timedelta(table["Hour"].to_numpy() - 1, unit="h")
        dates = pd.DatetimeIndex(pd.to_datetime(table["Date"])) + hours
    else:
        dates = pd.DatetimeIndex(pd.to_datetime(table["date"]))
    first = int(table[target].notna().to_numpy().argmax())
    values = {column: table[column].to_numpy(np.float64)[first:] for column in (target, *known.split(","))}
    rows = Rows(dates[first:], values.pop(target), values)
    if not (np.diff(rows.dates.to_numpy()) == np.timedelta64(1, "h")).all():
        raise ValueError(f"{path}: the rows are not one hour apart")
    return rows
