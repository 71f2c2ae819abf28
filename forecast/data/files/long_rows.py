"""Rows of a long table (`unique_id, ds, y`, covariates) with one row per series and date."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int32, Int64

from forecast.data.files.cells import Cells, quote
from forecast.data.files.timezone import to_move
from forecast.system.errors import ConfigError, DataError


@dataclass(frozen=True)
class Columns:
    """Names of the columns to read, by role."""

    id: str
    date: str
    values: tuple[str, ...]  # targets and past covariates
    known: tuple[str, ...] = ()  # future covariates
    static: tuple[str, ...] = ()
    past: int = 0  # number of past covariates, the last ones of `values`

    @property
    def numbers(self) -> tuple[str, ...]:
        return (*self.values, *self.known)

    def check(self) -> None:
        """Raise ConfigError if a column has two roles."""
        names = [self.id, self.date, *self.numbers, *self.static]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"column {name!r} is named twice (data.id_column, date_column, columns, past_covariates, "
                    "future_covariates, static_covariates): give it one role"
                )


@dataclass
class LongRows:
    """Rows of a file, one per line; missing numbers are NaN."""

    cells: Cells  # the position of each row, for messages
    columns: Columns
    ids: pd.Index
    codes: Int32[np.ndarray, " rows"]  # of each row's id in `ids`
    dates: np.ndarray  # (rows,) datetime64[ns]
    values: Float64[np.ndarray, "rows columns"]
    known: Float64[np.ndarray, "rows known"]
    static: dict[str, pd.Series]  # float64, or categories
    clock: int | None = None  # UTC offset of the dates in minutes, if known
    order: Int64[np.ndarray, " rows"] | None = None  # index of each row in the file, if not in its order
    ahead: Cells | None = None  # of a second file, whose rows follow the `own` rows of the first
    own: int = 0

    def refuse(self, message: str, row: int, column: str | None = None) -> DataError:
        """Return a DataError whose message names the line, the series and the date of a row."""
        line = row if self.order is None else int(self.order[row])
        series, cells = quote(self.ids[self.codes[row]]), self.cells
        if self.ahead is not None and line >= self.own:
            cells, line = self.ahead, line - self.own
        return cells.refuse(
            f"series {series}, {pd.Timestamp(self.dates[row])}: {message}", row=line, column=column
        )

    def take(self, places: Int64[np.ndarray, " some"]) -> "LongRows":
        """Select or reorder rows."""
        return replace(
            self, order=places if self.order is None else self.order[places], codes=self.codes[places],
            dates=self.dates[places], values=self.values[places], known=self.known[places],
            static={name: column.iloc[places] for name, column in self.static.items()},
        )  # fmt: skip

    def followed_by(self, other: "LongRows") -> "LongRows":
        """Append the rows of another file that lie after the last row of their series: future covariates."""
        ids = self.ids.append(other.ids.difference(self.ids, sort=False))
        other = replace(other, dates=other.dates + to_move(other.clock, self.clock))
        last = np.full(len(ids), np.datetime64("NaT"), dtype=self.dates.dtype)
        np.fmax.at(last, self.codes, self.dates)
        kept = np.flatnonzero(~(other.dates <= last[ids.get_indexer(other.ids)][other.codes]))
        other, rows, own = other.take(kept), len(kept), len(self.codes)
        nothing = np.full((rows, self.values.shape[1]), np.nan)
        static = {name: pd.concat([column, pd.Series([None] * rows, dtype=column.dtype)], ignore_index=True)
                  for name, column in self.static.items()}  # fmt: skip
        return LongRows(
            self.cells, self.columns, ids,
            np.concatenate([self.codes, ids.get_indexer(other.ids)[other.codes].astype(np.int32)]),
            np.concatenate([self.dates, other.dates]),
            np.concatenate([self.values, nothing]), np.concatenate([self.known, other.known]), static, self.clock,
            order=np.concatenate([np.arange(own), own + kept]), ahead=other.cells, own=own,
        )  # fmt: skip
