"""Rows of a table as they are read from a file or a DataFrame, before they are checked and aligned."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int32, Int64

from forecast.data.files.cells import BOOLEANS, FRAME, Cells
from forecast.data.files.columns import ColumnRoles
from forecast.data.files.text import quote
from forecast.data.utc_offset import UtcOffset
from forecast.system.errors import DataError
from forecast.system.formatting import shorten, write_setting


@dataclass
class TableRows:
    """Rows of a file, in its order; missing numbers are NaN.

    Attributes:
        cells: the position of each row in the file, for messages.
        roles: the columns of `values`, `future` and `static`; the targets are known.
        ids: names of the series.
        codes: of each row's series in `ids`.
        dates: datetime64[ns], without time zone.
        static: columns of float64 or categories.
        utc_offset: UTC offset of the dates, and the time zone of their source.
        unit: resolution of the dates in the source, `us` or `ns`.
        order: position of each row in the file; None if rows are in the order of the file.
        ahead: cells of a second file.
        first_ahead: in `order`, the position of the first row of that file.
        texts: categories of covariates that are text, whose columns hold their positions, −1 for an empty cell.
        booleans: columns of true and false, which hold 1 and 0.
    """

    cells: Cells
    roles: ColumnRoles
    ids: pd.Index
    codes: Int32[np.ndarray, " rows"]
    dates: np.ndarray
    values: Float64[np.ndarray, "rows columns"]
    future: Float64[np.ndarray, "rows future"]
    static: dict[str, pd.Series]
    utc_offset: UtcOffset = field(default_factory=UtcOffset)
    unit: Literal["us", "ns"] = "us"
    order: Int64[np.ndarray, " rows"] | None = None
    ahead: Cells | None = None
    first_ahead: int = 0
    texts: dict[str, Sequence[str]] = field(default_factory=dict)
    booleans: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.codes)

    def date(self, row: int) -> pd.Timestamp:
        """Return the date of a row, in the time zone of the source."""
        return self.utc_offset.zoned(pd.DatetimeIndex(self.dates[row : row + 1])).to_list()[0]

    def subject(self, row: int) -> str:
        """Return the date of a row as the subject of a message, if `refuse` does not name it."""
        return f"{self.date(row)} " if self.roles.id is None else ""

    def name(self, row: int) -> str:
        """Return the series and the date of a row for a message."""
        return f"series {quote(self.ids[self.codes[row]])}, {self.date(row)}"

    def place(self, row: int) -> tuple[Cells, int]:
        """Return the file of a row and its position there."""
        position = row if self.order is None else int(self.order[row])
        if self.ahead is not None and position >= self.first_ahead:
            return self.ahead, position - self.first_ahead
        return self.cells, position

    def split_by_file(
        self, rows: Int64[np.ndarray, " some"]
    ) -> list[tuple[Cells, Int64[np.ndarray, " in_file"]]]:
        """Return the rows of each file that has some of them."""
        positions = rows if self.order is None else self.order[rows]
        is_ahead = (positions >= self.first_ahead) & (self.ahead is not None)
        parts = [(self.cells, rows[~is_ahead])]
        if self.ahead is not None:
            parts.append((self.ahead, rows[is_ahead]))
        return [(cells, part) for cells, part in parts if len(part)]

    def line(self, row: int) -> str:
        """Return the line of a row in words, such as "line 7"."""
        cells, position = self.place(row)
        return cells.line(position)

    def error(self, message: str, row: int, column: str | None = None, **advice: Any) -> DataError:
        """A DataError that names the line, column and series of a row; `advice` as `Cells.error` takes it."""
        cells, position = self.place(row)
        series = "" if self.roles.id is None else f"{self.name(row)}: "
        return cells.error(f"{series}{message}", row=position, column=column, **advice)

    def take(self, places: Int64[np.ndarray, " some"]) -> "TableRows":
        """Select or reorder rows."""
        return replace(
            self,
            order=places if self.order is None else self.order[places],
            codes=self.codes[places],
            dates=self.dates[places],
            values=self.values[places],
            future=self.future[places],
            static={name: column.iloc[places] for name, column in self.static.items()},
        )

    def followed_by(self, other: "TableRows") -> "TableRows":
        """Append the rows of another file that lie after the last row of their series: future covariates."""
        ids = self.ids.append(other.ids.difference(self.ids, sort=False))
        other = replace(other, dates=other.dates - other.utc_offset.ahead_of(self.utc_offset))
        last = np.full(len(ids), np.datetime64("NaT"), dtype=self.dates.dtype)
        np.fmax.at(last, self.codes, self.dates)
        kept = np.flatnonzero(~(other.dates <= last[ids.get_indexer(other.ids)][other.codes]))
        order = np.arange(len(self)) if self.order is None else self.order
        n_rows, first_ahead = len(kept), int(order.max(initial=-1)) + 1
        given = np.full((n_rows, self.future.shape[1]), np.nan)
        given[:, [self.roles.future.index(name) for name in other.roles.future]] = other.future[kept]
        other = replace(other.take(kept), future=given)
        future, texts = self._join_categories(other)
        nothing = np.full((n_rows, self.values.shape[1]), np.nan)
        static = {
            name: pd.concat([column, pd.Series([None] * n_rows, dtype=column.dtype)], ignore_index=True)
            for name, column in self.static.items()
        }
        return replace(
            self,
            roles=replace(self.roles, absent=self.roles.absent | other.roles.absent),
            ids=ids,
            codes=np.concatenate([self.codes, ids.get_indexer(other.ids)[other.codes].astype(np.int32)]),
            dates=np.concatenate([self.dates, other.dates]),
            values=np.concatenate([self.values, nothing]),
            future=future,
            static=static,
            texts=texts,
            booleans=self.booleans | other.booleans,
            order=np.concatenate([order, first_ahead + kept]),
            ahead=other.cells,
            first_ahead=first_ahead,
        )

    def refuse_new_series(self) -> None:
        """Raise DataError for series of the second file that the first file does not have."""
        if self.ahead is None:
            return
        is_ahead = np.asarray(self.order) >= self.first_ahead
        known = np.bincount(self.codes[~is_ahead], minlength=len(self.ids)) > 0
        new = np.flatnonzero((np.bincount(self.codes, minlength=len(self.ids)) > 0) & ~known)
        if len(new):
            named, kept = shorten(self.ids[new].map(quote).tolist()), self.ids[known].tolist()
            where, advice = "future", "leave them out"
            if self.cells.path != FRAME:
                setting = write_setting("data.ids", kept) if len(kept) <= 8 else "data.ids"
                where, advice = (
                    str(self.ahead.path),
                    f"leave them out, or name the series to forecast ({setting})",
                )
            raise DataError(f"{where}: {len(new):,} series not in {self.cells.path}: {named}: {advice}")

    def _join_categories(
        self, other: "TableRows"
    ) -> tuple[Float64[np.ndarray, "rows future"], dict[str, Sequence[str]]]:
        """The future covariates of both files one below the other, with codes of common texts.

        Raises DataError for a column that is text in one file and numbers in the other.
        """
        blocks, texts = (self.future.copy(), other.future.copy()), dict(self.texts)
        for column, name in enumerate(self.roles.future):
            mine, theirs = self.texts.get(name), other.texts.get(name)
            if mine is None and theirs is None:
                continue
            for block, its_texts in zip(blocks, (mine, theirs), strict=True):
                if its_texts is None:
                    if np.isfinite(block[:, column]).any():
                        raise (
                            self._refuse_text(name, column, other)
                            if mine is None
                            else other._refuse_text(name, column, self)
                        )
                    block[:, column] = -1  # all cells are empty
            joined = pd.Index([*(mine or ()), *(theirs or ())]).drop_duplicates()
            codes = np.append(joined.get_indexer(pd.Index(theirs or ())), -1)
            blocks[1][:, column] = codes[blocks[1][:, column].astype(np.int64)]
            texts[name] = joined.tolist()
        return np.concatenate(blocks), texts

    def _refuse_text(self, name: str, column: int, texts: "TableRows") -> DataError:
        """The error of a future covariate of numbers that is text in the rows `texts` of another file."""
        found, codes = texts.texts[name], texts.future[:, column]
        are_odd = [text.strip().lower() not in BOOLEANS for text in found]
        is_odd = np.isin(codes, np.flatnonzero(are_odd))
        row = int((is_odd if is_odd.any() else codes >= 0).argmax())
        kind = "true and false" if name in self.booleans else "numbers"
        text = quote(found[int(codes[row])])
        return texts.error(f"{text} is text, where {self.cells.path} has {kind}: correct it", row, name)
