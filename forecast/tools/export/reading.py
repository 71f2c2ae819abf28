"""The lines of the example program that read a file, with pandas alone, as the file of training was read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forecast.data.files.dates import COUNTS

ARGUMENTS = {"separator": ("sep", ","), "decimal": ("decimal", "."), "thousands": ("thousands", None),
             "encoding": ("encoding", None), "na_values": ("na_values", [])}  # fmt: skip
"""By option of the data: the argument of `pandas.read_csv`, and the value that need not be written."""

BOOLEANS = 'true_values=["yes", "Yes", "YES"], false_values=["no", "No", "NO"]'


def write_reading(data: Mapping[str, Any], freq: str) -> str:
    """Write the lines that make `table`: rows of the file my.csv, or my.parquet, indexed by date.

    If there is an id column, they are the rows of the series that the variable `series` names.

    Args:
        data: the data settings of the run.
        freq: step between rows.
    """
    date_column = data.get("date_column") or "date"
    names = [date_column] if isinstance(date_column, str) else list(date_column)
    lines = [_write_call(data, names)]
    if ids := data.get("id_column"):
        lines.append(f"table = table[table[{ids!r}] == series]")
    lines += _write_dates(data.get("date_format"), names)
    if data.get("stamp") == "end":
        lines.append(f"dates -= pd.tseries.frequencies.to_offset({freq!r})  # a date is the end of its step")
    if zone := data.get("timezone"):
        local = f"dates.dt.tz_localize({zone!r}, ambiguous='infer', nonexistent='shift_forward')"
        lines.append(f"dates = {local}.dt.tz_convert('UTC').dt.tz_localize(None)")
    lines.append("table.index = pd.DatetimeIndex(dates)")
    many = "long" in str(data.get("_target_"))
    if data.get("sort") or (many and data.get("sort") is None):
        lines.append("table = table.sort_index(kind='stable')")
    if how := data.get("duplicates"):
        lines.append(
            f"table = table[~table.index.duplicated(keep={how!r})]"
            if how in ("first", "last")
            else f"table = table.groupby(level=0).{how}(numeric_only=True)"
        )
    return "\n".join(lines)


def _write_call(data: Mapping[str, Any], dates: Sequence[str]) -> str:
    """Write the call of pandas; dates and ids are read as text."""
    if Path(str(data.get("path"))).suffix == ".parquet":
        return 'table = pd.read_parquet("my.parquet")'
    given = {name: data.get(key, usual) for key, (name, usual) in ARGUMENTS.items()}
    arguments = [
        f"{name}={given[name]!r}" for name, usual in ARGUMENTS.values() if given[name] not in (usual, None)
    ]
    ids = [data["id_column"]] if data.get("id_column") else []
    texts = ", ".join(f"{name!r}: str" for name in [*ids, *dates])
    arguments.append(f"dtype={{{texts}}}")
    if data.get("future_covariates") or data.get("past_covariates"):
        arguments.append(BOOLEANS)
    return f'table = pd.read_csv("my.csv", {", ".join(arguments)})'


def _write_dates(date_format: str | None, names: Sequence[str]) -> list[str]:
    """Write the lines that make the series `dates`."""
    text = " + ' ' + ".join(f"table[{name!r}]" for name in names)
    if date_format in COUNTS:
        milliseconds, origin = COUNTS[date_format]
        count = f"{text}.astype(float) * {milliseconds}"
        return [f"dates = pd.to_datetime({count}, unit='ms', origin={origin!r})"]
    if date_format is not None:
        utc = ", utc=True).dt.tz_localize(None)" if "%z" in date_format else ")"
        return [f"dates = pd.to_datetime({text}, format={date_format!r}{utc}"]
    if len(names) == 1:
        return [f"dates = pd.to_datetime({text})"]
    days = " + ' ' + ".join(f"table[{name!r}]" for name in names[:-1])
    return [
        f"hours = pd.to_numeric(table[{names[-1]!r}], errors='coerce')  # the number of an hour, or a time",
        "if hours.notna().all():",
        f"    dates = pd.to_datetime({days}) + pd.to_timedelta(hours, unit='h')",
        "else:",
        f"    dates = pd.to_datetime({text})",
    ]
