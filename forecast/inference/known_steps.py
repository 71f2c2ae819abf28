"""The steps of a forecast for which its future covariates are known."""

import warnings
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int64

from forecast.data import Panel
from forecast.data.panel_labels import name_series
from forecast.data.scaled_panel import ScaledPanel
from forecast.system.errors import DataError
from forecast.system.formatting import plural


def count_known(
    excerpt: Panel,
    rows: Int64[np.ndarray, " series"],
    steps: int,
    known_steps: Sequence[int | None],
    is_read: Bool[np.ndarray, " covariates"],
) -> Int64[np.ndarray, "series covariates"]:
    """Count the steps after the origins of an excerpt for which each future covariate is known and may be read.

    Missing values before the end of a series are completed as in training.

    Args:
        is_read: whether the forecast reads each covariate after its origin.

    Raises:
        DataError: a covariate that is read has no value for a step, and no limit in `known_steps`; the message names
            the first series, column and date.
    """
    if excerpt.future is None:
        return np.zeros((len(excerpt), 0), dtype=np.int64)
    wanted = rows[:, None] + np.arange(steps)
    limits = np.array([steps if limit is None else min(limit, steps) for limit in known_steps])
    is_known = np.isfinite(excerpt.future[wanted][..., excerpt.ahead_index])  # (series, steps, covariates)
    needed = is_read & np.array([limit is None for limit in known_steps])
    is_needed = (wanted >= excerpt.ends[:, None])[..., None] & needed
    if (is_needed & ~is_known).any():
        s, step, column = (int(i) for i in np.argwhere(is_needed & ~is_known)[0])
        column_name = excerpt.future_columns[excerpt.ahead_index[column]]
        name = excerpt.indicators.get(column_name, column_name)
        place = int((excerpt.grid_starts + rows - excerpt.starts)[s]) + step
        date = excerpt.utc_offset.zoned(excerpt.grid[[place]])[0]
        raise DataError(
            f"{name_series(excerpt, s)}{name} is not known for {date}: this forecast needs future covariates "
            f"for {steps} steps after its start (a multiple of pred_len): add rows with these covariates and empty "
            "targets, or give future=FILE; a model trained with data.known_steps needs fewer"
        )
    return (is_known & (np.arange(steps)[:, None] < limits)).sum(axis=1)


def warn_of_unknown_steps(
    scaled: ScaledPanel,
    known: Int64[np.ndarray, "series covariates"],
    steps: int,
    is_read: Bool[np.ndarray, " covariates"],
) -> None:
    """Warn of each covariate that is read and known for fewer steps than in training.

    Args:
        scaled: the data.
        known: the number of steps for which each covariate is known, see `count_known`.
        steps: the number of steps that are forecast.
        is_read: whether the forecast reads each covariate after its origin.
    """
    panel, limits = scaled.panel, scaled.scales.known_steps
    for name, limit, counts, read in zip(panel.future_covariates, limits, known.T, is_read, strict=True):
        if limit is not None and read and counts.min() < min(limit, steps):
            warnings.warn(
                f"{name} is known for {plural(int(counts.min()), 'step')}, and was known for {limit} in training: give "
                f"future=FILE with {min(limit, steps)}",
                stacklevel=3,
            )


def describe_known_steps(
    scaled: ScaledPanel,
    known: Int64[np.ndarray, "series covariates"],
    steps: int,
    is_read: Bool[np.ndarray, " covariates"],
) -> list[str]:
    """Describe the future covariates that are not read over all steps, such as "temperature for 24 of 168 steps".

    Args:
        scaled, known, steps, is_read: see `warn_of_unknown_steps`.
    """
    panel, limits = scaled.panel, scaled.scales.known_steps
    unread = (name for name, read in zip(panel.future_covariates, is_read, strict=True) if not read)
    found = [
        f"the future of {name} is not read"
        for name in dict.fromkeys(panel.indicators.get(name, name) for name in unread)
    ]
    for name, limit, counts, read in zip(panel.future_covariates, limits, known.T, is_read, strict=True):
        if limit is not None and read:
            low, high = int(counts.min()), int(counts.max())
            found.append(f"{name} for {low if low == high else f'{low} to {high}'} of {steps} steps")
    return found
