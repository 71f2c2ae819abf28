"""Windows of a split 7:1:2 of the rows, and scores on values that are standardised by the training rows."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

Starts = Int64[np.ndarray, " windows"]
Forecasts = Float64[np.ndarray, "windows horizon"]


@dataclass(frozen=True)
class Split:
    """The windows of a split: the input may begin in the rows before, the horizon lies within the rows.

    Attributes:
        rows: number of rows.
        seq_len: input steps.
        horizon: steps of a forecast.
    """

    rows: int
    seq_len: int
    horizon: int

    @property
    def train_end(self) -> int:
        return int(self.rows * 0.7)

    @property
    def test_start(self) -> int:
        return self.rows - int(self.rows * 0.2)

    def starts(self, part: str) -> Starts:
        """Return the row of the first step of each horizon in `train`, `val` or `test`."""
        first, last = {
            "train": (self.seq_len, self.train_end),
            "val": (self.train_end, self.test_start),
            "test": (self.test_start, self.rows),
        }[part]
        return np.arange(first, last - self.horizon + 1, dtype=np.int64)

    def steps(self, part: str) -> Int64[np.ndarray, "windows horizon"]:
        """Return the rows of each horizon."""
        return self.starts(part)[:, None] + np.arange(self.horizon)

    def standardise(self, values: Float64[np.ndarray, " rows"]) -> Float64[np.ndarray, " rows"]:
        """Return values with mean 0 and standard deviation 1 in the training rows."""
        known = values[: self.train_end]
        return (values - known.mean()) / known.std()

    def score(self, forecasts: Forecasts, target: Float64[np.ndarray, " rows"]) -> dict[str, float]:
        """Return MSE and MAE of the forecasts of all test windows, in units of the standard deviation of the training
        rows."""
        error = (forecasts - target[self.steps("test")]) / target[: self.train_end].std()
        return {"mse": float(np.mean(error**2)), "mae": float(np.mean(np.abs(error)))}


def repeat_last_value(split: Split, target: Float64[np.ndarray, " rows"]) -> Forecasts:
    """Return the naive forecasts of the test windows: the last value before the horizon."""
    return np.repeat(target[split.starts("test") - 1][:, None], split.horizon, axis=1)
