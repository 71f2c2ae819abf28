"""The lines of the example program that read a file, with pandas alone, as the file of training was read."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from forecast.data.files.dates import COUNTS
from forecast.data.files.read import PARQUET
from forecast.data.files.series_ids import SEPARATOR, list_id_columns
from forecast.data.files.series_in_rows import ROW
from forecast.data.utc_offset import OFFSET, TIME_END, UtcOffset
from forecast.system.location import is_folder, locate

ARGUMENTS = {
    "skip_rows": ("skiprows", 0), "separator": ("sep", ","), "decimal": ("decimal", "."),
    "thousands": ("thousands", None), "encoding": ("encoding", None), "na_values": ("na_values", []),
}  # fmt: skip
"""By option of the data: the argument of `pandas.read_csv`, and the value that need not be written."""

TIME_AND_OFFSET = rf"({TIME_END}) ?(?:UTC|GMT|{OFFSET})$"
"""Pattern of the end of a time and the UTC offset after it."""

BOOLEANS = 'true_values=["yes", "Yes", "YES"], false_values=["no", "No", "NO"]'


def write_reading(data: Mapping[str, Any], freq: str, utc_offset: UtcOffset) -> str:
    """Write the lines that make `table`: rows of the file my.csv, or my.parquet, indexed by date at this UTC offset.

    If there is an id column, they are the rows of the series that the variable `series` names.

    Args:
        data: the data settings of the run.
        freq: step between rows.
        utc_offset: of the training data.
    """
    date_column = data.get("date_column") or "date"
    names = [date_column] if isinstance(date_column, str) else list(date_column)
    start = data.get("start")
    lines = _write_call(data, [] if start else names)
    if ids := list_id_columns(data.get("id_column")):
        texts = [f"table[{name!r}]{'.fillna(str())' if len(ids) > 1 else ''}.astype(str)" for name in ids]
        id_of_row = f" + {SEPARATOR!r} + ".join(texts)
        lines.append(f"table = table[{id_of_row} == series]")
    if start:
        lines.append(f"table.index = pd.date_range({start!r}, periods=len(table), freq={freq!r})")
        return "\n".join(lines)
    lines += _write_dates(data, names, freq, utc_offset)
    lines.append("table.index = pd.DatetimeIndex(dates)")
    if data.get("sort") or (data.get("id_column") and data.get("sort") is None):
        lines.append("table = table.sort_index(kind='stable')")
    if how := data.get("duplicates"):
        lines += _write_merging(data, how)
    return "\n".join(lines)


def _write_merging(data: Mapping[str, Any], how: str) -> list[str]:
    """Write the lines that merge rows of one date, as `forecast.data.files.order.choose_merging` says."""
    if how in ("first", "last"):
        return [f"table = table[~table.index.duplicated(keep={how!r})]"]
    covariates = [*(data.get("past_covariates") or ()), *(data.get("future_covariates") or ())]
    of_numbers = f"'mean' if name in {covariates} else {how!r}" if covariates and how == "sum" else repr(how)
    return [
        f"merging = {{name: {of_numbers} for name in table.select_dtypes('number')}}",
        "table = table.groupby(level=0).agg({name: merging.get(name, 'first') for name in table})",
    ]


def is_parquet(data: Mapping[str, Any]) -> bool:
    """Whether the file of the run is a Parquet file, or a folder of Parquet files."""
    location = locate(data.get("path"))
    return is_folder(location) or location.suffix in PARQUET


def _write_call(data: Mapping[str, Any], dates: Sequence[str]) -> list[str]:
    """Write the call of pandas; dates and ids are read as text."""
    if is_parquet(data):
        return ['table = pd.read_parquet("my.parquet")']
    given = {name: data.get(key, usual) for key, (name, usual) in ARGUMENTS.items()}
    arguments = ['"my.csv"'] + [
        f"{name}={given[name]!r}" for name, usual in ARGUMENTS.values() if given[name] not in (usual, None)
    ]
    ids = [name for name in list_id_columns(data.get("id_column")) if not (data.get("melt") and name == ROW)]
    texts: list[Any] = [*ids, *(() if data.get("melt") else dates)]
    after = []
    if data.get("header") == "none":
        arguments.append("header=None")
        if names := list(data.get("names") or ()):
            arguments.append(f"names={names!r}")
        else:
            texts = [int(name.removeprefix("column_")) - 1 for name in texts]
            after = ['table.columns = [f"column_{number + 1}" for number in table.columns]']
    if texts:
        arguments.append(f"dtype={{{', '.join(f'{name!r}: str' for name in texts)}}}")
    if data.get("future_covariates") or data.get("past_covariates"):
        arguments.append(BOOLEANS)
    if data.get("melt"):
        after += _write_melting(data)
    return [f"table = pd.read_csv({', '.join(arguments)})", *after]


def _write_melting(data: Mapping[str, Any]) -> list[str]:
    """Write the lines that read one series a row as `forecast.data.files.series_in_rows.melt_series` does."""
    ids = list_id_columns(data.get("id_column"))
    kept = [*ids, *(data.get("static_covariates") or ())]
    columns = [*kept, *(data.get("drop") or ())]
    date, target = data.get("date_column") or "date", data.get("target")
    numbered = [f"if {ROW!r} not in table:", f"    table.insert(0, {ROW!r}, range(1, len(table) + 1))"]
    return [
        *(numbered if ROW in ids else []),
        f"steps = [name for name in table if name not in {columns!r} and not name.startswith('Unnamed: ')]",
        f"table = table.melt({kept!r}, steps, var_name={date!r}, value_name={target!r})",
    ]


class Times(StrEnum):
    """The meaning of the texts of dates. It decides how they are converted to the UTC offset of training."""

    SAME_OFFSET = "with the UTC offset of training, which they do not name"
    DAYS = "days, whose UTC offset is left out"
    INSTANTS = "with a UTC offset"
    LOCAL = "local times of data.timezone, or with a UTC offset"

    @classmethod
    def of(cls, data: Mapping[str, Any], utc_offset: UtcOffset) -> "Times":
        """The meaning of texts that were read with these settings, at this UTC offset."""
        date_format = data.get("date_format") or ""
        if utc_offset.timezone is None or date_format.startswith("unix"):
            return cls.SAME_OFFSET
        if utc_offset.minutes is None:
            return cls.DAYS
        return cls.INSTANTS if data.get("timezone") is None or "%z" in date_format else cls.LOCAL


def _write_dates(
    data: Mapping[str, Any], names: Sequence[str], freq: str, utc_offset: UtcOffset
) -> list[str]:
    """Write the lines that make the series `dates`, at this UTC offset and without a time zone."""
    times, is_typed = Times.of(data, utc_offset), is_parquet(data)
    text, utc, lines = " + ' ' + ".join(f"table[{name!r}]" for name in names), "", []
    if times == Times.DAYS and not is_typed:
        text = f"({text}).str.replace(r'{TIME_AND_OFFSET}', r'\\1', regex=True)"
    elif times == Times.INSTANTS:
        utc = "utc=True"
    elif times == Times.LOCAL and not is_typed:
        utc = "utc=has_offset"
        lines.append(f"has_offset = bool(({text}).str.fullmatch(r'.*{TIME_AND_OFFSET}').all())")
    lines += _write_parsing(data, names, text, utc)
    if times == Times.INSTANTS or (times == Times.DAYS and is_typed):
        ahead = f" + pd.Timedelta(minutes={utc_offset.minutes})" if utc_offset.minutes else ""
        lines.append(f"dates = dates.dt.tz_localize(None){ahead}")
    if data.get("stamp") == "end":
        lines.append(f"dates -= pd.tseries.frequencies.to_offset({freq!r})  # a date is the end of its step")
    if times == Times.LOCAL:
        local = f"dates.dt.tz_localize({data['timezone']!r}, ambiguous='infer', nonexistent='shift_forward')"
        lines.append(f"dates = (dates if dates.dt.tz else {local}).dt.tz_convert(None)")
    return lines


def _write_parsing(data: Mapping[str, Any], names: Sequence[str], text: str, utc: str) -> list[str]:
    """Write the lines that parse `text`, an expression of the texts of dates, as the series `dates`."""
    date_format = data.get("date_format")
    if date_format in COUNTS:
        milliseconds, origin = COUNTS[date_format]
        count = f"{text}.astype(float) * {milliseconds}"
        return [f"dates = pd.to_datetime({count}, unit='ms', origin={origin!r})"]
    options = (
        [f"format={date_format!r}"] if date_format else ["dayfirst=True"] if data.get("day_first") else []
    )
    end = ", ".join(["", *options, *([utc] if utc else [])]) + ")"
    if len(names) == 1 or date_format:
        return [f"dates = pd.to_datetime({text}{end}"]
    days = " + ' ' + ".join(f"table[{name!r}]" for name in names[:-1])
    return [
        f"hours = pd.to_numeric(table[{names[-1]!r}], errors='coerce')  # the number of an hour, or a time",
        "if hours.notna().all():",
        f"    dates = pd.to_datetime({days}{end} + pd.to_timedelta(hours, unit='h')",
        "else:",
        f"    dates = pd.to_datetime({text}{end}",
    ]
