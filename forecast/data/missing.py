"""Missing values of a panel: the methods that complete them, and their shares in words. Imports no torch."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool

from forecast.data.panel import Panel, by_column
from forecast.data.row_ranges import PerSeries, RowRanges, Values, pieces_of
from forecast.system.errors import check_choice, check_count
from forecast.system.formatting import shorten

FILLS = ("auto", "linear", "previous", "seasonal", "zero", "none")

MAX_DESCRIBED = 3
"""Largest number of columns of each role whose missing values are described."""

FillSetting = str | Mapping[str, str]


def check_fill(fill: FillSetting | None, limit: int | None) -> None:
    """Raise ConfigError for an unknown method of `data.fill`, or a `data.fill_limit` that is no number of rows."""
    methods = fill.values() if isinstance(fill, Mapping) else [fill]
    for method in methods:
        if method is not None:
            check_choice("data.fill", method, FILLS)
    if limit is not None:
        check_count("data.fill_limit", limit, unit="rows")


def choose_methods(fill: FillSetting | None, columns: Sequence[str]) -> tuple[str, ...]:
    """The method of each column. Raises ConfigError where `fill` names a column that is not there."""
    return tuple(by_column("data.fill", fill, columns, FILLS[0]).values())


def missing_shares(panel: Panel, read: Sequence[str], targets: Sequence[str]) -> dict[str, dict[str, float]]:
    """The share of missing values of each column that has any, before the ends of the series, by role.

    Args:
        read, targets: columns of the panel that a model reads, and those that it forecasts.
    """
    counts = dict(zip(panel.columns, panel.missing.tolist(), strict=True))
    counts |= dict(zip(panel.future_columns, panel.missing_future.tolist(), strict=True))
    roles = {
        "targets": targets,
        "past covariates": [name for name in read if name not in targets],
        "future covariates": panel.future_columns,
    }
    return {
        # the indicators of a column are missing together
        role: {
            panel.indicators.get(name, name): counts[name] / panel.n_rows for name in names if counts[name]
        }
        for role, names in roles.items()
    }


def describe_missing(
    panel: Panel, read: Sequence[str], targets: Sequence[str], fill: FillSetting | None
) -> list[str]:
    """Describe the missing values of each role (see `missing_shares`), and how the model reads them."""
    lines, method = [], fill if isinstance(fill, str) else FILLS[0] if fill is None else "by column"
    for role, shares in missing_shares(panel, read, targets).items():
        if shares:
            worst = sorted(shares, key=lambda name: -shares[name])
            named = shorten([f"{name} {shares[name]:.1%}" for name in worst], MAX_DESCRIBED)
            how = "the value before" if role == "future covariates" else f"data.fill={method} says"
            scored = ", and never scored" if role == "targets" else ""
            lines.append(f"missing    {role}: {named}; read as {how}{scored}")
    return lines


def has_values(values: Values, first: PerSeries, last: PerSeries) -> Bool[np.ndarray, " series"]:
    """Whether a series has a value of every column in the rows first[s] … last[s] − 1."""
    found = np.zeros((len(first), values.shape[1]), dtype=bool)
    for rows in pieces_of(values, first, last):
        series = RowRanges(first, last).series_of(rows)
        begins = np.flatnonzero(np.diff(series, prepend=-1))
        found[series[begins]] |= np.logical_or.reduceat(np.isfinite(values[rows]), begins, axis=0)
    return np.asarray(found.all(axis=1) & (last > first))
