"""Windows of training, validation and test, and scores on values that are standardised by the training rows."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from peer_scores.tasks import Task

Starts = Int64[np.ndarray, " windows"]
Targets = Float64[np.ndarray, "rows columns"]
Forecasts = Float64[np.ndarray, "columns windows horizon"]


@dataclass(frozen=True)
class Split:
    """The windows of a split: the input may begin in the rows before, the horizon lies within the rows.

    Attributes:
        train_end, test_start: rows where validation and test begin.
        rows: number of rows; later ones are in no part.
        seq_len: input steps.
        horizon: steps of a forecast.
    """

    train_end: int
    test_start: int
    rows: int
    seq_len: int
    horizon: int

    @classmethod
    def of(cls, task: Task, rows: int) -> "Split":
        """Return the split of the rows of a task.

        Raises:
            ValueError: there are fewer rows than `task.days`.
        """
        if task.days is None:
            train_end, test_start = int(rows * 0.7), rows - int(rows * 0.2)
        else:
            if rows < sum(task.days) * task.steps_per_day:
                raise ValueError(f"{task.path}: {rows} rows are fewer than {sum(task.days)} days")
            train_end, test_start, rows = (np.cumsum(task.days) * task.steps_per_day).tolist()
        return cls(train_end, test_start, rows, task.seq_len, task.horizon)

    def starts(self, part: str) -> Starts:
        """Return the row of the first step of each horizon in `train`, `val` or `test`."""
        first, last = {
            "train": (self.seq_len, self.train_end),
            "val": (self.train_end, self.test_start),
            "test": (self.test_start, self.rows),
        }[part]
        return np.arange(first, last - self.horizon + 1, dtype=np.int64)

    def steps(self, starts: Starts) -> Int64[np.ndarray, "windows horizon"]:
        """Return the rows of the horizons that begin at these rows."""
        return starts[:, None] + np.arange(self.horizon)

    def standardise(self, values: Float64[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
        """Return values with mean 0 and standard deviation 1 in the training rows, column by column."""
        mean, deviation = self.scale(values)
        return (values - mean) / deviation

    def scale(
        self, values: Float64[np.ndarray, "..."]
    ) -> tuple[Float64[np.ndarray, "..."], Float64[np.ndarray, "..."]]:
        """Return mean and standard deviation of the values that are not missing in the training rows."""
        known = values[: self.train_end]
        return np.nanmean(known, axis=0), np.nanstd(known, axis=0)

    def score(self, forecasts: Forecasts, targets: Targets) -> dict[str, float]:
        """Return MSE and MAE over all columns and test windows; both arguments are standardised.

        Raises:
            ValueError: values to forecast are missing.
        """
        steps = self.steps(self.starts("test"))
        if np.isnan(targets[self.test_start : self.rows]).any():
            raise ValueError("the test rows have missing values")
        squares, sizes = [], []
        for target, forecast in zip(targets.T, forecasts, strict=True):
            error = forecast - target[steps]
            squares.append(np.mean(error**2))
            sizes.append(np.mean(np.abs(error)))
        return {"mse": float(np.mean(squares)), "mae": float(np.mean(sizes))}


def repeat_last_value(split: Split, targets: Targets) -> Forecasts:
    """Return the naive forecasts of the test windows: the last value before the horizon."""
    last = targets[split.starts("test") - 1].T
    return np.repeat(last[:, :, None], split.horizon, axis=2)
