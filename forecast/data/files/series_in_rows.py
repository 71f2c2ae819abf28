"""Files with one series a row, whose header has the dates: how they are recognised, and read as long files."""

import io
from collections.abc import Sequence
from typing import Any

import pandas as pd

from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.date_formats import has_short_year, is_date, orders_of_short_years
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
    """Raise DataError, with the settings that read it, for a file whose header ends in dates."""
    first = next((place for place, name in enumerate(header) if is_date(name)), len(header))
    names, dates = list(header[:first]), list(header[first:])
    if len(dates) < MIN_DATES or not all(map(is_date, dates)):
        return
    table: Any = pd.read_csv(io.BytesIO(raw), sep=separator, usecols=range(first), dtype=str)
    ids = [name for name in names if table[name].notna().all() and table[name].is_unique]
    texts = [
        name for name in ids if table[[name]].apply(pd.to_numeric, errors="coerce").isna().any(axis=None)
    ]
    name = next(iter([*texts, *ids]), ROW)
    order = orders_of_short_years(pd.Series(dates))[:1] if has_short_year(dates[0]) else []
    settings = ["data=long", "data.melt=true", write_setting("data.id_column", name), *order]
    raise DataError(
        f"{path}: one series a row, with dates from {quote(dates[0])} to {quote(dates[-1])} in line 1: set "
        f"{' '.join(settings)}"
    )


def melt_series(path: Location, raw: bytes, roles: ColumnRoles, options: ReadOptions) -> bytes:
    """The text of a file with one series a row, as that of a long file with one row for each series and date.

    The columns from the first date of the header on are the steps. If no column is a date, all that have no role are.
    Rows are numbered from 1 in the column `row` if `roles` names it and the file does not have it.

    Args:
        path: the file, for messages.
        raw: its text.
        roles: the id columns, and the names that the columns of dates and of values receive.
        options: how the text is parsed. With `start`, the names of the steps are left out.

    Raises:
        ConfigError: there is no id column, or there are several targets.
        DataError: a column with a role is missing, or lines have different numbers of fields.
    """
    if not roles.id_columns or roles.targets is None or len(roles.targets) != 1:
        raise ConfigError("data.melt=true needs data.id_column, and one target (data.target)")
    try:
        table = pd.read_csv(io.BytesIO(raw), sep=options.separator, dtype=str, keep_default_na=False)
    except pd.errors.ParserError as error:
        raise DataError(f"{path}: {' '.join(str(error).split())}") from None
    if ROW in roles.id_columns and ROW not in table:
        table.insert(0, ROW, [str(number) for number in range(1, len(table) + 1)])
    names = list(map(str, table.columns))
    named = ColumnRoles(roles.id_columns, "", targets=(), static=roles.static, drop=roles.drop)
    named.resolve(str(path), names)
    first = next((place for place, name in enumerate(names) if is_date(name)), None)
    steps = (
        [name for name in names if name not in {*named.all, *named.drop}] if first is None else names[first:]
    )
    long = table.melt(list(named.all), steps, var_name=roles.date, value_name=roles.targets[0])
    if options.start is not None:
        long = long.drop(columns=roles.date)
    return long.to_csv(index=False, sep=options.separator).encode()
