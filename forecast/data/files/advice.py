"""Advice on tables that are refused: settings with which they are read, each of which is tried before it is printed."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import pandas as pd

from forecast.data.files.cells import COVARIATES, FRAME, Cells, parse_numbers, propose_codes, propose_signs
from forecast.data.files.columns import ColumnRoles
from forecast.data.files.patterns import LIKE_A_NUMBER, NUMBER, TIME_OF_DAY, find_part, matches, names_hour
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.system.errors import DataError, ForecastError, Remedy, TextColumns
from forecast.system.formatting import shorten, write_setting

MAX_PAIRED, MAX_DROPPED = 12, 20
"""Largest numbers of columns of which pairs are tried as the names of series, and that advice names in data.drop."""

MAX_REPEATED = 0.01
"""Largest share of rows that repeat a date and a time of day, as hours do that daylight saving time repeats."""

MAX_TRIALS = 32
"""Largest number of times that a file is read to find the settings."""

MAX_TEXT = 1 << 23
"""Bytes of a text that are read to find the settings. The whole text is read once more with the settings found."""

CHOOSING = frozenset({"data", "id_column", "columns", "drop", "header", "names", "start", "melt", "target"})
"""Settings that choose columns or their meaning, which a trained model does not take."""

_REPEATED = frozenset({"drop", "na_values", "skip_rows", "separator"})
"""Settings that a later remedy may change."""

Found = tuple[str, list[Remedy]]
"""What a table looks like, and how to read it."""

Settings = Mapping[str, Any]
Read = Callable[[Settings], int]
"""Reads the file with more settings, returns how many rows are missing, and raises ForecastError if it cannot."""


def _list_numbers(frame: pd.DataFrame) -> list[str]:
    return [str(name) for name in frame.columns if frame[name].dtype.kind in "iuf"]


def _are_times(column: pd.Series) -> bool:
    """Whether a column begins with a time of day, such as 18:00 or 18.00.00."""
    return re.match(TIME_OF_DAY, str(column.iloc[0]).strip()) is not None


def find_repeated_dates(cells: Cells, roles: ColumnRoles) -> Found | None:
    """How to read a file whose dates repeat: its days and times are two columns, or it holds several series.

    None if it looks like neither.
    """
    if found := find_split_dates(cells, roles):
        return found
    ids = find_id_columns(cells, roles)
    if not ids or cells.path == FRAME:
        return None
    numbers = [
        name
        for name in _list_numbers(cells.frame)
        if name not in (*ids, *roles.drop)
        and not cells.frame[name].diff().iloc[1:].eq(1).all()  # numbers of rows
    ]
    note = f" or another number: {shorten(numbers[1:])}" if numbers[1:] else ""
    layout = {"data": "long", "id_column": ids[0] if len(ids) == 1 else list(ids), "date_column": roles.date}
    return describe_ids(ids), [Remedy({**layout, "target": name}, note) for name in numbers[:1]]


def find_split_dates(cells: Cells, roles: ColumnRoles) -> Found | None:
    """How to read a file with one column of days and one of times of day; None if it does not look like one.

    It does if its dates repeat, and hardly any date repeats together with the time of day.
    """
    frame, keys = cells.frame, [name for name in roles.keys if name in cells.frame]
    if cells.path == FRAME or roles.date not in frame or frame.duplicated(keys).mean() < 0.5:
        return None
    for name in map(str, frame.columns):
        column = pd.Series(frame[name])
        are_hours = names_hour(name) and column.dtype.kind in "iu" and column.between(0, 24).all()
        is_free = name not in roles.other_roles and (are_hours or _are_times(column))
        if is_free and frame.duplicated([*keys, name]).mean() < MAX_REPEATED:
            settings: dict[str, Any] = {"date_column": [roles.date, name]}
            if are_hours and (column.min(), column.max()) == (1, 24):  # hours are named by their ends
                settings["stamp"] = "end"
            return f"{quote(name)} is the time of day of {quote(roles.date)}", [Remedy(settings)]
    return None


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

    def may_name_series(name: str) -> bool:
        column = pd.Series(frame[name])
        is_text = column.dtype.kind not in "iufbM" and not _are_times(column)
        if name == date or find_part(name) is not None or not (is_text or column.dtype.kind in "iu"):
            return False
        return bool(column.notna().all() and 1 < column.nunique() <= len(column) / 2)

    names = list(map(str, frame.columns))
    possible = sorted(filter(may_name_series, names), key=lambda name: frame[name].dtype.kind in "iu")
    found: Iterable[tuple[str, ...]] = [
        (*roles.id_columns, one) for one in possible if one not in roles.id_columns
    ]
    if roles.id is None:
        pairs = combinations([name for name in names if name in possible][:MAX_PAIRED], 2)
        found = [*found, *pairs]
    return next((names for names in found if not frame.duplicated([*names, date]).any()), ())


def refuse(
    cells: Cells, roles: ColumnRoles, options: ReadOptions, refused: Mapping[str, DataError]
) -> DataError:
    """The error of a table of which some targets are not numbers, each with its own error."""
    if found := find_repeated_dates(cells, roles):
        return DataError(f"{cells.path}: {found[0]}", remedies=found[1])
    frame, texts, codes = cells.frame, [], set()
    for name in refused:
        column = frame[name].dropna().astype("string").str.strip()
        is_number = column.str.fullmatch(NUMBER) | ~pd.isna(parse_numbers(column, ".", None))
        if is_number.mean() > 0.5:
            codes.update(text for text in column[~is_number] if not matches(LIKE_A_NUMBER, text))
        else:
            texts.append(name)
    if roles.target in texts:
        listed = shorten([name for name in _list_numbers(frame) if name not in roles.other_roles], 12)
        advice = "choose a column of numbers as data.target" + (f" ({listed})" if listed else "")
        return DataError(f"{cells.path}: target {quote(roles.target)} is text: {advice}")
    name, error = next(iter(refused.items()))
    if len(refused) > 1:
        shown = shorten(list(map(quote, refused)))
        first = error.problem.removeprefix(f"{cells.path}, ").partition(" is not a number")[0]
        problem = f"{cells.path}: {len(refused)} columns are not numbers: {shown} ({first}): correct them"
        error = DataError(problem, ", or choose the number columns (data.columns)", joint=", or ")
    elif _are_times(frame[name]) and re.search(r"\d:\d\d", str(frame[roles.date].iloc[0])):  # type: ignore[reportArgumentType]
        problem = f"{cells.path}: {quote(name)} is a time of day, and {quote(roles.date)} has times too"
        error = DataError(problem, fallback=": leave it out (data.drop)")
    error.remedies = tuple(propose_signs([frame[one] for one in refused], options))  # type: ignore[reportArgumentType]
    as_missing = propose_codes(sorted(codes))
    if (as_missing or not codes) and 0 < len(codes) + len(texts) <= MAX_DROPPED:
        settings, note = (dict(as_missing[0].settings), as_missing[0].note) if codes else ({}, "")
        if texts:
            settings["drop"] = [*roles.drop, *texts]
            if not any(_are_times(frame[name]) for name in texts):  # type: ignore[reportArgumentType]
                note += f" (text can also be read as {COVARIATES})"
        error.remedies += (Remedy(settings, note),)
    may_be_categories = [
        one for one in texts if not matches(LIKE_A_NUMBER, str(frame[one].dropna().iloc[0]).strip())
    ]
    return TextColumns(error, texts) if len(may_be_categories) == len(refused) else error


def advise(
    error: DataError, given: Settings, read: Read, confirm: Read, keys: Collection[str] | None = None
) -> None:
    """Add to an error the settings that read the file, or the error that comes next with the likeliest ones.

    Of the settings that read the file, those are named with which the fewest rows are missing.

    Args:
        error: an error with remedies, whose message changes.
        given: the settings that gave the error.
        read: reads the file, or its beginning.
        confirm: reads the whole file.
        keys: the settings that the command takes; None: all.
    """
    found, next_errors = _try_remedies(error, given, read, keys)
    fewest = min((missing for missing, _ in found), default=0)
    best = [remedy for missing, remedy in found if missing == fewest]
    best = [one for one in best if not any(other.settings.items() < one.settings.items() for other in best)]
    if confirm is not read:
        on_the_beginning, best = best, []
        for remedy in on_the_beginning:
            try:
                confirm(remedy.settings)
                best.append(remedy)
            except ForecastError as refused:
                if remedy is on_the_beginning[0]:
                    next_errors.insert(0, (remedy.settings, str(refused)))
    if not best and not next_errors:
        return
    settings, next_error = (best[0].settings, "") if best else next_errors[0]
    advice = f"{error.fallback}; with {write_settings(settings)}, the next error is: {next_error}"
    if best:
        # a note that the next remedy has too stands behind that one
        notes = [one.note if one.note != after.note else "" for one, after in pairwise(best)] + [
            best[-1].note
        ]
        named = [write_settings(one.settings) + note for one, note in zip(best, notes, strict=True)]
        advice = f"{error.joint}set {' or '.join(named)}"
    error.replace_advice(advice, is_for_training=not CHOOSING.isdisjoint(settings))


def write_settings(settings: Settings) -> str:
    """Write settings as they are typed in a shell."""
    keys = {key: key if key == "data" else f"data.{key}" for key in settings}
    return " ".join(write_setting(keys[key], value) for key, value in settings.items())


def _try_remedies(
    error: DataError, given: Settings, read: Read, keys: Collection[str] | None
) -> tuple[list[tuple[int, Remedy]], list[tuple[Settings, str]]]:
    """Try every remedy of an error, then those of the error that comes next; the arguments are those of `advise`.

    Returns:
        The remedies that read the file, each with the number of missing rows; and the settings that led to an error of
        another kind, with its message, if the error has no other advice.
    """
    tried: list[Settings] = [{}]
    next_errors: list[tuple[Settings, str]] = []

    def find(error: DataError, settings: Settings) -> list[tuple[int, Remedy]]:  # `settings` gave the error
        found = []
        for remedy in error.remedies:
            chosen = {**settings, **remedy.settings}
            if "data" not in chosen:  # which has defaults of its own
                chosen = {key: value for key, value in chosen.items() if value != given.get(key)}
            changed = settings.keys() & remedy.settings.keys() - _REPEATED
            is_possible = not changed and (keys is None or {*keys} >= {*chosen})
            if chosen in tried or not is_possible or len(tried) > MAX_TRIALS:
                continue
            tried.append(chosen)
            try:
                found.append((read(chosen), Remedy(chosen, remedy.note)))
            except DataError as refused:
                again = any(not remedy.settings.keys().isdisjoint(each.settings) for each in refused.remedies)
                if not again and error.joint == ": ":
                    next_errors.append((chosen, str(refused)))
                below = find(refused, chosen)
                found += [(rows, Remedy(deeper, remedy.note + note)) for rows, (deeper, note) in below]
            except ForecastError:
                continue
        return found

    return find(error, {}), next_errors
