"""Kinds of columns that the advice on a table tells apart: numbers, times of day, hours, row numbers."""

import re

import pandas as pd

from forecast.data.files.cells import TIME_OF_DAY, Cells
from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.covariates import LIKE_A_NUMBER

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
