"""The example program that `forecast.export` prints: it runs the exported file without this package.

It reads a CSV or Parquet file with one row per step and a column of dates. It ends with a message where the rows are
not what the exported file needs, such as dates without the UTC offset that training had.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecast.data.calendars import OFFSET, UtcOffset
from forecast.data.files.columns import SEPARATOR, list_id_columns
from forecast.data.files.read import PARQUET
from forecast.data.time_features import DaysOfMonth, parse_frequency
from forecast.system.location import is_folder, locate
from forecast.tools.export.metadata import metadata_path

RUNTIMES = {
    ".onnx": (
        "import onnxruntime",
        'forecast = onnxruntime.InferenceSession({path!r}).run(["forecast"], inputs)[0]',
    ),
    ".pt2": (
        "import torch",
        "model = torch.export.load({path!r}).module()\n"
        "tensors = {{name: torch.tensor(value) for name, value in inputs.items()}}\n"
        'window = [tensors.pop(name) for name in ("past", "past_time", "future_time")]\n'
        "with torch.no_grad():\n"
        '    forecast = model(*window, **tensors)["forecast"].numpy()',
    ),
}
"""By the ending of the file: the import, and the lines that compute the array `forecast`."""

ARGUMENTS = {
    "skip_rows": ("skiprows", 0), "separator": ("sep", ","), "decimal": ("decimal", "."),
    "thousands": ("thousands", None), "encoding": ("encoding", None), "na_values": ("na_values", []),
}  # fmt: skip
"""By option of the data: the argument of `pandas.read_csv`, and the value that need not be written."""


def write_example(path: Path, about: dict[str, Any], data: Mapping[str, Any]) -> str:
    """A program that forecasts the steps after the end of a file, of one series if there are many.

    Args:
        path: the exported file.
        about: its metadata.
        data: the data settings of the run, of which some say how the file is read.
    """
    library, call = RUNTIMES[path.suffix]
    features = ",\n        ".join(feature["pandas"] for feature in about["time_features"])
    utc_offset = UtcOffset(about["utc_offset"], about["timezone"])
    extra = "\nimport holidays" if "holidays." in features else ""
    ends = f"(future + pd.tseries.frequencies.to_offset({about['freq']!r}))"
    shown = write_zoned(ends if data.get("stamp") == "end" else "future", utc_offset)
    local = f"    dates = {write_zoned('dates', utc_offset)}.tz_localize(None)\n"
    return f"""\
import json
from pathlib import Path

import numpy as np
import pandas as pd
{library}{extra}

about = json.loads(Path({str(metadata_path(path))!r}).read_text())
{write_reading(about, data, utc_offset)}
history = table.loc[: table[about["target_columns"]].last_valid_index()]
past = history.reindex(columns=about["feature_columns"]).tail(about["seq_len"])  # in original units
past[about["unread_columns"]] = 0.0  # any number: the model does not read them
if past.isna().any(axis=None):
    raise SystemExit(f"a value is missing: {{past.isna().sum().to_dict()}}: complete it, or use forecast.predict")
{write_future_dates(about)}


def time_features(dates):
{local if is_zoned(utc_offset) else ""}    return np.stack([
        {features},
    ], axis=1).astype("float64")


inputs = {{
    "past": past.to_numpy("float64")[None],  # one window, or more
    "past_time": time_features(past.index)[None],
    "future_time": time_features(future)[None],
    **{{name: np.array([values]) for name, values in about["series"][series].items()}},  # its scale
}}
{add_covariates(about)}{call.format(path=str(path))}
print(pd.DataFrame(forecast[0], index={shown}, columns=about["target_columns"]))"""


def is_zoned(utc_offset: UtcOffset) -> bool:
    """Whether dates are instants, not local times without a zone or days."""
    return utc_offset.timezone is not None and utc_offset.minutes is not None


def write_zoned(dates: str, utc_offset: UtcOffset) -> str:
    """The expression of dates at this UTC offset in the time zone of the data."""
    if not is_zoned(utc_offset):
        return dates
    ahead = f"pd.Timedelta(minutes={utc_offset.minutes})"
    return f"({dates} - {ahead}).tz_localize('UTC').tz_convert({utc_offset.timezone!r})"


def write_reading(about: Mapping[str, Any], data: Mapping[str, Any], utc_offset: UtcOffset) -> str:
    """The lines that make `table`: rows of my.csv or my.parquet, indexed by date at this UTC offset.

    If there is an id column, they are the rows of the series that the variable `series` names.
    """
    date = data.get("date_column") or "date"
    date, ids = date if isinstance(date, str) else " ".join(date), list_id_columns(about["id_column"])
    location = locate(data.get("path"))
    lines = [f"series = {next(iter(about['series']))!r}  # the series to forecast"]
    if is_folder(location) or location.suffix in PARQUET:
        lines.append('table = pd.read_parquet("my.parquet")')
    else:
        given = {name: data.get(key) for key, (name, _) in ARGUMENTS.items()}
        arguments = [
            f", {name}={given[name]!r}"
            for name, usual in ARGUMENTS.values()
            if given[name] not in (usual, None)
        ]
        texts = dict.fromkeys([*ids, date], "str")
        lines.append(f'table = pd.read_csv("my.csv", dtype={texts!r}{"".join(arguments)})')
    if ids:
        names = f" + {SEPARATOR!r} + ".join(f"table[{name!r}].astype(str)" for name in ids)
        lines.append(f"table = table[{names} == series]")
    how = f", format={data['date_format']!r}" if data.get("date_format") else ""
    how += ", dayfirst=True" if data.get("day_first") and not how else ""
    if is_zoned(utc_offset):
        lines += [
            f"if not table[{date!r}].astype(str).str.contains(r':\\d\\d(?:\\.\\d+)? ?{OFFSET}$').all():",
            "    raise SystemExit('write the dates with a UTC offset, such as 2026-01-31T06:00+01:00')",
            f"dates = pd.to_datetime(table[{date!r}], utc=True{how}).dt.tz_localize(None)",
            f"table.index = pd.DatetimeIndex(dates + pd.Timedelta(minutes={utc_offset.minutes}))",
        ]
    else:
        lines.append(f"table.index = pd.DatetimeIndex(pd.to_datetime(table[{date!r}]{how}))")
    if data.get("stamp") == "end":
        lines.append(
            f"table.index -= pd.tseries.frequencies.to_offset({about['freq']!r})  # ends of the steps"
        )
    lines.append("table = table.sort_index()")
    if about["categories"]:
        lines += [
            'for name, texts in about["categories"].items():',
            "    for text in texts if name in table else ():",
            '        table[f"{name}={text}"] = table[name].astype(str) == text',
        ]
    return "\n".join(lines)


def write_future_dates(about: Mapping[str, Any]) -> str:
    """The lines that make `future`, the dates of the forecast: even steps, or those of rows after the history."""
    if about["calendar"] is not None or isinstance(parse_frequency(about["freq"]), DaysOfMonth):
        return (
            'future = table.index[len(history) :][: about["pred_len"]]\n'
            'if len(future) < about["pred_len"]:\n'
            '    raise SystemExit("add a row with empty targets for each date of the forecast")'
        )
    freq = about["freq"]
    return (
        f'dates = pd.date_range(past.index[0], periods=len(past) + about["pred_len"], freq={freq!r})\n'
        "if (past.index != dates[: len(past)]).any():\n"
        '    raise SystemExit("a date of the last rows is missing: add its row, or use forecast.predict")\n'
        "future = dates[len(past) :]"
    )


def add_covariates(about: Mapping[str, Any]) -> str:
    """The lines that add the future covariates and the static features that the model reads."""
    lines = add_future_covariates(about) if "future_covariates" in about["inputs"] else []
    if "static" in about["inputs"]:
        features = ",\n    ".join(feature["pandas"] for feature in about["static_features"])
        lines += [
            "static = table.head(1)",
            f'inputs["static"] = np.stack([\n    {features},\n], axis=1).astype("float64")',
        ]
    return "".join(f"{line}\n" for line in lines)


def add_future_covariates(about: Mapping[str, Any]) -> list[str]:
    """The lines that add future covariates, which may be forecasts over the horizon, or known for some steps of it."""
    names = about["future_covariates"]
    ahead = [about["as_of"].get(name, name) for name in names]
    lines = [
        f'before = table.reindex(index=past.index, columns={names!r}).to_numpy("float64")',
        f'after = table.reindex(index=future, columns={ahead!r}).to_numpy("float64")  # in original units',
    ]
    if known := about["known_steps"]:
        limits = [(names.index(name), min(steps, about["pred_len"])) for name, steps in known.items()]
        lines += [
            f'known = np.ones((about["seq_len"] + about["pred_len"], {len(limits)}))',
            f"for mask, (column, steps) in enumerate({limits!r}):  # later steps repeat the last known one",
            "    after[steps:, column] = after[steps - 1, column]",
            '    known[about["seq_len"] + steps :, mask] = 0',
            'inputs["known"] = known[None]',
        ]
    lines.append("covariates = np.concatenate([before, after])")
    if unread := [names.index(name) for name in about["unread_covariates"]]:
        lines.append(f"covariates[:, {unread!r}] = 0  # the model does not read them")
    return [
        *lines,
        "if np.isnan(covariates).any():",
        '    raise SystemExit("a future covariate is missing: complete it, or use forecast.predict")',
        'inputs["future_covariates"] = covariates[None]',
    ]
