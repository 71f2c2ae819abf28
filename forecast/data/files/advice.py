"""Advice on tables that are refused: settings with which they can be read."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from forecast.data.files.cells import COVARIATES, FRAME, Cells
from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.column_types import (
    are_hours,
    are_times,
    count_to_24,
    have_times,
    is_like_a_number,
    list_numbers,
)
from forecast.data.files.long_tables import describe_long
from forecast.data.files.text import quote
from forecast.system.arguments import write_setting
from forecast.system.errors import DataError, TextColumns
from forecast.system.formatting import shorten
from forecast.system.location import Location

MAX_DROPPED, MAX_CODES = 20, 3
"""Largest numbers of columns that advice names in data.drop, and of texts in data.na_values."""

MAX_REPEATED = 0.01
"""Largest share of rows that repeat a date and a time of day, as hours do that daylight saving time repeats."""

_DECIMAL_COMMA = r"[-+]?\d*,\d+|[-+]?\d+"


def refuse(cells: Cells, roles: ColumnRoles, refused: Mapping[str, DataError]) -> DataError:
    """The error of a table of which some targets are not numbers, each with its own error."""
    if advice := describe_repeated_dates(cells, roles, list(refused)):
        return DataError(f"{cells.path}: {advice}")
    texts = sort_refused(cells, list(refused)).texts
    if roles.target in texts:
        return refuse_text_as_target(cells.path, roles, list_numbers(cells.frame))
    error = _join_errors(cells, roles, refused)
    may_be_categories = [name for name in texts if not is_like_a_number(pd.Series(cells.frame[name]))]
    return TextColumns(error, texts) if len(may_be_categories) == len(refused) else error


def refuse_text_as_target(path: Location, roles: ColumnRoles, numbers: Sequence[str]) -> DataError:
    """The error of a target that is text; `numbers` are the columns of numbers of the table."""
    possible = [
        name for name in numbers if name not in (*roles.keys, *roles.covariates, *roles.static, *roles.drop)
    ]
    listed = shorten(possible, 12)
    key = "target" if path == FRAME else "data.target"
    advice = f"choose a column of numbers as {key}" + (f" ({listed})" if listed else "")
    return DataError(f"{path}: target {quote(str(roles.target))} is text: {advice}")


def _join_errors(cells: Cells, roles: ColumnRoles, refused: Mapping[str, DataError]) -> DataError:
    """One error of all columns that are not numbers."""
    error = next(iter(refused.values()))
    if len(refused) == 1:
        name = next(iter(refused))
        if not (are_times(pd.Series(cells.frame[name])) and have_times(cells, roles)):
            return error
        said = f"{quote(name)} is a time of day, and {quote(roles.date)} has times too"
        return DataError(f"{cells.path}: {said}: set {write_setting('data.drop', [*roles.drop, name])}")
    shown = shorten(list(map(quote, refused)))
    first = str(error).removeprefix(f"{cells.path}, ").partition(" is not a number")[0]
    settings = settings_for_texts(cells, roles, list(refused))
    advice = f"set {' '.join(settings)}" if settings else "choose the number columns (data.columns)"
    return DataError(
        f"{cells.path}: {len(refused)} columns are not numbers: {shown} ({first})",
        f": correct them, or {advice}{_note_on_texts(settings)}",
    )


def _note_on_texts(settings: Sequence[str]) -> str:
    """Advice on columns that `settings` leave out."""
    leaves_out = any("data.drop" in setting for setting in settings)
    return f" (text can also be read as {COVARIATES})" if leaves_out else ""


def describe_repeated_dates(cells: Cells, roles: ColumnRoles, refused: Sequence[str] = ()) -> str | None:
    """Advice for a table whose dates repeat: its days and times are two columns, or it holds several series.

    None if it looks like neither. `refused` names the columns that are not numbers.
    """
    return describe_split_dates(cells, roles, refused) or describe_long(cells, roles)


def describe_split_dates(cells: Cells, roles: ColumnRoles, refused: Sequence[str] = ()) -> str | None:
    """Advice for a table with one column of days and one of times of day; None if it does not look like one.

    It does if its dates repeat, and hardly any date repeats together with the time of day.
    """
    time = find_time_column(cells, roles)
    if time is None:
        return None
    settings = [write_setting("data.date_column", [roles.date, time])]
    if count_to_24(pd.Series(cells.frame[time])):
        settings.append("data.stamp=end")
    rest = [name for name in refused if name != time]
    settings += settings_for_texts(cells, roles, rest)
    advice = f"set {' '.join(settings)}{_note_on_texts(settings)}"
    return f"{quote(time)} is the time of day of {quote(roles.date)}: {advice}"


def find_time_column(cells: Cells, roles: ColumnRoles) -> str | None:
    """The column of the time of day, where the dates of a series repeat without it and not with it."""
    frame, keys = cells.frame, [name for name in roles.keys if name in cells.frame]
    if roles.date not in frame or frame.duplicated(keys).mean() < 0.5:
        return None
    others = {*roles.keys, *roles.covariates, *roles.static, *roles.drop}
    for name in frame.columns:
        column = pd.Series(frame[name])
        is_time = name not in others and (are_times(column) or are_hours(str(name), column))
        if is_time and frame.duplicated([*keys, name]).mean() < MAX_REPEATED:
            return str(name)
    return None


class Refused(NamedTuple):
    """Columns that are not numbers: with decimal commas, with some texts among numbers, and of texts alone.

    `codes` are the texts among numbers.
    """

    commas: list[str]
    mixed: list[str]
    texts: list[str]
    codes: list[str]


def sort_refused(cells: Cells, refused: Sequence[str]) -> Refused:
    """Sort the columns `refused`, which are not numbers, by their content."""
    columns = {name: cells.frame[name].dropna().astype("string").str.strip() for name in refused}
    commas = [name for name, texts in columns.items() if _has_decimal_commas(texts)]
    numbers = {
        name: pd.Series(pd.to_numeric(texts, errors="coerce")).notna() for name, texts in columns.items()
    }
    mixed = [name for name in refused if name not in commas and numbers[name].mean() > 0.5]
    texts = [name for name in refused if name not in (*commas, *mixed)]
    codes = sorted({code for name in mixed for code in columns[name][~numbers[name]]})
    return Refused(commas, mixed, texts, codes)


def settings_for_texts(cells: Cells, roles: ColumnRoles, refused: Sequence[str]) -> list[str]:
    """Settings with which a table is read whose columns `refused` are not numbers; empty if there are none.

    Decimal commas are read, texts among numbers become missing values, and columns of texts are left out.
    """
    commas, _, texts, codes = sort_refused(cells, refused)
    if len(codes) > MAX_CODES or len(texts) > MAX_DROPPED:
        return []
    settings = {"data.na_values": codes, "data.drop": [*roles.drop, *texts] if texts else []}
    found = [write_setting("data.decimal", ",")] if commas else []
    return found + [write_setting(key, names) for key, names in settings.items() if names]


def _has_decimal_commas(texts: pd.Series) -> bool:
    return bool(len(texts) and texts.str.fullmatch(_DECIMAL_COMMA).all() and texts.str.contains(",").any())
