"""Advice on tables that are refused: settings with which they can be read."""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import pandas as pd

from forecast.data.files.cells import COVARIATES, FRAME, TIME_OF_DAY, Cells, propose_codes, propose_signs
from forecast.data.files.columns import LIKE_A_NUMBER, ColumnRoles
from forecast.data.files.date_columns import find_part
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.system.errors import DataError, Remedy, TextColumns
from forecast.system.formatting import shorten
from forecast.system.location import Location

_HOURS = ("hour", "hours", "hr", "hourofday", "heure", "hora", "ora", "stunde", "uhrzeit", "time")
"""Names of columns of the hour, in lower case and without signs."""


def list_numbers(frame: pd.DataFrame) -> list[str]:
    """The names of the columns of numbers."""
    return [str(name) for name in frame.columns if frame[name].dtype.kind in "iuf"]


def are_times(column: pd.Series) -> bool:
    """Whether a column begins with a time of day, such as 18:00 or 18.00.00."""
    return bool(re.match(TIME_OF_DAY, str(column.iloc[0]).strip()))


def have_times(cells: Cells, roles: ColumnRoles) -> bool:
    """Whether the dates have times of day."""
    return roles.date in cells.frame and bool(re.search(r"\d:\d\d", str(cells.frame[roles.date].iloc[0])))


def is_like_a_number(column: pd.Series) -> bool:
    """Whether the first text of a column is a date, a time or was meant as a number: it is no category."""
    texts = column.dropna()
    return bool(len(texts)) and re.fullmatch(LIKE_A_NUMBER, str(texts.iloc[0]).strip()) is not None


def are_hours(name: str, column: pd.Series) -> bool:
    """Whether a column is named after the hour and has whole numbers from 0 to 24."""
    if re.sub("[^a-z]", "", name.lower()) not in _HOURS or column.dtype.kind not in "iu":
        return False
    return bool(column.between(0, 24).all())


def count_to_24(column: pd.Series) -> bool:
    """Whether a column of hours counts them from 1 to 24, so that they are named by their ends."""
    return column.dtype.kind in "iu" and (column.min(), column.max()) == (1, 24)


def counts_rows(column: pd.Series) -> bool:
    """Whether a column numbers the rows of a file."""
    return bool(column.diff().iloc[1:].eq(1).all())


MAX_PAIRED = 12
"""Number of columns of which pairs are tried as the names of series."""


def find_series_columns(cells: Cells, roles: ColumnRoles) -> tuple[str, list[Remedy]] | None:
    """How to read a table whose dates repeat because it holds several series; None if it does not look like one."""
    ids = find_id_columns(cells, roles)
    if not ids:
        return None
    frame, taken = cells.frame, (*ids, *roles.drop)
    numbers = [
        name for name in list_numbers(frame) if name not in taken and not counts_rows(pd.Series(frame[name]))
    ]
    note = f" or another number: {shorten(numbers[1:])}" if numbers[1:] else ""
    layout = {"data": "long", "id_column": ids[0] if len(ids) == 1 else list(ids), "date_column": roles.date}
    return describe_ids(ids), [Remedy({**layout, "target": name}, note) for name in numbers[:1]]


def describe_ids(ids: Sequence[str]) -> str:
    """Say that columns name the series."""
    return f"the file looks long, with one series for each {' and '.join(map(repr, ids))}"


def find_id_columns(cells: Cells, roles: ColumnRoles) -> tuple[str, ...]:
    """The columns that name the series of a row in a table that looks long; empty if it does not.

    It does if most dates come several times, and a column of texts or whole numbers, or two of them, tell the rows of a
    date apart.
    """
    frame, date = cells.frame, roles.date
    if date not in frame or pd.Series(frame[date]).nunique() > len(frame) / 2:
        return ()
    if roles.id is not None and not frame.duplicated(list(roles.keys)).any():
        return ()
    numbers = list_numbers(frame)
    texts = [
        str(name)
        for name in frame.columns
        if name not in numbers and frame[name].dtype.kind != "b" and not are_times(pd.Series(frame[name]))
    ]
    whole = [name for name in numbers if frame[name].dtype.kind in "iu"]
    possible = [
        name
        for name in (*texts, *whole)
        if name != date and find_part(name) is None and _may_name_series(pd.Series(frame[name]))
    ]
    pairs = combinations([str(name) for name in frame.columns if name in possible][:MAX_PAIRED], 2)
    if roles.id is None:
        found = [*((name,) for name in possible), *pairs]
    else:
        found = [(*roles.id_columns, name) for name in possible if name not in roles.id_columns]
    return next((names for names in found if not frame.duplicated([*names, date]).any()), ())


def _may_name_series(column: pd.Series) -> bool:
    return bool(column.notna().all() and 1 < column.nunique() <= len(column) / 2)


MAX_DROPPED = 20
"""Largest number of columns that advice names in data.drop."""

MAX_REPEATED = 0.01
"""Largest share of rows that repeat a date and a time of day, as hours do that daylight saving time repeats."""

_NUMBER = r"[-+]?(\d{1,3}([., '\u2019\xa0\u2009\u202f]\d{3})+|\d+)([.,]\d*)?(e[-+]?\d+)?"

Found = tuple[str, list[Remedy]]
"""What a table looks like, and how to read it."""


def refuse(
    cells: Cells, roles: ColumnRoles, options: ReadOptions, refused: Mapping[str, DataError]
) -> DataError:
    """The error of a table of which some targets are not numbers, each with its own error."""
    if found := find_repeated_dates(cells, roles):
        what, remedies = found
        return DataError(f"{cells.path}: {what}", remedies=remedies)
    sorted_columns = _sort_refused(cells, list(refused))
    if roles.target in sorted_columns.texts:
        return refuse_text_as_target(cells.path, roles, list_numbers(cells.frame))
    error, name = next(iter(refused.values())), next(iter(refused))
    if len(refused) > 1:
        shown = shorten(list(map(quote, refused)))
        first = error.problem.removeprefix(f"{cells.path}, ").partition(" is not a number")[0]
        problem = f"{cells.path}: {len(refused)} columns are not numbers: {shown} ({first}): correct them"
        error = DataError(problem, ", or choose the number columns (data.columns)", joint=", or ")
    elif have_times(cells, roles) and are_times(pd.Series(cells.frame[name])):
        error = DataError(
            f"{cells.path}: {quote(name)} is a time of day, and {quote(roles.date)} has times too",
            fallback=": leave it out (data.drop)",
        )
    error.remedies = (
        *propose_signs([cells.frame[one] for one in refused], options),  # type: ignore[arg-type]
        *_remedies_of_texts(cells, roles, sorted_columns),
    )
    may_be_categories = [
        one for one in sorted_columns.texts if not is_like_a_number(pd.Series(cells.frame[one]))
    ]
    return TextColumns(error, sorted_columns.texts) if len(may_be_categories) == len(refused) else error


def _remedies_of_texts(cells: Cells, roles: ColumnRoles, columns: "Refused") -> list[Remedy]:
    """Read texts among numbers as missing values, and leave out columns of texts."""
    codes = propose_codes(columns.codes)
    if (columns.codes and not codes) or len(columns.texts) > MAX_DROPPED:
        return []
    settings, note = (dict(codes[0].settings), codes[0].note) if codes else ({}, "")
    if columns.texts:
        settings["drop"] = [*roles.drop, *columns.texts]
        if not any(are_times(pd.Series(cells.frame[name])) for name in columns.texts):
            note += f" (text can also be read as {COVARIATES})"
    return [Remedy(settings, note)] if settings else []


def refuse_text_as_target(path: Location, roles: ColumnRoles, numbers: Sequence[str]) -> DataError:
    """The error of a target that is text; `numbers` are the columns of numbers of the table."""
    possible = [
        name for name in numbers if name not in (*roles.keys, *roles.covariates, *roles.static, *roles.drop)
    ]
    listed = shorten(possible, 12)
    key = "target" if path == FRAME else "data.target"
    advice = f"choose a column of numbers as {key}" + (f" ({listed})" if listed else "")
    return DataError(f"{path}: target {quote(str(roles.target))} is text: {advice}")


def find_repeated_dates(cells: Cells, roles: ColumnRoles) -> Found | None:
    """How to read a table whose dates repeat: its days and times are two columns, or it holds several series.

    None if it looks like neither.
    """
    return find_split_dates(cells, roles) or find_series_columns(cells, roles)


def find_split_dates(cells: Cells, roles: ColumnRoles) -> Found | None:
    """How to read a table with one column of days and one of times of day; None if it does not look like one.

    It does if its dates repeat, and hardly any date repeats together with the time of day.
    """
    time = find_time_column(cells, roles)
    if time is None:
        return None
    settings: dict[str, object] = {"date_column": [roles.date, time]}
    if count_to_24(pd.Series(cells.frame[time])):
        settings["stamp"] = "end"
    return f"{quote(time)} is the time of day of {quote(roles.date)}", [Remedy(settings)]


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
    """Columns that are not numbers: of texts alone, and the texts among the numbers of others (`codes`)."""

    texts: list[str]
    codes: list[str]


def _sort_refused(cells: Cells, refused: Sequence[str]) -> Refused:
    """Sort the columns `refused`, which are not numbers, by their content."""
    texts, codes = [], set()
    for name in refused:
        found = cells.frame[name].dropna().astype("string").str.strip()
        is_number = found.str.fullmatch(_NUMBER) | pd.Series(pd.to_numeric(found, errors="coerce")).notna()
        if is_number.mean() > 0.5:
            codes.update(text for text in found[~is_number] if not re.fullmatch(LIKE_A_NUMBER, text))
        else:
            texts.append(name)
    return Refused(texts, sorted(codes))
