"""Files with one series a row, whose header has the steps: how they are recognised, and read as long files."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import pandas as pd

from forecast.data.files.cells import MISSING, TIME_OF_DAY, Cells, parse_cells
from forecast.data.files.columns import ColumnRoles
from forecast.data.files.date_columns import has_short_year, names_period
from forecast.data.files.dates import orders_of_short_years
from forecast.data.files.header import Header, is_unnamed, read_records
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.system.errors import ConfigError, DataError, Remedy, SeriesInRows, TooFewRows
from forecast.system.formatting import shorten
from forecast.system.location import Location

MIN_DATES, MIN_NUMBERS = 4, 10
"""Fewest dates, and fewest numbered names such as d_1, d_2, ..., in a header that is taken for one of steps."""

_OTHER_NAMES = {"y": {"target": "value"}, "ds": {"date_column": "step"}}
"""By usual name of a column of the melted table: the setting of another, for a file that has such a column."""

ROW = "row"
"""Name of a column with the numbers of the rows, for a file whose columns do not name the series."""

_SAMPLED = 50
"""Cells of a column that are looked at."""

_NUMBERED = re.compile(r"(.*?)(\d{1,6})")
_STEPS = {
    "D": ("d", "day"), "W-MON": ("w", "wk", "week"), "MS": ("m", "month"), "QS": ("q", "quarter"), "YS": ("y", "year"),
}  # fmt: skip
"""By step, the words that its numbers may follow in a header; hours are meant by any other word."""


class Steps(NamedTuple):
    """The columns of a header that are steps: they have dates as names (`are_dates`), or numbered ones."""

    names: list[str]
    are_dates: bool


def find_steps(names: Sequence[str]) -> Steps:
    """The names that are dates, or the most names that differ in their numbers only, such as d_1, d_2, ..."""
    dates = [name for name in names if names_period(name)]
    alike: dict[str, list[str]] = {}
    for name in names:
        if _NUMBERED.fullmatch(name):
            alike.setdefault(re.sub(r"\d+", "0", name), []).append(name)
    numbered = max(alike.values(), key=len, default=[])
    return Steps(dates, True) if len(dates) >= len(numbered) else Steps(numbered, False)


def _find_gaps(names: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of neighbours among numbered names whose numbers do not go up by one."""
    parts = [(found[1], int(found[2])) for name in names if (found := _NUMBERED.fullmatch(name))]
    both = zip(pairwise(names), pairwise(parts), strict=True)
    return [two for two, ((text, number), after) in both if after != (text, number + 1)]


def _have_steps(header: Sequence[str], steps: Steps) -> bool:
    """Whether a header has steps enough: more than other columns after the first one, and of numbers ten in a row."""
    names, least = {*steps.names}, MIN_DATES if steps.are_dates else MIN_NUMBERS
    if len(names) < least:
        return False
    others = [name for name in header[header.index(steps.names[0]) :] if name and name not in names]
    breaks = 0 if steps.are_dates else len(_find_gaps(steps.names))
    return len(names) > len(others) and len(names) >= least * (breaks + 1)


def refuse_series_in_rows(path: Location, raw: bytes, separator: str, header: Header) -> None:
    """Raise SeriesInRows, with the settings that read it, for a file whose header has a run of steps.

    Numbered names may name other things than steps. They are steps if a column of texts, and not of dates, names the
    series. Raises DataError if there are no rows.
    """
    names = ["" if is_unnamed(name) else name for name in header.names]
    steps = find_steps(names)
    if not _have_steps(names, steps):
        return
    first = names.index(steps.names[0])
    records = read_records(io.StringIO(raw.decode(), newline=""), separator)
    try:
        rows = [row[: first + 1] for row in records if row][1:]
    except csv.Error as error:
        line = header.line + records.line_num - 1
        raise DataError(f"{path}, line {line}: {error}: is a quote never closed?") from None
    if not rows:
        raise TooFewRows(f"{path}: a header and no rows")
    columns = {name: ["".join(row[i : i + 1]) for row in rows] for i, name in enumerate(names[: first + 1])}
    ids = [name for name, cells in columns.items() if name and all(cells) and len(set(cells)) == len(cells)]
    numbers: Any = pd.DataFrame({name: columns[name] for name in ids}).apply(pd.to_numeric, errors="coerce")
    texts = [name for name in ids if numbers[name].isna().any() and not _are_times(columns[name])]
    if not texts and not steps.are_dates:
        return
    before = [name for name in ids if name in names[:first]]
    named = [one for one in names[:first] if one and any(map(str.isalpha, "".join(columns[one])))]
    pairs = [list(two) for two in combinations(named, 2) if _differ(columns, two)]
    name = next(iter([*texts, *before, *pairs]), ROW)
    dated = [one for one in steps.names if one != name]
    order = orders_of_short_years(pd.Series(dated))[0] if has_short_year(dated[0]) else {}
    known = {*dated, *([name] if isinstance(name, str) else name)}
    others = [one for one in names if one and one not in known]
    settings = {"data": "long", "melt": True, "id_column": name, **order}
    settings |= {"drop": others} if others else {}
    for usual, setting in _OTHER_NAMES.items():
        settings |= setting if usual in others else {}
    what, note = "dates", ""
    if not steps.are_dates:
        what, word = "steps", re.sub(r"[\d\W_]+$", "", dated[0]).lower()
        freq = next((freq for freq, words in _STEPS.items() if word in words), "h")
        settings |= {"start": "2010-01-04" if freq == "W-MON" else "2010-01-01", "freq": freq}
        note = " (the first date and the step are examples)"
    span = f"from {quote(dated[0])} to {quote(dated[-1])} in line {header.line}"
    raise SeriesInRows(f"{path}: one series a row, with {what} {span}", Remedy(settings, note))


def _are_times(cells: Sequence[str]) -> bool:
    """Whether the first cells of a column are dates or times of day."""
    return all(names_period(cell) or re.match(TIME_OF_DAY, cell.strip()) for cell in cells[:_SAMPLED])


def _differ(columns: Mapping[str, Sequence[str]], names: Sequence[str]) -> bool:
    """Whether the cells of these columns together name each row."""
    rows = [*zip(*(columns[name] for name in names), strict=True)]
    return len(set(rows)) == len(rows)


def melt_series(
    path: Location, raw: bytes, header: Header, roles: ColumnRoles, options: ReadOptions
) -> Cells:
    """Parse a file with one series a row into cells with one row for each series and step.

    All columns that have no role are steps, in the order of the file.
    Rows are numbered from 1 in the column `row` if `roles` names it and the file does not have it.

    Args:
        path: the file, for messages.
        raw, header: its text, and the header of it.
        roles: the id columns, and the names that the columns of dates and of values receive.
        options: how the text is parsed. With `start`, the names of the steps are left out.

    Raises:
        ConfigError: there is no id column, or there are several targets.
        DataError: a column with a role is missing, one without a role is no step, or the file cannot be parsed.
    """
    if not roles.id_columns or roles.targets is None or len(roles.targets) != 1:
        raise ConfigError("data.melt=true needs data=long with data.id_column, and one target (data.target)")
    columns = ColumnRoles(roles.id_columns, "", targets=(), static=roles.static, drop=roles.drop)
    columns.check()
    named, target = {*columns.all, *columns.drop}, roles.targets[0]
    names = [name for name in header.names if name and (not is_unnamed(name) or name in named)]
    steps = [name for name in names if name not in named]
    cells = parse_cells(path, raw, (), options, [name for name in names if name in named], header=header)
    if not all(cells.frame[name].dtype.kind in "iuf" for name in steps):  # they become one column of texts
        cells = parse_cells(path, raw, (), options, names, header=header)
    table = cells.frame
    if ROW in roles.id_columns and ROW not in table:
        table.insert(0, ROW, [str(number) for number in range(1, len(table) + 1)])
    columns.resolve(str(path), list(map(str, table.columns)))
    _check_steps(f"{path}, line {header.line}", steps, options)
    if options.start is not None and (again := table.duplicated(list(roles.id_columns))).any():
        named = ", ".join(f"{name}={table.loc[again, name].iloc[0]}" for name in roles.id_columns)
        raise DataError(
            f"{path}: {named}: several rows, and each row is a series: name more columns in "
            "data.id_column, or remove rows"
        )
    long = table[[*columns.all, *steps]].melt(
        list(columns.all), steps, var_name=roles.date, value_name=target
    )
    if long[target].dtype.kind not in "iuf":
        long[target] = long[target].mask(long[target].str.strip().isin([*MISSING, *options.na_texts]))
    if options.start is not None:
        long = long.drop(columns=roles.date)
    return replace(cells, frame=long, n_lines=len(table))


def _check_steps(place: str, names: Sequence[str], options: ReadOptions) -> None:
    """Raise DataError for a name unlike the other steps, and for numbers with gaps, which would shift the dates.

    `place` is the file and the line, for the message.
    """
    steps = find_steps(names)
    known = {*steps.names}
    others = [name for name in names if name not in known]
    roles = "data.id_column, data.static_covariates or data.drop"
    if known and others:
        kind = "no dates" if steps.are_dates else f"not numbered as {quote(steps.names[0])} is"
        raise DataError(
            f"{place}: columns that are {kind}: {shorten(list(map(quote, others)), 12)}: name them in {roles}"
        )
    is_numbered = options.start is not None and not steps.are_dates and options.given_names != []
    if is_numbered and (gaps := _find_gaps(names)):
        before, after = map(quote, gaps[0])
        raise DataError(
            f"{place}: {after} follows {before}, and the numbers of steps must go up by one: rename the "
            f"columns, add those that are missing, without values, or name those that are no steps in {roles}"
        )
