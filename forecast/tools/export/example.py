"""The example program that `forecast.export` prints: it runs the exported file without this package."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecast.data.holidays import is_exchange, split_code
from forecast.data.time_features import code_of, parse_frequency
from forecast.data.utc_offset import UtcOffset
from forecast.tools.export.metadata import metadata_path
from forecast.tools.export.reading import define_steps, write_date_range, write_reading

COUNT = 'about["pred_len"] + 1'

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


def write_example(path: Path, about: dict[str, Any], data: Mapping[str, Any]) -> str:
    """A program that forecasts the steps after the end of a file, of one series if there are many.

    `data` holds the data settings of the run: how the file of training was read.
    """
    library, call = RUNTIMES[path.suffix]
    features = ",\n        ".join(feature["pandas"] for feature in about["time_features"])
    utc_offset = UtcOffset(about["utc_offset"], about["timezone"])
    future = write_future_dates(about, utc_offset)
    extra = "\nimport holidays" if "holidays." in features + future else ""
    ends = f"(future + pd.tseries.frequencies.to_offset({about['freq']!r}))"
    shown = write_zoned(ends if data.get("stamp") == "end" else "future", utc_offset)
    return f"""\
import json
from pathlib import Path

import numpy as np
import pandas as pd
{library}{extra}
{define_steps(about["freq"])}
about = json.loads(Path({str(metadata_path(path))!r}).read_text())
{name_series(about)}{write_reading(data, about["freq"], utc_offset)}{make_indicators(about)}
history = table.loc[: table[about["target_columns"]].last_valid_index()]
past = history.reindex(columns=about["feature_columns"]).tail(about["seq_len"])  # in original units
{write_checks(about)}{future}


def time_features(dates):
{write_local_dates(utc_offset)}    return np.stack([
        {features},
    ], axis=1).astype("float64")


inputs = {{
    "past": past.to_numpy("float64")[None],  # one window, or more
    "past_time": time_features(past.index)[None],
    "future_time": time_features(future)[None],
}}
{add_series_inputs(about)}{call.format(path=str(path))}
print(pd.DataFrame(forecast[0], index={shown}, columns=about["target_columns"]))"""


def write_checks(about: dict[str, Any]) -> str:
    """The lines that refuse rows which `forecast.predict` completes and the program does not."""
    unread = (
        """\
past = past.assign(**dict.fromkeys(about["unread_columns"], 0.0))  # any number: the model does not read them
"""
        if about["unread_columns"]
        else ""
    )
    lines = f"""\
{unread}if absent := [name for name in past if name not in history and name not in about["unread_columns"]]:
    raise SystemExit(f"no column {{', '.join(absent)}}")
if past.isna().any(axis=None):
    raise SystemExit("a value of the last rows is missing: complete it, or use forecast.predict")
"""
    if about.get("calendar") is not None:
        return lines
    return f"""{lines}\
if (past.index != {write_date_range(about["freq"], "past.index[0]", "len(past)")}).any():
    raise SystemExit("a date of the last rows is missing: add its row, or use forecast.predict")
"""


def write_zoned(dates: str, utc_offset: UtcOffset) -> str:
    """The expression of dates at this UTC offset in the time zone of the data."""
    if utc_offset.timezone is None or utc_offset.minutes is None:
        return dates
    utc = f"({dates} - pd.Timedelta(minutes={utc_offset.minutes}))" if utc_offset.minutes else dates
    return f"{utc}.tz_localize('UTC').tz_convert({utc_offset.timezone!r})"


def write_local_dates(utc_offset: UtcOffset) -> str:
    """The line that makes `dates` local times, if they are not."""
    if utc_offset.timezone is None or utc_offset.minutes is None or utc_offset.timezone.startswith("UTC"):
        return ""
    return f"    dates = {write_zoned('dates', utc_offset)}.tz_localize(None)\n"


def make_indicators(about: dict[str, Any]) -> str:
    """The lines that add the indicator columns of the categories to the table."""
    if not about["categories"]:
        return ""
    return """
for name, texts in about["categories"].items():
    for text in texts if name in table else ():
        table[f"{name}={text}"] = table[name].astype(str) == text"""


def write_future_dates(about: dict[str, Any], utc_offset: UtcOffset) -> str:
    """The lines that compute the dates of the forecast."""
    if about.get("calendar") is None:
        return f"future = {write_date_range(about['freq'], 'past.index[-1]', COUNT)}[1:]"
    if not write_local_dates(utc_offset):
        return "last = past.index[-1]\n" + write_calendar_dates(about)
    ahead = f" + pd.Timedelta(minutes={utc_offset.minutes})" if utc_offset.minutes else ""
    zoned = f"future.tz_localize({utc_offset.timezone!r}, ambiguous=np.ones(len(future), bool), nonexistent='NaT')"
    return f"""\
last = {write_zoned("past.index[-1:]", utc_offset)}.tz_localize(None)[0]  # a local time
{write_calendar_dates(about)}
future = {zoned}.dropna().tz_convert(None){ahead}"""


def write_calendar_dates(about: dict[str, Any]) -> str:
    """The lines that compute the dates of a calendar after the date `last`."""
    calendar = about["calendar"]
    if calendar["step"] is not None:
        step = calendar["step"]
        if code_of(parse_frequency(step)).endswith("S"):
            period = f"pd.date_range(end=last, periods=1, freq={step!r})[0]"
        else:
            period = f"{write_date_range(step, 'last', '1')}[0]"
        return f"period = {period}\nfuture = {write_date_range(step, 'period', COUNT)}[1:]"
    lines = """\
monday = last.normalize() - pd.Timedelta(days=last.day_of_week)
weeks = pd.date_range(monday, periods=about["pred_len"] + 9, freq="7D").to_numpy()
slots = np.array(about["calendar"]["slots"], dtype="timedelta64[s]")  # rows of a week, from its Monday on
future = pd.DatetimeIndex((weeks[:, None] + slots).ravel())"""
    if calendar["closed"] is not None:
        closed = closed_expression(calendar["closed"])
        lines += f"\nclosed = {closed}\nfuture = future[[day not in closed for day in future.date]]"
    return lines + '\nfuture = future[future > last][: about["pred_len"]]'


def closed_expression(code: str) -> str:
    """The holidays on which no row comes, as an expression with the package `holidays`."""
    if is_exchange(code):
        return f"holidays.financial_holidays({code!r})"
    return "holidays.country_holidays({!r}, {!r})".format(*split_code(code))


def name_series(about: dict[str, Any]) -> str:
    """The line that names the series to forecast."""
    if about["id_column"] is None:
        return 'series = ""  # the only series\n'
    return f"series = {next(iter(about['series']))!r}  # the series to forecast\n"


def add_series_inputs(about: dict[str, Any]) -> str:
    """The lines that add the scale of the series, and the covariates and static features that the model reads."""
    lines = [
        'inputs["center"] = np.array([about["series"][series]["center"]])',
        'inputs["scale"] = np.array([about["series"][series]["scale"]])',
    ]
    lines += [
        f'inputs["{part}"] = np.array([about["series"][series]["{part}"]])'
        for part in ("location", "shape")
        if part in about["inputs"]
    ]
    if "future_covariates" in about["inputs"]:
        lines += add_future_covariates(about)
    if "static" in about["inputs"]:
        features = ",\n    ".join(feature["pandas"] for feature in about["static_features"])
        lines += [
            "static = table.head(1)",
            f'inputs["static"] = np.stack([\n    {features},\n], axis=1).astype("float64")',
        ]
    return "\n".join(lines) + "\n"


def add_future_covariates(about: dict[str, Any]) -> list[str]:
    """The lines that add future covariates, which may be forecasts over the horizon, or known for some steps of it."""
    names = about["future_covariates"]
    known = [about["as_of"].get(name, name) for name in names]
    lines = [
        'before = table.reindex(index=past.index, columns=about["future_covariates"]).to_numpy("float64")',
        f'after = table.reindex(index=future, columns={known!r}).to_numpy("float64")  # in original units',
    ]
    if about["known_steps"]:
        limits = [
            (names.index(name), min(steps, about["pred_len"])) for name, steps in about["known_steps"].items()
        ]
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
