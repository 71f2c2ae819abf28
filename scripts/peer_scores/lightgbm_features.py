"""Features of a window and a step for LightGBM. They read no target from the first step of the horizon on."""

import numpy as np
from jaxtyping import Float32, Float64

from peer_scores.rows import Rows, Values
from peer_scores.tasks import Task
from peer_scores.windows import Split, Starts


def make_features(
    rows: Rows, target: Values, task: Task, split: Split, starts: Starts
) -> Float32[np.ndarray, "samples features"]:
    """Return the features of each step of the horizons that begin at `starts`, window by window.

    Past values are relative to the mean of the lookback window, so that trees need not extrapolate the level.

    Args:
        target: the column to forecast, without missing values.
    """
    day, steps = task.steps_per_day, split.steps(starts)
    if split.horizon > day or split.seq_len < day:
        raise ValueError("the lags need a horizon of at most a day and an input of at least a day")
    level = trailing_means(target, split.seq_len)[starts]
    spans = [day] if day == 24 else [day, day // 4, day // 24]
    of_windows = [
        level,
        *(trailing_means(target, span)[starts] - level for span in spans),
        *(target[starts - lag] - level for lag in (1, 2, 3)),
        *(trailing_means(values, day)[starts] for values in rows.known.values()),
        *(trailing_means(values, day)[starts + split.horizon] for values in rows.known.values()),
    ]
    lags = range(day, split.seq_len + 1, day)
    of_steps = [
        np.broadcast_to(np.arange(split.horizon), steps.shape),
        *(target[steps - lag] - level[:, None] for lag in lags),
        *(values[steps - lag] for values in rows.known.values() for lag in (0, day, lags[-1])),
        *(values[steps] for values in rows.calendar().values()),
    ]
    spread = [np.broadcast_to(values[:, None], steps.shape) for values in of_windows]
    return np.stack([values.ravel().astype(np.float32) for values in spread + of_steps], axis=1)


def trailing_means(values: Values, length: int) -> Float64[np.ndarray, " rows_and_the_next"]:
    """Return the mean of the `length` values before each row and before the end; NaN where there are fewer."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means = np.full(len(sums), np.nan)
    means[length:] = (sums[length:] - sums[:-length]) / length
    return means
