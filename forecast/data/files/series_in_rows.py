"""Files with one series a row, whose header has the dates: how they are recognised, and read as long files."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pandas as pd

from forecast.data.files.cells import MISSING, Cells, parse_cells
from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.date_formats import has_short_year, names_period, orders_of_short_years
from forecast.data.files.header import read_header
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.system.arguments import write_setting
from forecast.system.errors import ConfigError, DataError
from forecast.system.location import Location

MIN_DATES = 4
"""Fewest dates in a header that is taken for one of dates."""

ROW = "row"
"""Name of a column with the numbers of the rows, for a file whose columns do not name the series."""


def refuse_series_in_rows(path: Location, raw: bytes, separator: str, header: Sequence[str]) -> None:
    """Raise DataError, with the settings that read it, for a file whose header has a run of dates."""
    first = next((place for place, name in enumerate(header) if names_period(name)), len(header))
    names, dates = list(header[:first]), list(takewhile(names_period, header[first:]))
    after = [name for name in header[first + len(dates) :] if name]
    if len(dates) < max(MIN_DATES, len(after) + 1):
        return
    rows = [row[:first] for row in csv.reader(io.StringIO(raw.decode()), delimiter=separator)][1:]
    columns = dict(zip(names, zip(*filter(None, rows), strict=False), strict=False))
    ids = [name for name, cells in columns.items() if name and all(cells) and len(set(cells)) == len(cells)]
    numbers: Any = pd.DataFrame({name: columns[name] for name in ids}).apply(pd.to_numeric, errors="coerce")
    texts = [name for name in ids if numbers[name].isna().any()]
    name = next(iter([*texts, *ids]), ROW)
    order = orders_of_short_years(pd.Series(dates))[:1] if has_short_year(dates[0]) else []
    settings = ["data=long", "data.melt=true", write_setting("data.id_column", name), *order]
    settings += [write_setting("data.drop", after)] if after else []
    raise DataError(
        f"{path}: one series a row, with dates from {quote(dates[0])} to {quote(dates[-1])} in line 1: set "
        f"{' '.join(settings)}"
    )


def melt_series(path: Location, raw: bytes, roles: ColumnRoles, options: ReadOptions) -> Cells:
    """Parse a file with one series a row into cells with one row for each series and step.

    The columns from the first date of the header on are the steps. If no column is a date, all that have no role are.
    Rows are numbered from 1 in the column `row` if `roles` names it and the file does not have it.

    Args:
        path: the file, for messages.
        raw: its text.
        roles: the id columns, and the names that the columns of dates and of values receive.
        options: how the text is parsed. With `start`, the names of the steps are left out.

    Raises:
        ConfigError: there is no id column, or there are several targets.
        DataError: a column with a role is missing, or the file cannot be parsed.
    """
    if not roles.id_columns or roles.targets is None or len(roles.targets) != 1:
        raise ConfigError("data.melt=true needs data=long with data.id_column, and one target (data.target)")
    header = read_header(path, raw, options.separator, options.given_names, melts=True)
    cells = parse_cells(path, raw, (), options, [name for name in header.names if name])
    table, target = cells.frame, roles.targets[0]
    if ROW in roles.id_columns and ROW not in table:
        table.insert(0, ROW, [str(number) for number in range(1, len(table) + 1)])
    names = list(map(str, table.columns))
    named = ColumnRoles(roles.id_columns, "", targets=(), static=roles.static, drop=roles.drop)
    named.resolve(str(path), names)
    others = [name for name in names if name not in {*named.all, *named.drop}]
    first = next((place for place, name in enumerate(others) if names_period(name)), 0)
    steps = others[first:]
    long = table[[*named.all, *steps]].melt(list(named.all), steps, var_name=roles.date, value_name=target)
    is_missing = long[target].str.strip().isin([*MISSING, *options.na_texts])
    long[target] = long[target].mask(is_missing)
    if options.start is not None:
        long = long.drop(columns=roles.date)
    return replace(cells, frame=long, n_lines=len(table))
