"""Tables in the format of a text file, so that their rows can be appended to it."""

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd

from forecast.data.calendars import UtcOffset
from forecast.data.files.cells import DateColumn, date_name
from forecast.data.files.columns import IdColumn, list_id_columns, split_ids
from forecast.data.files.dates import COUNTS, guess_format
from forecast.data.files.header import read_records
from forecast.data.files.read import find_kind, open_text
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.sources import FileSource
from forecast.data.files.text import QUARTER, WEEK, find_parts
from forecast.data.source import Source


@dataclass(frozen=True)
class FileFormat:
    """How a text file writes its rows. The default is CSV with dates in ISO 8601.

    Attributes:
        first: the cells of the first row by column, in the order of the file.
        options: how the file is read.
    """

    first: Mapping[str, str] = field(default_factory=dict)
    options: ReadOptions = field(default_factory=ReadOptions)

    def tabulate(
        self, frame: pd.DataFrame, utc_offset: UtcOffset, id_column: IdColumn, date_column: DateColumn | None
    ) -> pd.DataFrame:
        """A table as it is written: its ids and dates have the columns of the data, which name them.

        The index of `frame`, or its index and a column, hold the ids and the dates of `utc_offset.zoned`.
        """
        table = split_ids(frame, list_id_columns(id_column)).reset_index()
        columns = {str(name): table[[name]] for name in table}
        dates = next((name for name in table if pd.api.types.is_datetime64_any_dtype(table[name])), None)
        if dates is not None:
            names = [str(dates)] if isinstance(date_column, str | None) else list(map(str, date_column))
            if len(names) == 1 or dates == date_name(names):
                written = self._write_dates(pd.DatetimeIndex(table[dates]), names, utc_offset)
                columns[str(dates)] = pd.DataFrame({name: list(texts) for name, texts in written.items()})
        return pd.concat(columns.values(), axis=1)

    def with_all_columns(self, table: pd.DataFrame) -> pd.DataFrame:
        """The table with the columns of the file in its order, empty where it lacks one, and its other ones."""
        return table.reindex(columns=list(dict.fromkeys([*self.first, *map(str, table)])))

    def write(self, table: pd.DataFrame, file: Path | TextIO) -> None:
        """Write the table of `tabulate`, as Parquet if the file is named so."""
        if isinstance(file, Path) and file.suffix == ".parquet":
            table.to_parquet(file, index=False)
            return
        options = self.options
        table.to_csv(
            file, index=False, float_format="%.12g", sep=options.separator, decimal=options.decimal_sign,
            encoding=options.encoding, header=options.given_names is None,
        )  # fmt: skip

    def _write_dates(self, dates: pd.DatetimeIndex, names: Sequence[str], utc_offset: UtcOffset) -> Mapping[str, Any]:
        """The columns of these names from which the dates are read again, as `data.date_column` names them.

        Columns that are named after the parts of a date hold numbers. Two others hold days and times of day. If the
        names do not say what other columns hold, there is one column `date`. Dates that lie `stamp` after the
        beginnings of their steps are written as local beginnings plus `stamp`: where clocks go back, the hours 1, 2,
        2, 3. Their hours count from 1 to 24.
        """
        parts, stamp, first = find_parts(names), utc_offset.stamp, [self.first.get(name) for name in names]
        local, given = dates.tz_localize(None), self.options.day_first
        day_first = bool(utc_offset.day_first if given is None else given)
        if stamp:
            local = pd.DatetimeIndex((dates - stamp).tz_localize(None) + stamp)
        if len(names) == 1:
            return {names[0]: self._write_whole(dates, local, first[0], day_first)}
        days, hours = local, local.hour
        if stamp and parts[-1] == "hour":
            is_midnight = np.asarray(hours == 0)
            days = pd.DatetimeIndex(local - pd.to_timedelta(is_midnight.astype(int), unit="D"))
            hours = hours.where(~is_midnight, 24)
        if "year" in parts and None not in parts:
            of_weeks = dict(days.isocalendar()) if "week" in parts else {}  # years differ around New Year
            values = {"hour": hours} | of_weeks
            found = [values[part] if part in values else getattr(days, str(part)) for part in parts]
            return dict(zip(names, found, strict=True))
        if len(names) > 2:
            return {"date": dates}
        units = ":".join(["%H", "%M", "%S"][: (first[1] or "::").count(":") + 1])
        times = hours if parts[1] == "hour" else local.strftime(units)
        days = days.normalize()
        return {names[0]: self._write_whole(days, days, first[0] or "2024-01-31", day_first), names[1]: times}

    def _write_whole(self, dates: pd.DatetimeIndex, local: pd.DatetimeIndex, first: str | None, day_first: bool) -> Any:
        """Dates in the format of the first one; unchanged if it is not clear, or has a UTC offset.

        `dates` have their time zone if it is known, and `local` are the same without it.
        """
        how, text = self.options.date_format, (first or "").strip()
        if how in COUNTS:
            per_count, origin = COUNTS[how]
            utc = dates if dates.tz is None or not how.startswith("unix") else dates.tz_convert("UTC")
            since = (utc.tz_localize(None) - pd.to_datetime(0, unit="ms", origin=origin)).as_unit("ns").asi8
            counts, rest = np.divmod(since, round(per_count * 1e6))
            return since / (per_count * 1e6) if rest.any() else counts
        for pattern in (QUARTER, WEEK) if how is None else ():
            if (found := re.fullmatch(pattern, text)) is not None:
                return [_replace_period(found, date) for date in local]
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of the only possible order
            how = how or (guess_format(text, dayfirst=day_first) if text else None)
        if how is None or ("%z" in how and self.options.date_format is None):
            return dates
        texts = (dates if "%z" in how else local).strftime(how)
        read = pd.to_datetime(texts, format=how, errors="coerce")
        return texts if "%z" in how or (read == local).all() else dates


def _replace_period(found: re.Match[str], date: pd.Timestamp) -> str:
    """The text of a quarter or of a week of ISO 8601, with the numbers of the one that begins at a date."""
    values = {"year": date.year, "quarter": date.quarter}
    if "week" in found.groupdict():
        values["year"], values["week"], values["day"] = date.isocalendar()
    text = found[0]
    for name in reversed(list(found.re.groupindex)):
        if found[name] is not None:
            begin, end = found.span(name)
            text = f"{text[:begin]}{values[name.removesuffix('_after')]:0{end - begin}}{text[end:]}"
    return text


def read_format(source: Source) -> FileFormat | None:
    """The format of the text file of a source; None if it has none, or has series in its rows (`data.melt`)."""
    if not isinstance(source, FileSource) or source.melt or find_kind(source.path) != "text":
        return None
    options = ReadOptions.of_settings(vars(source))
    raw, header = open_text(source.path, options)
    lines = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", newline="")
    rows = islice(read_records(lines, source.separator), header.n_lines, None)
    cells = next((row for row in rows if any(row)), [])
    cells += [""] * (len(header.names) - len(cells))
    return FileFormat(dict(zip(header.names, cells, strict=False)), options)
