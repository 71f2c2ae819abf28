"""The example program that `forecast.export` prints: it runs the exported file without this package.

Its first lines read a file, with pandas alone, as the file of training was read.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from forecast.data.files.columns import SEPARATOR, list_id_columns
from forecast.data.files.dates import COUNTS
from forecast.data.files.read import PARQUET, ROW
from forecast.data.time_features import DaysOfMonth, code_of, is_exchange, parse_frequency, split_code
from forecast.data.utc_offset import OFFSET, TIME_END, UtcOffset
from forecast.system.location import is_folder, locate
from forecast.tools.export.metadata import metadata_path

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

ARGUMENTS = {
    "skip_rows": ("skiprows", 0), "separator": ("sep", ","), "decimal": ("decimal", "."),
    "thousands": ("thousands", None), "encoding": ("encoding", None), "na_values": ("na_values", []),
}  # fmt: skip
"""By option of the data: the argument of `pandas.read_csv`, and the value that need not be written."""

TIME_AND_OFFSET = rf"({TIME_END}) ?(?:UTC|GMT|{OFFSET})$"
"""Pattern of the end of a time and the UTC offset after it."""

BOOLEANS = 'true_values=["yes", "Yes", "YES"], false_values=["no", "No", "NO"]'


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
{define_steps((about.get("calendar") or {}).get("step") or about["freq"])}
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


def write_date_range(freq: str, first: str, count: str) -> str:
    """Write the expression of `count` dates of a step from `first` on; days of a month need `define_steps`."""
    if isinstance(parse_frequency(freq), DaysOfMonth):
        return f"step_dates({first}, {count})"
    return f"pd.date_range({first}, periods={count}, freq={freq!r})"


def define_steps(freq: str) -> str:
    """Write the function of dates on days of a month, which pandas does not name; empty for other steps."""
    step = parse_frequency(freq)
    if not isinstance(step, DaysOfMonth):
        return ""
    return f"""

def step_dates(first, count):
    months = pd.date_range(first.replace(day=1), periods=count * {step.n} + 2, freq="MS")
    dates = [month + pd.DateOffset(day=day) for month in months for day in {list(step.days)}]
    return pd.DatetimeIndex([date for date in dates if date >= first][::{step.n}][:count])


"""


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
        lines.append(f"table.index = {write_date_range(freq, f'pd.Timestamp({start!r})', 'len(table)')}")
        return "\n".join(lines)
    lines += _write_dates(data, names, freq, utc_offset)
    lines.append("table.index = pd.DatetimeIndex(dates)")
    if data.get("sort") or (data.get("id_column") and data.get("sort") is None):
        lines.append("table = table.sort_index(kind='stable')")
    if how := data.get("duplicates"):
        lines += _write_merging(data, how)
    return "\n".join(lines)


def _write_merging(data: Mapping[str, Any], how: str) -> list[str]:
    """Write the lines that merge rows of one date, as `forecast.data.files.grid.choose_merging` says."""
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
    """Write the lines that read one series per row as `forecast.data.files.read.melt_series` does."""
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
    lines += _write_parsing(data, names, text, utc, freq)
    if times == Times.INSTANTS or (times == Times.DAYS and is_typed):
        ahead = f" + pd.Timedelta(minutes={utc_offset.minutes})" if utc_offset.minutes else ""
        lines.append(f"dates = dates.dt.tz_localize(None){ahead}")
    if data.get("stamp") == "end":
        lines.append(f"dates -= pd.tseries.frequencies.to_offset({freq!r})  # a date is the end of its step")
    if times == Times.LOCAL:
        local = f"dates.dt.tz_localize({data['timezone']!r}, ambiguous='infer', nonexistent='shift_forward')"
        lines.append(f"dates = (dates if dates.dt.tz else {local}).dt.tz_convert(None)")
    return lines


def _write_parsing(
    data: Mapping[str, Any], names: Sequence[str], text: str, utc: str, freq: str
) -> list[str]:
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
    if not date_format and "W-" in freq and not is_parquet(data):
        return [
            f"weeks = ({text}).str.extract(r'^(\\d{{4}})[ -]?W?(\\d\\d?)$')  # such as 2016-W01",
            "if weeks.notna().all(axis=None):",
            "    dates = pd.to_datetime(weeks[0] + weeks[1].str.zfill(2) + '1', format='%G%V%u')",
            "else:",
            f"    dates = pd.to_datetime({text}{end}",
        ]
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
