"""Rows of a table: its cells as ids, dates and numbers, before they are checked and aligned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int32, Int64

from forecast.data.calendars import UtcOffset
from forecast.data.files.cells import Cells, are_numbers, parse_numbers, read_numbers
from forecast.data.files.columns import ColumnRoles, read_covariate, read_ids, read_numbers_or_texts
from forecast.data.files.dates import number_dates, read_dates
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import LIKE_A_NUMBER, SIGNED_DIGITS, matches, quote
from forecast.data.row_ranges import PerSeries
from forecast.system.errors import DataError, TextColumns, TooFewRows
from forecast.system.formatting import plural, shorten, write_setting

Block = Float64[np.ndarray, "rows _columns"]


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
        ahead: cells of a second file, whose positions follow those of the first.
        texts: categories of covariates that are text, whose columns hold their positions, −1 for an empty cell.
    """

    cells: Cells
    roles: ColumnRoles
    ids: pd.Index
    codes: Int32[np.ndarray, " rows"]
    dates: np.ndarray
    values: Block
    future: Block
    static: dict[str, pd.Series] = field(default_factory=dict)
    utc_offset: UtcOffset = field(default_factory=UtcOffset)
    unit: Literal["us", "ns"] = "us"
    order: Int64[np.ndarray, " rows"] | None = None
    ahead: Cells | None = None
    texts: dict[str, Sequence[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def starts(self) -> PerSeries:
        """The first row of each series, if rows of a series follow each other."""
        return np.flatnonzero(np.diff(self.codes, prepend=-1))

    @cached_property
    def stops(self) -> PerSeries:
        """The row after the last one of each series, if they do."""
        return np.append(self.starts[1:], len(self))

    def date(self, row: int) -> pd.Timestamp:
        """The date of a row, in the time zone of the source."""
        return self.utc_offset.zoned(pd.DatetimeIndex(self.dates[row : row + 1])).to_list()[0]

    def subject(self, row: int) -> str:
        """Return the date of a row as the subject of a message, if `error` does not name it."""
        return f"{self.date(row)} " if self.roles.id is None else ""

    def place(self, row: int) -> tuple[Cells, int]:
        """Return the file of a row and its position there."""
        position = row if self.order is None else int(self.order[row])
        if self.ahead is None or position < len(self.cells.frame):
            return self.cells, position
        return self.ahead, position - len(self.cells.frame)

    def error(self, message: str, row: int, column: str | None = None, advice: str = "") -> DataError:
        """A DataError that names the line, column and series of a row."""
        cells, position = self.place(row)
        if self.roles.id is not None:
            message = f"series {quote(self.ids[self.codes[row]])}, {self.date(row)}: {message}"
        return cells.error(message, advice, row=position, column=column)

    def take(self, places: Int64[np.ndarray, " some"]) -> "TableRows":
        """Select or reorder rows."""
        parts = {name: getattr(self, name)[places] for name in ("codes", "dates", "values", "future")}
        static = {name: column.iloc[places] for name, column in self.static.items()}
        order = places if self.order is None else self.order[places]
        return replace(self, order=order, static=static, **parts)

    def followed_by(self, other: "TableRows") -> "TableRows":
        """Append the rows of another file that lie after the last row of their series: future covariates."""
        ids = self.ids.append(other.ids.difference(self.ids, sort=False))
        other = replace(other, dates=other.dates - other.utc_offset.ahead_of(self.utc_offset))
        last = np.full(len(ids), np.datetime64("NaT"), dtype=self.dates.dtype)
        np.fmax.at(last, self.codes, self.dates)
        kept = np.flatnonzero(~(other.dates <= last[ids.get_indexer(other.ids)][other.codes]))
        order = np.arange(len(self)) if self.order is None else self.order
        n_rows = len(kept)
        given = np.full((n_rows, self.future.shape[1]), np.nan)
        given[:, [self.roles.future.index(name) for name in other.roles.future]] = other.future[kept]
        other = replace(other.take(kept), future=given)
        future, texts = self._join_categories(other)
        rows = pd.RangeIndex(len(self) + n_rows)
        static = {name: column.reset_index(drop=True).reindex(rows) for name, column in self.static.items()}
        return replace(
            self,
            roles=replace(self.roles, absent=self.roles.absent | other.roles.absent),
            ids=ids,
            codes=np.concatenate([self.codes, ids.get_indexer(other.ids)[other.codes].astype(np.int32)]),
            dates=np.concatenate([self.dates, other.dates]),
            values=np.pad(self.values, ((0, n_rows), (0, 0)), constant_values=np.nan),
            future=future,
            static=static,
            texts=texts,
            order=np.concatenate([order, len(self.cells.frame) + kept]),
            ahead=other.cells,
        )

    def _join_categories(self, other: "TableRows") -> tuple[Block, dict[str, Sequence[str]]]:
        """The future covariates of both files one below the other, with codes of common texts.

        Raises DataError for a column that is text in one file and numbers in the other.
        """
        blocks, texts = (self.future.copy(), other.future.copy()), dict(self.texts)
        for column, name in enumerate(self.roles.future):
            if name not in self.texts and name not in other.texts:
                continue
            joined = pd.Index([*self.texts.get(name, ()), *other.texts.get(name, ())]).drop_duplicates()
            for rows, text_rows, block in zip((self, other), (other, self), blocks, strict=True):
                if name in rows.texts:
                    codes = np.append(joined.get_indexer(pd.Index(rows.texts[name])), -1)
                    block[:, column] = codes[block[:, column].astype(np.int64)]
                elif np.isfinite(block[:, column]).any():
                    row = int((text_rows.future[:, column] >= 0).argmax())
                    text = quote(text_rows.texts[name][int(text_rows.future[row, column])])
                    message = f"{text} is text, where {rows.cells.path} has numbers: correct it"
                    raise text_rows.error(message, row, name)
                else:
                    block[:, column] = -1  # all cells are empty
            texts[name] = joined.tolist()
        return np.concatenate(blocks), texts

    def refuse_new_series(self) -> None:
        """Raise DataError for series of the second file that the first file does not have."""
        if self.ahead is None:
            return
        new = np.setdiff1d(self.codes, self.codes[np.asarray(self.order) < len(self.cells.frame)])
        if len(new):
            named = shorten(self.ids[new].map(quote).tolist())
            raise DataError(f"{self.ahead.path}: {len(new):,} series not in {self.cells.path}: {named}: leave them out")


STATIC_CHANGES = "a static column does not change within a series"
NAME_AS_COVARIATE = "; name it in data.past_covariates or data.future_covariates"


def take_static(rows: TableRows) -> pd.DataFrame:
    """The static columns of ordered rows, one row per series: the value that its rows have, NaN if none has one.

    Raises DataError where it changes within a series.
    """
    columns = {}
    for name, column in rows.static.items():
        codes, found = pd.factorize(column)
        given = np.flatnonzero(codes >= 0)
        firsts = np.full(len(rows.ids), -1)
        firsts[rows.codes[given][::-1]] = codes[given][::-1]
        changed = given[codes[given] != firsts[rows.codes[given]]]
        if len(changed):
            row, first = int(changed[0]), found[firsts[rows.codes[changed[0]]]]
            both = f"{quote(column.iloc[row])}, and {quote(first)} above"
            problem = str(rows.error(f"{both}: {STATIC_CHANGES}", row, name))
            raise DataError(problem, NAME_AS_COVARIATE, is_for_training=True)
        kind = object if isinstance(column.dtype, pd.CategoricalDtype) else float
        columns[name] = np.append(np.asarray(found, dtype=kind), np.nan)[firsts]
    return pd.DataFrame(columns, index=rows.ids)


def rows_from_cells(cells: Cells, roles: ColumnRoles, options: ReadOptions) -> TableRows:
    """Parse the cells of a table. Raises DataError for the first id, date or number that cannot be parsed."""
    if not len(cells.frame):
        raise TooFewRows(f"{cells.path}: no rows")
    absent = {name: np.nan for name in roles.numbers if name not in cells.frame}
    cells = replace(cells, frame=cells.frame.assign(**absent)) if absent else cells
    codes, ids = read_ids(cells, roles.id_columns)
    if options.start is not None:
        dates, utc_offset = number_dates(codes, options), UtcOffset()
    else:
        dates, utc_offset = read_dates(cells, roles.date, options, codes)
    static = {name: read_numbers_or_texts(cells, name, options) for name in roles.static}
    targets = read_targets(cells, roles, options)
    columns = {name: read_covariate(cells, name, options) for name in roles.covariates}
    past, future = (
        np.column_stack([np.empty((len(codes), 0)), *(columns[name][0] for name in names)])
        for names in (roles.past, roles.future)
    )
    return TableRows(
        cells, roles, ids, codes, dates.to_numpy("datetime64[ns]"),
        values=np.hstack([targets, past]) if roles.past else targets,
        future=future,
        static={name: one if one.dtype.kind == "f" else one.astype("category") for name, one in static.items()},
        utc_offset=utc_offset,
        unit="ns" if dates.unit == "ns" else "us",
        texts={name: texts for name, (_, texts) in columns.items() if texts is not None},
    )  # fmt: skip


def read_targets(cells: Cells, roles: ColumnRoles, options: ReadOptions) -> Block:
    """The targets as numbers. Raises DataError that names every column with text."""
    names = list(roles.targets or ())
    columns: list[pd.Series] = [cells.frame[name] for name in names]  # type: ignore[reportAssignmentType]
    if all(map(are_numbers, columns)):
        numbers = [column.to_numpy(dtype=np.float64, na_value=np.nan) for column in columns]
        return options.blank(np.column_stack([np.empty((len(cells.frame), 0)), *numbers]))
    read, refused = [], {}
    for name in names:
        try:
            read.append(read_numbers(cells, name, options))
        except DataError as error:
            refused[name] = error
    if refused:
        raise _refuse_texts(cells, roles, refused)
    return np.column_stack(read)


def _refuse_texts(cells: Cells, roles: ColumnRoles, refused: Mapping[str, DataError]) -> DataError:
    """The error of a table of which some targets are not numbers, each with its own error."""
    examples = {}
    for name, error in refused.items():
        texts = pd.Series(cells.frame[name]).dropna().astype("string").str.strip()
        is_number = texts.str.fullmatch(SIGNED_DIGITS) | ~np.isnan(parse_numbers(texts, ".", None))
        if is_number.mean() > 0.5:  # one cell is bad, and not the column
            return error
        examples[name] = texts.iloc[0]
    if roles.target in examples:
        problem = f"{cells.path}: target {quote(roles.target)} is text"
        return DataError(problem, ": choose a column of numbers (data.target)", is_for_training=True)
    named = ", ".join(f"{quote(name)} ({quote(text)})" for name, text in [*examples.items()][:12])
    problem = f"{cells.path}: {plural(len(examples), 'column')} of text beside numbers: {named}"
    drop = write_setting("data.drop", [*roles.drop, *examples])
    if any(matches(LIKE_A_NUMBER, text) for text in examples.values()):
        advice = f": correct the cells, or set {drop}"
        if times := [name for name, text in examples.items() if ":" in text]:
            time = write_setting("data.date_column", [roles.date, times[0]])
            advice = f": correct the cells, set {drop}, or for times of day set {time}"
        return DataError(problem, advice, is_for_training=True)
    advice = (
        f": set {drop}, or read text as covariates (data.future_covariates, past_covariates or static_covariates), or "
        "as names of series (data=long, data.id_column)"
    )
    return TextColumns(problem, advice, [*examples])
