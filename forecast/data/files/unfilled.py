"""A panel before missing values are filled, and the ways to fill them."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from forecast.data.files.cells import FRAME
from forecast.data.files.table_rows import TableRows
from forecast.data.panel import Panel, PerSeries, ranges
from forecast.system.errors import ConfigError

FILLS = ("previous", "zero")


@dataclass(frozen=True)
class UnfilledPanel:
    """A panel in memory with NaN where a number is missing or infinite.

    Attributes:
        panel: rows that are missing in the file are there, all NaN.
        in_file: False where a row is missing in the file.
    """

    panel: Panel
    in_file: Bool[np.ndarray, " rows"]

    @property
    def columns(self) -> tuple[str, ...]:
        """Targets, past covariates and future covariates."""
        return (*self.panel.columns, *self.panel.future_covariates)

    @cached_property
    def values(self) -> Float[np.ndarray, "rows columns"]:
        """All columns, in the order of `columns`."""
        values, future = np.asarray(self.panel.values), self.panel.future
        return values if future is None else np.hstack([values, future])

    @cached_property
    def in_history(self) -> Bool[np.ndarray, " rows"]:
        """False for the rows after the end of each series, where only future covariates are known."""
        history = np.zeros(len(self.in_file), dtype=bool)
        history[ranges(self.panel.starts, self.panel.ends)] = True
        return history


@runtime_checkable
class UnfilledSource(Protocol):
    """A source that can leave missing values as NaN."""

    def read_unfilled(self) -> UnfilledPanel:
        """The panel with missing values as NaN, whatever the source's `fill` says."""
        ...


def check_fill(fill: str | None) -> None:
    """Raise ConfigError for an unknown way to fill."""
    if fill is not None and fill not in FILLS:
        raise ConfigError(f"data.fill={fill} is not one of {', '.join(FILLS)}")


def refuse_missing(rows: TableRows, starts: PerSeries, ends: PerSeries) -> None:
    """Raise DataError for the first number that is missing or infinite before the end of its series."""
    for block, names in ((rows.values, rows.roles.values), (rows.future, rows.roles.future)):
        bad = ~np.isfinite(block)
        if not bad.any():
            continue
        bad &= _is_history(len(block), starts, ends)[:, None]
        if bad.any():
            row, column = divmod(int(bad.argmax()), len(names))
            what = "no number (empty or NaN)" if np.isnan(block[row, column]) else "an infinite number"
            fill = (
                "fill it first"
                if rows.cells.path == FRAME
                else "say how to fill (data.fill=previous or zero)"
            )
            advice = f"correct it, or {fill}"
            raise rows.refuse(f"{what}: {advice}", row, names[column])


def fill_panel(unfilled: UnfilledPanel, fill: str, rows: TableRows, first_rows: PerSeries) -> Panel:
    """Fill missing values before the end of each series with the `previous` value or `zero`, and warn of their number.

    `first_rows` are the first of each series among `rows`, for messages. Raises DataError where a series begins with a
    missing value that has none before it.
    """
    panel = unfilled.panel
    values = np.asarray(panel.values)
    measured = np.isfinite(values)
    history = _is_history(len(values), panel.starts, panel.ends)
    count = int((~measured[history]).sum())
    filled = [_fill_columns(values, panel.columns, history, panel, fill, rows, first_rows)]
    if panel.future is not None:
        count += int((~np.isfinite(panel.future[history])).sum())
        names = panel.future_covariates
        filled.append(_fill_columns(panel.future, names, history, panel, fill, rows, first_rows))
    if count:
        warnings.warn(
            f"{rows.cells.path}: {count:,} missing numbers filled (data.fill={fill}); scores count them as measured",
            stacklevel=2,
        )
    observed = None if measured[history].all() else measured
    return replace(
        panel, values=filled[0], future=None if panel.future is None else filled[1], observed=observed
    )


def find_last_measured(
    missing: Bool[np.ndarray, " rows"], series_start: Int64[np.ndarray, " rows"]
) -> Int64[np.ndarray, " rows"]:
    """The last row up to each row that has a value, or the first row of its series if there is none."""
    return np.maximum.accumulate(np.where(missing, series_start, np.arange(len(missing))))


def _is_history(n_rows: int, starts: PerSeries, ends: PerSeries) -> Bool[np.ndarray, " rows"]:
    history = np.zeros(n_rows, dtype=bool)
    history[ranges(starts, ends)] = True
    return history


def _fill_columns(
    block: Float64[np.ndarray, "rows columns"],
    names: tuple[str, ...],
    history: Bool[np.ndarray, " rows"],
    panel: Panel,
    fill: str,
    rows: TableRows,
    first_rows: PerSeries,
) -> Float64[np.ndarray, "rows columns"]:
    """The columns with the missing values of the history filled."""
    missing = np.isnan(block)
    if not missing[history].any():
        return block
    filled = block.copy()
    if fill == "zero":
        filled[missing & history[:, None]] = 0.0
        return filled
    series_start = np.repeat(panel.starts, panel.stops - panel.starts)
    for i, name in enumerate(names):
        source = find_last_measured(missing[:, i], series_start)
        filled[history, i] = block[source[history], i]
        left = np.isnan(filled[:, i]) & history
        if left.any():
            series = int(panel.series_of(np.array([left.argmax()]))[0])
            message = "no number, and none before it to fill it from: cut the first rows, or data.fill=zero"
            raise rows.refuse(message, int(first_rows[series]), name)
    return filled
