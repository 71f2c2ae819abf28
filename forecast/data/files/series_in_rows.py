"""Files with one series a row, whose header has the steps: how they are recognised, and read as long files."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, takewhile
from typing import Any, NamedTuple

import pandas as pd

from forecast.data.files.cells import MISSING, Cells, parse_cells
from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.date_formats import has_short_year, names_period, orders_of_short_years
from forecast.data.files.header import Header
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.system.arguments import write_setting
from forecast.system.errors import ConfigError, SeriesInRows
from forecast.system.location import Location

MIN_DATES, MIN_NUMBERS = 4, 10
"""Fewest dates, and fewest numbered names such as d_1, d_2, ..., in a header that is taken for one of steps."""

ROW = "row"
"""Name of a column with the numbers of the rows, for a file whose columns do not name the series."""

_NUMBERED = re.compile(r"(.*?)(\d{1,6})")
_STEPS = {
    "D": ("d", "day"), "W-MON": ("w", "wk", "week"), "MS": ("m", "month"), "QS": ("q", "quarter"), "YS": ("y", "year"),
}  # fmt: skip
"""By step, the words that its numbers may follow in a header; hours are meant by any other word."""


class Steps(NamedTuple):
    """The columns of the steps in the header of a file with one series a row: `count` of them, from `first` on.

    `are_dates` says whether they name dates, or number the steps.
    """

    first: int
    count: int
    are_dates: bool


def find_steps(header: Sequence[str]) -> Steps | None:
    """The run of dates in a header, or else its longest run of numbered names, such as d_1, d_2, ...; None: too short.

    There must be more of them than columns after them.
    """
    first = next((place for place, name in enumerate(header) if names_period(name)), len(header))
    dates = Steps(first, len(list(takewhile(names_period, header[first:]))), are_dates=True)
    for steps, least in ((dates, MIN_DATES), (_find_numbered(header), MIN_NUMBERS)):
        n_after = len([name for name in header[steps.first + steps.count :] if name])
        if steps.count >= max(least, n_after + 1):
            return steps
    return None


def _find_numbered(header: Sequence[str]) -> Steps:
    """The longest run of names of one word whose numbers go up by one."""
    best, first, before = Steps(0, 0, are_dates=False), 0, None
    for place, name in enumerate(header):
        found = _NUMBERED.fullmatch(name)
        here = None if found is None else (found[1], int(found[2]))
        if here is None or before is None or here != (before[0], before[1] + 1):
            first = place
        if here is not None and place + 1 - first > best.count:
            best = Steps(first, place + 1 - first, are_dates=False)
        before = here
    return best


def refuse_series_in_rows(path: Location, raw: bytes, separator: str, header: Sequence[str]) -> None:
    """Raise SeriesInRows, with the settings that read it, for a file whose header has a run of steps.

    Numbered names may name other things than steps. They are steps if a column of texts names the series.
    """
    steps = find_steps(header)
    if steps is None:
        return
    rows = [row[: steps.first + 1] for row in csv.reader(io.StringIO(raw.decode()), delimiter=separator)][1:]
    columns = dict(zip(header, zip(*filter(None, rows), strict=False), strict=False))
    ids = [name for name, cells in columns.items() if name and all(cells) and len(set(cells)) == len(cells)]
    numbers: Any = pd.DataFrame({name: columns[name] for name in ids}).apply(pd.to_numeric, errors="coerce")
    texts = [name for name in ids if numbers[name].isna().any()]
    if not texts and not steps.are_dates:
        return
    before = [name for name in ids if name in header[: steps.first]]
    named = [one for one in header[: steps.first] if one and any(map(str.isalpha, "".join(columns[one])))]
    pairs = [list(two) for two in combinations(named, 2) if _differ(columns, two)]
    name = next(iter([*texts, *before, *pairs]), ROW)
    names = [one for one in header[steps.first : steps.first + steps.count] if one != name]
    order = orders_of_short_years(pd.Series(names))[:1] if has_short_year(names[0]) else []
    after = [one for one in header[steps.first + steps.count :] if one]
    settings = ["data=long", "data.melt=true", write_setting("data.id_column", name), *order]
    settings += [write_setting("data.drop", after)] if after else []
    what = "dates"
    if not steps.are_dates:
        what, word = "steps", re.sub(r"[\d\W_]+$", "", names[0]).lower()
        freq = next((freq for freq, words in _STEPS.items() if word in words), "h")
        settings += [f"data.start={'2010-01-04' if freq == 'W-MON' else '2010-01-01'}", f"data.freq={freq}"]
    problem = f"{path}: one series a row, with {what} from {quote(names[0])} to {quote(names[-1])} in line 1"
    raise SeriesInRows(
        problem, settings, "" if steps.are_dates else " (the first date and the step are examples)"
    )


def _differ(columns: Mapping[str, Sequence[str]], names: Sequence[str]) -> bool:
    """Whether the cells of these columns together name each row."""
    rows = [*zip(*(columns[name] for name in names), strict=True)]
    return len(set(rows)) == len(rows)


def melt_series(
    path: Location, raw: bytes, header: Header, roles: ColumnRoles, options: ReadOptions
) -> Cells:
    """Parse a file with one series a row into cells with one row for each series and step.

    The columns of `find_steps` are the steps, and those after them. If it finds none, all that have no role are.
    Rows are numbered from 1 in the column `row` if `roles` names it and the file does not have it.

    Args:
        path: the file, for messages.
        raw, header: its text, and the header of it.
        roles: the id columns, and the names that the columns of dates and of values receive.
        options: how the text is parsed. With `start`, the names of the steps are left out.

    Raises:
        ConfigError: there is no id column, or there are several targets.
        DataError: a column with a role is missing, or the file cannot be parsed.
    """
    if not roles.id_columns or roles.targets is None or len(roles.targets) != 1:
        raise ConfigError("data.melt=true needs data=long with data.id_column, and one target (data.target)")
    columns = ColumnRoles(roles.id_columns, "", targets=(), static=roles.static, drop=roles.drop)
    named, target = {*columns.all, *columns.drop}, roles.targets[0]
    names = [name for name in header.names if name]
    steps = [name for name in names if name not in named]
    steps = steps[0 if (found := find_steps(steps)) is None else found.first :]
    cells = parse_cells(path, raw, (), options, [name for name in names if name in named], header=header)
    if not all(cells.frame[name].dtype.kind in "iuf" for name in steps):  # they become one column of texts
        cells = parse_cells(path, raw, (), options, names, header=header)
    table = cells.frame
    if ROW in roles.id_columns and ROW not in table:
        table.insert(0, ROW, [str(number) for number in range(1, len(table) + 1)])
    columns.resolve(str(path), list(map(str, table.columns)))
    long = table[[*columns.all, *steps]].melt(
        list(columns.all), steps, var_name=roles.date, value_name=target
    )
    if long[target].dtype.kind not in "iuf":
        long[target] = long[target].mask(long[target].str.strip().isin([*MISSING, *options.na_texts]))
    if options.start is not None:
        long = long.drop(columns=roles.date)
    return replace(cells, frame=long, n_lines=len(table))
