"""Features of a window and a step for LightGBM. They read no target from the first step of the horizon on."""

import numpy as np
from jaxtyping import Float32, Float64

from peer_scores.tasks import Rows
from peer_scores.windows import Split

DAY, WEEK = 24, 168


def make_features(rows: Rows, split: Split, part: str) -> Float32[np.ndarray, "samples features"]:
    """Return the features of each window and step of a split, window by window.

    Past values are relative to the mean of the last week, so that trees need not extrapolate the level.
    """
    steps, starts = split.steps(part), split.starts(part)
    if split.horizon > DAY or split.seq_len < WEEK:
        raise ValueError("the lags need a horizon of at most 24 and an input of at least 168 steps")
    target, level = rows.target, trailing_means(rows.target, WEEK)[starts]
    of_windows = [
        level,
        trailing_means(target, DAY)[starts] - level,
        *(target[starts - lag] - level for lag in (1, 2, 3)),
        *(trailing_means(values, DAY)[starts] for values in rows.known.values()),
        *(trailing_means(values, DAY)[starts + split.horizon] for values in rows.known.values()),
    ]
    of_steps = [
        np.broadcast_to(np.arange(split.horizon), steps.shape),
        *(target[steps - lag] - level[:, None] for lag in range(DAY, WEEK + 1, DAY)),
        *(values[steps - lag] for values in rows.known.values() for lag in (0, DAY, WEEK)),
        *(values[steps] for values in rows.calendar().values()),
    ]
    spread = [np.broadcast_to(values[:, None], steps.shape) for values in of_windows]
    return np.stack([values.ravel().astype(np.float32) for values in spread + of_steps], axis=1)


def trailing_means(
    values: Float64[np.ndarray, " rows"], length: int
) -> Float64[np.ndarray, " rows_and_the_next"]:
    """Return the mean of the `length` values before each row and before the end; NaN where there are fewer."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means = np.full(len(sums), np.nan)
    means[length:] = (sums[length:] - sums[:-length]) / length
    return means
