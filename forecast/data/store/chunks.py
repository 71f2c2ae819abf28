"""Reading of a CSV or Parquet file of any size in chunks of rows, with the result of reading the whole file at once.

Each chunk begins at the `position` of the one before, so that an interrupted conversion can resume there.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast.data.files.cells import Cells, quote
from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.covariates import find_booleans
from forecast.data.files.date_columns import date_name
from forecast.data.files.dates import read_dates
from forecast.data.files.read import read_targets
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.series_ids import IdColumn, list_id_columns, read_ids
from forecast.data.files.table_rows import TableRows
from forecast.data.files.timezone import place_in_time, without_zone
from forecast.data.store.column_types import ColumnKinds
from forecast.data.utc_offset import UtcOffset
from forecast.system.checks import check_count


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of the file. Neither their order nor their grid is checked."""

    rows: TableRows
    position: dict[str, Any]  # of the next chunk, as JSON values
    done: int  # so far, out of `total`


class Chunks(ABC):
    """A file in chunks. `total` is its size in units of `unit`, or None if it is not known."""

    unit: str
    total: int | None
    missing: Sequence[str] = ()  # texts of missing values, beside those of the options
    _offset_changes = False  # whether the UTC offset of typed dates changes in the file

    def __init__(
        self,
        path: Path,
        *,
        id_column: IdColumn,
        date_column: str | Sequence[str],
        columns: Sequence[str] | None,
        options: ReadOptions,
        size: int,
        drop: Sequence[str] = (),
        duplicates: str | None = None,
    ) -> None:
        """`size` is the number of bytes, of text or of numbers, in a chunk.

        Without `id_column`, the file holds one series. With `duplicates`, no chunk ends between rows of one date.
        """
        check_count("chunk", size, unit="bytes")
        self.path, self.date_column, self.size = path, date_column, size
        self.options, self.duplicates = options, duplicates
        self.kinds = ColumnKinds()  # of the columns in the chunks read so far
        self.roles = ColumnRoles(
            list_id_columns(id_column),
            date_name(date_column),
            None if columns is None else tuple(map(str, columns)),
            drop=tuple(map(str, drop)),
        )
        self.roles.check()

    @abstractmethod
    def _read(self, position: dict[str, Any] | None) -> Iterator[Chunk]:
        """Yield the chunks from a position on, or from the beginning for None. Raises DataError for invalid content."""

    def read(self, position: dict[str, Any] | None) -> Iterator[Chunk]:
        """Yield the chunks from a position on, or from the beginning for None. Raises DataError for invalid content."""
        return self._read(position) if self.duplicates is None else self._read_whole_dates(position)

    def _read_whole_dates(self, position: dict[str, Any] | None) -> Iterator[Chunk]:
        """Yield the chunks of `_read`, with the rows of the last date of each chunk moved to the next chunk.

        A position is the position of a chunk of `_read` and the number of its rows to skip.
        """
        part, skip = (None, 0) if position is None else (position["chunk"], position["skip"])
        begin, held, done = {"chunk": part, "skip": skip}, None, 0
        for chunk in self._read(part):
            new = _slice(chunk.rows, skip, len(chunk.rows))
            rows = new if held is None else _join(held, new)
            earlier = np.flatnonzero((rows.dates != rows.dates[-1]) | (rows.codes != rows.codes[-1]))
            ready = int(earlier[-1]) + 1 if len(earlier) else 0
            if len(rows) - ready <= len(new):
                begin = {"chunk": part, "skip": len(chunk.rows) - (len(rows) - ready)}
            if ready:
                yield Chunk(_slice(rows, 0, ready), begin, chunk.done)
            held, part, skip, done = _slice(rows, ready, len(rows)), chunk.position, 0, chunk.done
        if held is not None:
            yield Chunk(held, {"chunk": part, "skip": 0}, done)

    @abstractmethod
    def sort_command(self, rows: TableRows, columns: Sequence[str]) -> str | None:
        """A command that sorts the file by these columns on disk; None if there is none. `rows` are of the file."""

    def _rows(self, cells: Cells, roles: ColumnRoles, dates: tuple[pd.DatetimeIndex, UtcOffset]) -> TableRows:
        """The rows of a chunk: numbers as targets, codes of texts as past covariates.

        `dates` come with their UTC offset.
        """
        missing = [*self.missing, *self.options.na_texts]
        texts = self.kinds.find_texts(cells, roles.values, self.options, missing)
        numbers = [name for name in roles.values if name not in texts]
        roles = replace(roles, targets=tuple(numbers), past=tuple(texts))
        codes = [self.kinds.encode(cells, name, missing) for name in texts]
        series, ids = read_ids(cells, roles.id_columns)
        if dates[1].stamp:
            self.options = self.options.of_rows_after(dates[1])
        return TableRows(
            cells=cells,
            roles=roles,
            ids=ids,
            codes=series,
            dates=dates[0].to_numpy("datetime64[ns]"),
            values=np.column_stack([read_targets(cells, roles, self.options), *codes]),
            future=np.empty((len(cells.frame), 0)),
            static={},
            utc_offset=dates[1],
            unit="ns" if dates[0].unit == "ns" else "us",
            texts={name: self.kinds.texts[name] for name in texts},
            booleans=find_booleans(cells, roles.values),
        )

    def _dates(
        self, cells: Cells, column: str, anchors: Sequence[Sequence[str]]
    ) -> tuple[pd.DatetimeIndex, UtcOffset]:
        """Parse the dates of a chunk in the format of the rows above it, and return them with their UTC offset.

        `anchors` are the texts, the parsed dates and the series of the file's first row and of the row above the chunk.
        """
        texts, codes, ids = cells.frame[column], *read_ids(cells, self.roles.id_columns)
        if pd.api.types.is_datetime64_any_dtype(texts.dtype):
            if texts.hasnans:
                raise cells.error("no date", row=int(texts.isna().argmax()), column=column)
            plain, utc_offset = without_zone(dates := pd.DatetimeIndex(texts))
            if dates.tz is not None and self._offset_changes:
                plain, utc_offset = dates.tz_convert(None), UtcOffset(0, str(dates.tz))
            return place_in_time(cells, column, plain, utc_offset, self.options, codes)
        known = pd.Series([text for text, _, _ in anchors], dtype=str)
        series, _ = pd.factorize(
            np.concatenate([[series for _, _, series in anchors], ids[codes]]).astype(object)
        )
        texts = pd.concat([known, texts.astype(str).where(texts.notna())], ignore_index=True)
        above = replace(
            cells, frame=pd.DataFrame({column: texts}), first_line=cells.first_line - len(anchors)
        )
        dates, utc_offset = read_dates(above, column, self.options, series.astype(np.int32))
        if [str(date) for date in dates[: len(anchors)]] != [date for _, date, _ in anchors]:
            raise cells.error(
                f"{quote(texts.iloc[len(anchors)])} and the dates above have no format in common: set "
                "data.date_format, with %z for offsets from UTC that change, or give dates in UTC",
                row=0,
                column=column,
            )
        return dates[len(anchors) :], utc_offset

    def _anchors(
        self, cells: Cells, column: str, dates: pd.DatetimeIndex, before: Sequence[Sequence[str]]
    ) -> list[list[str]]:
        texts, codes, ids = cells.frame[column], *read_ids(cells, self.roles.id_columns)
        first, last = ([str(texts.iloc[row]), str(dates[row]), str(ids[codes[row]])] for row in (0, -1))
        return [list(before[0]) if before else first, last]


def _slice(rows: TableRows, first: int, stop: int) -> TableRows:
    """The rows `first` … `stop` − 1 of a chunk."""
    return replace(
        rows,
        cells=replace(rows.cells, first_line=rows.cells.first_line + first),
        codes=rows.codes[first:stop],
        dates=rows.dates[first:stop],
        values=rows.values[first:stop],
        future=rows.future[first:stop],
    )


def _join(above: TableRows, below: TableRows) -> TableRows:
    """The rows of two chunks that follow each other."""
    ids = above.ids.append(below.ids.difference(above.ids, sort=False))
    codes = np.concatenate([above.codes, ids.get_indexer(below.ids)[below.codes].astype(np.int32)])
    parts = {name: (getattr(above, name), getattr(below, name)) for name in ("dates", "values", "future")}
    joined = {name: np.concatenate(pair) for name, pair in parts.items()}
    booleans, cells = above.booleans | below.booleans, above.cells
    between = range(cells.number(len(above) - 1) + 1, below.cells.number(0))
    cells = replace(cells, skipped=(*cells.skipped, *between, *below.cells.skipped))
    return replace(above, cells=cells, ids=ids, codes=codes, texts=below.texts, booleans=booleans, **joined)
