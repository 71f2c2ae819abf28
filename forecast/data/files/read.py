"""Reading of tables into rows: CSV files, workbooks, Parquet files and DataFrames, also with one series per row."""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, combinations, compress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from forecast.data.files.cells import FRAME, Cells, DateColumn, parse_cells, read_columns
from forecast.data.files.columns import ColumnRoles, name_ids, read_ids, read_numbers_or_texts, take_parts
from forecast.data.files.header import (
    DEFAULT_NAMES,
    NUMBERED,
    Header,
    choose_date_column,
    find_date_columns,
    find_steps,
    is_unnamed,
    read_header,
)
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.table_rows import TableRows, rows_from_cells
from forecast.data.files.text import (
    MISSING,
    SHEET_ROWS,
    UNREADABLE,
    cut_preamble,
    find_part,
    is_workbook,
    quote,
    read_text,
    strip,
    warn_of_skipped_lines,
)
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import shorten, write_setting
from forecast.system.location import Location, is_folder, opened

PARQUET = (".parquet", ".pq")

_HEAD = 1 << 20
"""Bytes at the beginning of a text in which its first line ends, and columns that may name series are sought."""

TIME_OF_DAY = r"\s*\d{1,2}(:\d{2}|[.]\d{2}[.]\d{2}$)"  # a text such as 07:30, 07:30:00 or 07.30.00

MIN_REPEATED, MIN_ROWS_OF_ID, MAX_ALIKE = 0.1, 3, 0.01
"""Of many series: the smallest share of rows that repeat a date, the fewest rows per series on average, and the largest
share of rows that repeat a series and a date."""


def read_file(path: Location, roles: ColumnRoles, date_column: DateColumn, options: ReadOptions) -> TableRows:
    """Read a CSV file (also compressed), a sheet of an Excel workbook, a Parquet file, or a folder of Parquet files.

    Raises DataError if a column is missing, an id is empty, or a number or date cannot be parsed.
    """
    kind = find_kind(path)
    if kind == "parquet":
        if options.melt:
            raise ConfigError("data.melt=true is for CSV files and Excel workbooks: turn a Parquet file with pandas")
        with opened_parquet(path) as dataset:
            names, kinds = list_columns(dataset, roles), dataset.schema.types
            if options.start is None:
                are_dates = [pa.types.is_timestamp(kind) or pa.types.is_date(kind) for kind in kinds]
                dates = list(compress(dataset.schema.names, are_dates))
                roles = replace(roles, date=choose_date_column(path, roles.date, names, dates))
            roles = _resolve(path, roles, names, options)
            present = [name for name in roles.all if name in names]
            cells = cells_of_arrow(path, dataset.to_table(present), roles.id_columns, options)
        return rows_from_cells(cells, roles, options)
    if kind == "workbook":  # numbers in a workbook have no sign that could be misread
        options = replace(options, decimal=options.decimal or ".")
    raw = read_text(path, options)
    if options.skip_rows and _begins_with_header(raw, date_column, options):
        ignored = f"data.skip_rows={options.skip_rows} is not applied"
        warnings.warn(f"{path}: line 1 names the dates: {ignored}", stacklevel=2)
        options = replace(options, skip_rows=None)
    raw = cut_preamble(path, raw, options)
    header = read_header(path, raw, options)
    if options.melt:
        cells, roles = melt_series(path, raw, header, roles, options), replace(roles, drop=())
    else:
        if date_column in DEFAULT_NAMES and date_column not in header.names:
            is_alone = sum(map(bool, header.names)) == 1  # the separator is another one
            dates = [] if options.start or is_alone else find_date_columns(raw, options, header.names)
            date_column = choose_date_column(path, str(date_column), header.names, dates)
            roles = replace(roles, date=date_column)
        texts = [name for name in (*roles.keys, *roles.static) if name != roles.date]
        dated = date_column if options.start is None else ()
        cells = parse_cells(path, raw, header, dated, options, texts)
    warn_of_skipped_lines(path, cells.skipped)
    return rows_from_cells(cells, _resolve(path, roles, list(cells.frame.columns), options), options)


def _begins_with_header(raw: bytes, date_column: DateColumn, options: ReadOptions) -> bool:
    """Whether the first line of a text names the date columns."""
    first = re.split(rb"[\r\n]", raw[:_HEAD], maxsplit=1)[0].decode(errors="replace")
    names = [name.strip(" \"'") for name in first.split(options.separator)]
    dated = [date_column] if isinstance(date_column, str) else date_column
    return options.given_names is None and bool(dated) and set(dated) <= set(names)


def _resolve(path: Location, roles: ColumnRoles, present: list[str], options: ReadOptions) -> ColumnRoles:
    """The roles with the targets by name. Raises DataError for a column of dates in a file that has `start`."""
    if options.start is None:
        return roles.resolve(str(path), present)
    if roles.date in present:
        problem = f"column {quote(roles.date)} has dates, and data.start={options.start} numbers the rows"
        drop = write_setting("data.drop", [roles.date])
        raise DataError(f"{path}: {problem}: leave it out, or set {drop} and data.date_column=none")
    return roles.resolve(str(path), [*present, roles.date])


def find_kind(path: Location) -> str:
    """`parquet`, also for a folder, `workbook` or `text`, by suffix or content; `text` if it cannot be opened."""
    if is_folder(path) or path.suffix in PARQUET:
        return "parquet"
    try:
        with opened(path) as (file, _):
            if is_workbook(file):
                return "workbook"
            return "parquet" if file.read(4) == b"PAR1" else "text"
    except UNREADABLE:  # the reader of text says why
        return "text"


@contextmanager
def opened_parquet(path: Location) -> Iterator[ds.Dataset]:
    """Open a Parquet file, or a folder of such files, in which names of folders such as shop=3 are a column too.

    Raises DataError if it cannot be read, here or in the block.
    """
    if isinstance(path, Path) and path.is_dir() and not any(file.suffix in PARQUET for file in path.rglob("*")):
        raise DataError(f"{path}: not a file but a folder: give a CSV file, or a folder of .parquet files")
    try:
        with nullcontext((path, 0)) if is_folder(path) else opened(path) as (file, _):
            yield _open_folder(path) if is_folder(path) else _open_file(file)
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read as Parquet: {reason}") from None


def _open_folder(path: Location) -> ds.Dataset:
    """A folder of Parquet files; of folders such as shop=007, the column is text, and of shop=7, numbers.

    If the files have such a column too, of another type, the names of folders are left out. A column with whole numbers
    in one file and decimals in another has decimals.
    """
    read = partial(ds.dataset, path, format="parquet")  # type: ignore[arg-type]
    names: Any = "hive"
    try:
        found = read(partitioning=names)
        texts = {name for file in found.files for name, _ in re.findall(r"([^/=]+)=(0\d+)/", file)}
        fields = [field.with_type(pa.string()) if field.name in texts else field for field in found.partitioning.schema]
        names = ds.partitioning(pa.schema(fields), flavor="hive")
        found = read(partitioning=names)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        names, found = None, read()
    schema, of_files = found.schema, [part.physical_schema for part in found.get_fragments()]
    for place, name in enumerate(schema.names):
        columns = [pa.schema([each.field(name)]) for each in of_files if name in each.names]
        with suppress(pa.ArrowTypeError):  # of texts and numbers, the reader says what is wrong
            wide = pa.unify_schemas([pa.schema([schema.field(place)]), *columns], promote_options="permissive")
            schema = schema.set(place, wide.field(0))
    return read(partitioning=names, schema=schema)


def list_columns(dataset: ds.Dataset, roles: ColumnRoles) -> list[str]:
    """The columns of a Parquet file, and of names of folders such as year=2024 those that have a role."""
    of_files = next(dataset.get_fragments()).physical_schema.names
    known = {*of_files, *roles.all, *roles.drop, roles.target}
    return [name for name in dataset.schema.names if name in known]


def _open_file(file: Any) -> ds.Dataset:
    part = ds.ParquetFileFormat().make_fragment(file)
    return ds.FileSystemDataset([part], part.physical_schema, part.format, part.filesystem)


def cells_of_arrow(
    path: Location, table: pa.Table, id_columns: Sequence[str], options: ReadOptions, first_line: int = 0
) -> Cells:
    """Columns of a Parquet file. Ids are text, so that whole numbers beside empty cells stay whole.

    Other texts lose the spaces around them, and are missing where nothing else is left.
    """
    for number, name in enumerate(table.column_names):
        if name in id_columns:
            table = table.set_column(number, name, table[name].cast(pa.string()))
    frame = table.to_pandas(date_as_object=False, ignore_metadata=True)
    for name in frame.columns.difference([*id_columns]):
        if isinstance(frame[name].dtype, pd.StringDtype):
            frame[name] = strip(frame[name], options.na_texts)
    return Cells(path, frame, first_line, unit="row")


def find_layout(
    path: Location, date_column: DateColumn, options: ReadOptions, drop: Sequence[str]
) -> tuple[dict[str, Any], str]:
    """The settings for a file in which dates repeat, or with the columns of Nixtla's libraries, and the reason.

    Columns that tell the rows of one date apart hold the hour, or are texts or whole numbers that name series. A file
    without such columns is read to its first rows only, and both results are empty.

    Raises DataError as `read_file` does.
    """
    if not isinstance(date_column, str) or options.start is not None or options.melt:
        return {}, ""
    kind = find_kind(path)
    options = replace(options, decimal=options.decimal or ".") if kind == "workbook" else options
    head, dates = _read_first_rows(path, kind, options)
    dates = [name for name in (date_column, *DEFAULT_NAMES) if name in head.columns][:1] or dates
    if len(dates) != 1:
        return {}, ""
    return choose_layout(head, dates[0], drop, lambda names: _read_columns(path, kind, names, options))


def choose_layout(
    head: pd.DataFrame, date: str, drop: Sequence[str], read: Callable[[list[str]], pd.DataFrame]
) -> tuple[dict[str, Any], str]:
    """The settings of `find_layout` for the first rows of a table; `read` returns some columns of all its rows."""
    if {"unique_id", "ds", "y"} <= {*head}:  # of Nixtla's libraries, also with one series
        return {"data": "long"}, "columns unique_id, ds and y"
    numbers = [name for name in head if head[name].dtype.kind in "iuf" and name != date]
    repeats = bool(head.duplicated([date]).any())
    keys = [name for name in head if name not in (date, *drop) and _may_be_id(pd.Series(head[name]), repeats=repeats)]
    keys.sort(key=lambda name: head[name].dtype.kind == "f")  # ids such as 1.0 are rarer than measurements
    if not keys:
        return {}, ""
    hour, found = _find_id_columns(read([date, *keys]), date, numbers)
    if hour is not None:
        return {"data.date_column": [date, hour]}, f"dates repeat, once for each {hour}"
    if not found:
        return {}, ""
    wanted: dict[str, Any] = {"id_column": found[0] if len(found) == 1 else found, "date_column": date}
    values = [name for name in numbers if name not in (*found, *drop) and find_part(name) is None]
    wanted |= {"target": values[0]} if len(values) == 1 else {}
    usual = {"id_column": "unique_id", "date_column": "ds", "target": "y"}
    settings = {f"data.{key}": value for key, value in wanted.items() if value != usual[key]}
    return {"data": "long", **settings}, f"dates repeat, once for each {' and '.join(found)}"


def _find_id_columns(table: pd.DataFrame, date: str, numbers: Sequence[str]) -> tuple[str | None, list[str]]:
    """The column of hours or times of day, or those that name series, by which rows of one `date` differ.

    The series are named by the first column that tells them apart, else by the columns of texts that are needed, the
    first ones, else by the first two or three columns. Columns of `numbers` may tell rows apart by chance, and are ids
    only if few series follow: alone, at most as many as the date with most rows has; with others, at most twice that.
    """
    parts = {str(name): pd.factorize(column) for name, column in table.items()}
    codes, n_rows = pd.DataFrame({name: numbered for name, (numbered, _) in parts.items()}), len(table)
    cells = {name: pd.Index(found) for name, (_, found) in parts.items()}
    if n_rows - len(cells[date]) < MIN_REPEATED * n_rows:
        return None, []
    alike = codes.duplicated()  # rows that no column tells apart: a few are errors, which the reading names
    codes = pd.DataFrame(codes[~alike]) if alike.sum() <= MAX_ALIKE * n_rows else codes

    def tell_apart(names: list[str]) -> bool:
        return not codes.duplicated([date, *names]).any()

    keys = [name for name in cells if name != date]
    for name in keys:
        are_times = find_part(name) == "hour" or cells[name].astype(str).str.match(TIME_OF_DAY).all()
        if are_times and tell_apart([name]):
            return name, []
    few = [name for name in keys if find_part(name) is None and len(cells[name]) * MIN_ROWS_OF_ID <= n_rows]
    rows_of_date = codes[date].value_counts()
    texts, most = [name for name in few if name not in numbers], rows_of_date.max()
    for names in (*([name] for name in few if name in texts or len(cells[name]) <= most), texts):
        if names and tell_apart(names):
            needed = names
            for name in reversed(names):  # without the weather, or the region of a shop
                rest = [other for other in needed if other != name]
                needed = rest if rest and tell_apart(rest) else needed
            return None, needed
    busiest = pd.DataFrame(codes[codes[date] == rows_of_date.idxmax()])  # refuses most names without the other dates
    for names in map(list, chain(combinations(few, 2), combinations(few, 3))):
        is_likely = not busiest.duplicated(names).any() and len(codes[names].drop_duplicates()) <= 2 * most
        if is_likely and tell_apart(names):
            return None, names
    return None, []


def _read_first_rows(
    path: Location, kind: str, options: ReadOptions, limit: int | None = _HEAD
) -> tuple[pd.DataFrame, list[str]]:
    """The first rows of a file, and its columns of dates."""
    if kind == "parquet":
        with opened_parquet(path) as dataset:
            table = dataset.head(SHEET_ROWS)
        head = table.to_pandas(date_as_object=False, ignore_metadata=True)
        return head, [name for name in head if head[name].dtype.kind == "M"]
    try:
        raw, header = open_text(path, options, limit)
        head = parse_cells(path, raw, header, (), options).frame
        return head, find_date_columns(raw, options, header.names)
    except DataError:
        if limit is None:
            raise
        return _read_first_rows(path, kind, options, None)  # they end within a quote, or above the rows


def open_text(path: Location, options: ReadOptions, limit: int | None = None) -> tuple[bytes, Header]:
    """The text of a file from its header on, or the first lines of it, see `read_text`; and the header."""
    raw = cut_preamble(path, read_text(path, options, limit), options)
    return raw, read_header(path, raw, options)


def _read_columns(path: Location, kind: str, names: list[str], options: ReadOptions) -> pd.DataFrame:
    """Some columns of all rows of a file."""
    if kind == "parquet":
        with opened_parquet(path) as dataset:
            return dataset.to_table(names).to_pandas(date_as_object=False, ignore_metadata=True)
    return read_columns(*open_text(path, options), names, options)


def _may_be_id(column: pd.Series, *, repeats: bool) -> bool:
    """Whether a column has texts or whole numbers, with equal ones in a row unless dates repeat already."""
    kind = column.dtype.kind
    if kind in "bM" or (kind == "f" and not (column % 1 == 0).all()):
        return False
    return repeats or int((column != column.shift()).sum()) == column.nunique(dropna=False)


def rows_from_frame(frame: pd.DataFrame, roles: ColumnRoles, options: ReadOptions, path: Path = FRAME) -> TableRows:
    """Read a DataFrame. Ids and dates may be its index; periods begin at their dates. Messages count rows from 0."""
    if set(roles.keys) & set(frame.index.names):
        frame = frame.reset_index()
    frame = frame.rename(columns=str).reset_index(drop=True)
    if not frame.columns.is_unique:
        twice = quote(frame.columns[frame.columns.duplicated()][0])
        raise DataError(f"{path} has two columns {twice}: rename one")
    roles = roles.resolve(str(path), list(frame.columns))
    if isinstance(frame[roles.date].dtype, pd.PeriodDtype):
        frame = frame.assign(**{roles.date: frame[roles.date].dt.to_timestamp()})
        options = replace(options, stamp="start")
    cells = Cells(path, frame, first_line=0, unit="row")
    return rows_from_cells(cells, roles, options)


def read_static(
    path: Location, ids: pd.Index, id_columns: tuple[str, ...], names: Sequence[str], options: ReadOptions
) -> pd.DataFrame:
    """Read the static covariates `names` of series, by those of the id columns that their file has.

    Raises DataError if a column or a series is missing, or a series comes twice.
    """
    if find_kind(path) == "parquet":
        with opened_parquet(path) as dataset:
            wanted = [name for name in dataset.schema.names if name in (*id_columns, *names)]
            cells = cells_of_arrow(path, dataset.to_table(wanted), id_columns, options)
    else:
        cells = parse_cells(path, *open_text(path, options), (), options, [*id_columns, *names])
        warn_of_skipped_lines(path, cells.skipped)
    present = tuple(name for name in id_columns if name in cells.frame)
    roles = ColumnRoles(present or id_columns, "", targets=(), static=tuple(names))
    roles.resolve(str(path), list(cells.frame.columns))
    codes, keys = read_ids(cells, present)
    columns = {name: read_numbers_or_texts(cells, name, options).to_numpy() for name in names}
    table = pd.DataFrame(columns, index=keys[codes])
    if not table.index.is_unique:
        twice = quote(table.index[table.index.duplicated()][0])
        raise DataError(f"{path}: {name_ids(present)} {twice} appears twice: keep one row of it")
    wanted = take_parts(ids, id_columns, present)
    lacking = ~wanted.isin(table.index)
    if lacking.any():
        first = quote(wanted[lacking][0])
        raise DataError(f"{path}: no row for {lacking.sum():,} of {len(ids):,} series, such as {first}")
    return table.loc[wanted].set_axis(ids)


ROW = "row"  # name of a column with the numbers of the rows, for a file whose columns do not name the series


def melt_series(path: Location, raw: bytes, header: Header, roles: ColumnRoles, options: ReadOptions) -> Cells:
    """Parse a file with one series per row into cells with one row for each series and step.

    All columns that have no role are steps, in the order of the file. Rows are numbered from 1 in the column `row` if
    `roles` names it and the file does not have it. `roles` also has the names that the columns of dates and of values
    receive; with `options.start`, the names of the steps are left out.

    Raises ConfigError without an id column and for several targets, and DataError for a column without a role that is
    no step.
    """
    if not roles.id_columns or roles.targets is None or len(roles.targets) != 1:
        raise ConfigError("data.melt=true needs data=long with data.id_column, and one target (data.target)")
    columns = ColumnRoles(roles.id_columns, "", targets=(), static=roles.static, drop=roles.drop)
    columns.check()
    named, target = {*columns.all, *columns.drop}, roles.targets[0]
    names = [name for name in header.names if name and (not is_unnamed(name) or name in named)]
    steps = [name for name in names if name not in named]
    cells = parse_cells(path, raw, header, (), options, [name for name in names if name in named])
    if not all(cells.frame[name].dtype.kind in "iuf" for name in steps):  # they become one column of texts
        cells = parse_cells(path, raw, header, (), options, names)
    table = cells.frame
    if ROW in roles.id_columns and ROW not in table:
        table.insert(0, ROW, [str(number) for number in range(1, len(table) + 1)])
    columns.resolve(str(path), list(map(str, table.columns)))
    _check_steps(f"{path}, line {header.line}", steps, options)
    if options.start is not None and (again := table.duplicated(list(roles.id_columns))).any():
        named = ", ".join(f"{name}={table.loc[again, name].iloc[0]}" for name in roles.id_columns)
        problem = f"{path}: {named}: several rows, and each row is a series"
        raise DataError(f"{problem}: name more columns in data.id_column, or remove rows")
    long = table.melt(list(columns.all), steps, var_name=roles.date, value_name=target)
    if long[target].dtype.kind not in "iuf":
        long[target] = long[target].mask(long[target].str.strip().isin([*MISSING, *options.na_texts]))
    if options.start is not None:
        long = long.drop(columns=roles.date)
    return replace(cells, frame=long, n_lines=len(table))


def _check_steps(place: str, names: Sequence[str], options: ReadOptions) -> None:
    """Raise DataError for a name unlike the other steps, and for numbers with gaps, which would shift the dates.

    `place` is the file and the line, for the message.
    """
    steps, are_dates = find_steps(names)
    others = [name for name in names if name not in {*steps}] if steps else []
    if not others and options.start is not None and not are_dates and options.given_names != []:
        parts = [(found[1], int(found[2])) for name in names if (found := NUMBERED.fullmatch(name))]
        expected = [(text, number + 1) for text, number in parts[:-1]]
        others = [name for name, part, due in zip(names[1:], parts[1:], expected, strict=True) if part != due]
    if others:
        kind = "no dates" if are_dates else f"not numbered as {quote(steps[0])} is, up by one"
        raise DataError(
            f"{place}: columns that are {kind}: {shorten(list(map(quote, others)), 12)}: rename them, add those that "
            "are missing, without values, or name them in data.id_column, data.static_covariates or data.drop"
        )
