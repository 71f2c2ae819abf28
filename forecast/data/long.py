"""The columns of a long table, a row a series and date (`unique_id, ds, y`, covariates): CSV, Parquet, DataFrame."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float64, Int32, Int64

from forecast.data.csvfile import MISSING, Cells, quote, read_cells, read_numbers
from forecast.data.dates import dates_and_clock
from forecast.data.timezone import to_move, without_zone
from forecast.errors import ConfigError, DataError

PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Columns:
    """The names of the columns that are read, by what they are."""

    id: str
    date: str
    values: tuple[str, ...]  # targets and past covariates
    known: tuple[str, ...] = ()  # future covariates
    static: tuple[str, ...] = ()
    past: int = 0  # of the values, the last so many are past covariates

    @property
    def numbers(self) -> tuple[str, ...]:
        return (*self.values, *self.known)

    def check(self) -> None:
        """Raises ConfigError where a column is to be two things."""
        names = [self.id, self.date, *self.numbers, *self.static]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"column {name!r} is named twice (data.id_column, date_column, columns, past_covariates, "
                    "future_covariates, static_covariates): give it one part"
                )


@dataclass
class LongRows:
    """What a file says, a row a line of it; numbers that are missing are NaN."""

    cells: Cells  # where a row lies, for messages
    columns: Columns
    ids: pd.Index
    codes: Int32[np.ndarray, " rows"]  # of each row's id in `ids`
    dates: np.ndarray  # (rows,) datetime64[ns]
    values: Float64[np.ndarray, "rows columns"]
    known: Float64[np.ndarray, "rows known"]
    static: dict[str, pd.Series]  # float64, or categories
    clock: int | None = None  # minutes the dates are ahead of UTC, where that is known
    order: Int64[np.ndarray, " rows"] | None = None  # the row read that each is, where they are not as read
    ahead: Cells | None = None  # of a second file, whose rows follow the `own` ones
    own: int = 0

    def refuse(self, message: str, row: int, column: str | None = None) -> DataError:
        """The error that names the line, the series and the date of a row."""
        line = row if self.order is None else int(self.order[row])
        series, cells = quote(self.ids[self.codes[row]]), self.cells
        if self.ahead is not None and line >= self.own:
            cells, line = self.ahead, line - self.own
        return cells.refuse(
            f"series {series}, {pd.Timestamp(self.dates[row])}: {message}", row=line, column=column
        )

    def take(self, places: Int64[np.ndarray, " some"]) -> "LongRows":
        """Some of the rows, or all of them in another order."""
        return replace(
            self, order=places if self.order is None else self.order[places], codes=self.codes[places],
            dates=self.dates[places], values=self.values[places], known=self.known[places],
            static={name: column.iloc[places] for name, column in self.static.items()},
        )  # fmt: skip

    def followed_by(self, other: "LongRows") -> "LongRows":
        """With those rows of another file below that lie after a series' last one here: what is known ahead."""
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


def read_long(
    path: str | Path,
    columns: Columns,
    *,
    date_format: str | None = None,
    separator: str = ",",
    decimal: str = ".",
    thousands: str | None = None,
) -> LongRows:
    """Read a CSV file (also packed) or a Parquet file (.parquet, .pq), or a folder of Parquet files.

    Raises DataError for a column that is missing, an id that is empty, text where numbers or dates should be.
    """
    path = Path(path).expanduser()
    if path.suffix not in PARQUET and not path.is_dir():
        cells = read_cells(
            path,
            date_column=columns.date,
            separator=separator,
            decimal=decimal,
            text_columns=(columns.id, *columns.static),
        )
        return _from_cells(cells, columns, date_format, decimal, thousands)
    wanted = [columns.id, columns.date, *columns.numbers, *columns.static]
    try:
        schema = pq.read_schema(next(path.rglob("*.parquet")) if path.is_dir() else path)
        _check_names(str(path), schema.names, wanted)
        text = [name for name in wanted if _is_text(schema.field(name).type) and name != columns.date]
        table = pq.read_table(path, columns=wanted, read_dictionary=text)
    except (OSError, pa.ArrowException, StopIteration) as error:
        reason = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read as Parquet: {reason or 'no such files in it'}") from None
    return _from_arrow(Cells(path, pd.DataFrame(), first_line=0, unit="row"), table, columns, date_format)


def read_long_frame(frame: pd.DataFrame, columns: Columns) -> LongRows:
    """The same from a DataFrame; ids and dates may be its index. Rows are counted from 0."""
    if columns.id in frame.index.names or columns.date in frame.index.names:
        frame = frame.reset_index()
    wanted = [columns.id, columns.date, *columns.numbers, *columns.static]
    _check_names("the DataFrame", list(map(str, frame.columns)), wanted)
    try:
        table = pa.Table.from_pandas(frame.rename(columns=str)[wanted], preserve_index=False)
    except pa.ArrowException as error:
        raise DataError(f"the DataFrame: {' '.join(str(error).split())}") from None
    return _from_arrow(
        Cells(Path("the DataFrame"), pd.DataFrame(), first_line=0, unit="row"), table, columns, None
    )


def read_static(
    path: str | Path,
    id_column: str,
    names: Sequence[str],
    *,
    separator: str = ",",
    decimal: str = ".",
    thousands: str | None = None,
) -> pd.DataFrame:
    """A file of a row a series: its id and columns that never change. Raises DataError for an id given twice."""
    path = Path(path).expanduser()
    if path.suffix in PARQUET:
        try:
            frame = pd.read_parquet(path)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path}: cannot be read as Parquet: {' '.join(str(error).split())}") from None
    else:
        cells = read_cells(
            path,
            date_column=id_column,
            separator=separator,
            decimal=decimal,
            text_columns=(id_column, *names),
        )
        _check_names(str(path), list(cells.frame.columns), [id_column, *names])
        columns = {name: _numbers_or_texts(cells, name, decimal, thousands) for name in names}
        frame = pd.DataFrame({id_column: cells.frame[id_column].str.strip(), **columns})
    _check_names(str(path), list(frame.columns), [id_column, *names])
    frame = pd.DataFrame(frame.astype({id_column: str}).set_index(id_column)[list(names)])
    if not frame.index.is_unique:
        twice = quote(frame.index[frame.index.duplicated()][0])
        raise DataError(f"{path}: series {twice} is there twice: keep one row a series")
    return frame


def _from_cells(
    cells: Cells, columns: Columns, date_format: str | None, decimal: str, thousands: str | None
) -> LongRows:
    wanted = [columns.id, columns.date, *columns.numbers, *columns.static]
    _check_names(str(cells.path), list(cells.frame.columns), wanted)
    texts = cells.frame[columns.id].str.strip()
    empty = texts.isna().to_numpy()
    if empty.any():
        raise cells.refuse("no id", row=int(empty.argmax()), column=columns.id)
    codes, ids = pd.factorize(texts)
    dates, clock = dates_and_clock(cells, columns.date, date_format)

    def numbers(names: Sequence[str]) -> Float64[np.ndarray, "rows columns"]:
        read = [read_numbers(cells, name, decimal=decimal, thousands=thousands) for name in names]
        return np.stack(read, axis=1) if read else np.empty((len(codes), 0))

    static: dict[str, Any] = {}
    for name in columns.static:
        column = _numbers_or_texts(cells, name, decimal, thousands)
        static[name] = column if column.dtype.kind == "f" else column.astype("category")
    return LongRows(
        cells, columns, pd.Index(ids, dtype=str), codes.astype(np.int32), dates.to_numpy("datetime64[ns]"),
        numbers(columns.values), numbers(columns.known), static, clock,
    )  # fmt: skip


def _numbers_or_texts(cells: Cells, name: str, decimal: str, thousands: str | None) -> pd.Series:
    """A column of text as float64 where all its cells are numbers, or say that there is none, else as it stands."""
    column = cells.frame[name]
    numbers = replace(cells, frame=pd.DataFrame({name: column.mask(column.isin(MISSING))}))
    try:
        return pd.Series(read_numbers(numbers, name, decimal=decimal, thousands=thousands))
    except DataError:
        return pd.Series(column)


def _from_arrow(cells: Cells, table: pa.Table, columns: Columns, date_format: str | None) -> LongRows:
    if not table.num_rows:
        raise DataError(f"{cells.path}: no rows")
    id_column, date_column = table[columns.id], table[columns.date]
    for name, column in ((columns.id, id_column), (columns.date, date_column)):
        if column.null_count:
            row = int(column.is_null().to_numpy().argmax())
            raise cells.refuse("no id" if name == columns.id else "no date", row=row, column=name)
    codes, categories = _categories(id_column)
    kind = date_column.type
    if _is_text(kind):
        texts = Cells(
            cells.path, date_column.to_pandas().astype(str).to_frame(columns.date), first_line=0, unit="row"
        )
        read, clock = dates_and_clock(texts, columns.date, date_format)
        dates = read.to_numpy("datetime64[ns]")
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        try:
            dates = _copy(date_column, pa.timestamp("ns"), np.empty(table.num_rows, dtype="datetime64[ns]"))
        except pa.ArrowInvalid:
            raise DataError(
                f"{cells.path}: column {quote(columns.date)} has dates before 1678 or after 2261"
            ) from None
        zone = kind.tz if pa.types.is_timestamp(kind) else None
        read = pd.DatetimeIndex(dates) if zone is None else pd.DatetimeIndex(dates, tz="UTC").tz_convert(zone)
        read, clock = without_zone(cells.path, read)
        dates = read.to_numpy("datetime64[ns]")
    else:
        raise DataError(f"{cells.path}: column {quote(columns.date)} is {kind}, not dates")

    def numbers(names: Sequence[str]) -> Float64[np.ndarray, "rows columns"]:
        read = np.empty((table.num_rows, len(names)))
        for i, name in enumerate(names):
            kind = table[name].type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
                    or pa.types.is_boolean(kind) or pa.types.is_null(kind)):  # fmt: skip
                raise DataError(f"{cells.path}: column {quote(name)} is {kind}, not numbers")
            column = table[name] if not pa.types.is_boolean(kind) else table[name].cast(pa.int8())
            _copy(column, pa.float64(), read[:, i])
        return read

    static: dict[str, pd.Series] = {}
    for name in columns.static:
        column = table[name]
        if _is_text(column.type) or pa.types.is_dictionary(column.type):
            static[name] = pd.Series(pd.Categorical.from_codes(*_categories(column)))
        else:
            static[name] = pd.Series(numbers([name])[:, 0])
    return LongRows(
        cells,
        columns,
        categories,
        codes,
        dates,
        numbers(columns.values),
        numbers(columns.known),
        static,
        clock,
    )


def _copy(column: pa.ChunkedArray, kind: pa.DataType, into: np.ndarray) -> np.ndarray:
    """Fill an array with a column, a part at a time: a whole column cast would need as much memory again."""
    row, safe = 0, pa.types.is_timestamp(kind)
    for chunk in column.chunks:
        into[row : row + len(chunk)] = chunk.cast(kind, safe=safe).to_numpy(zero_copy_only=False)
        row += len(chunk)
    return into


def _categories(column: pa.ChunkedArray) -> tuple[Int32[np.ndarray, " rows"], pd.Index]:
    """Codes, −1 where there is nothing, and the texts that they stand for."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunks = encoded.unify_dictionaries().chunks
    codes = [pc.fill_null(chunk.indices, -1).to_numpy().astype(np.int32) for chunk in chunks]
    names = pd.Index(chunks[0].dictionary.to_pandas().astype(str), dtype=str)
    return np.concatenate(codes), names


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _check_names(where: str, present: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in present:
            near = difflib.get_close_matches(name, present, n=1)
            hint = f"; did you mean {quote(near[0])}?" if near else ""
            shown = ", ".join(map(quote, present[:12])) + (", ..." if len(present) > 12 else "")
            raise DataError(
                f"{where}: no column {quote(name)}; there are {shown}{hint} (data.id_column, data.date_column, "
                "data.target and the covariates say which to read, data.static_path a file of the static ones)"
            )
