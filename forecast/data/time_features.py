"""Calendar features of dates, the step between dates, the season lengths, and future dates.

| step                  | time features, in this order                                   |
| --------------------- | -------------------------------------------------------------- |
| seconds and finer     | second, minute, hour, day of week, day of month, day of year   |
| minutes               | minute, hour, day of week, day of month, day of year           |
| hours                 | hour, day of week, day of month, day of year                   |
| days, business days   | day of week, day of month, day of year                         |
| weeks                 | day of month, week of year                                     |
| months and longer     | month of year                                                  |

Any multiple of a step has the features of the step itself (4h as h, 30min as min). Source: Informer2020.
"""

import warnings

import numpy as np
import pandas as pd
from jaxtyping import Float
from pandas.tseries.frequencies import to_offset

from forecast.data.holidays import NAMES as HOLIDAYS
from forecast.data.holidays import holiday_features
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import plural

_FEATURES = {  # name: (what to read from the dates, its smallest value, its range)
    "second": (lambda dates: dates.second, 0, 59),
    "minute": (lambda dates: dates.minute, 0, 59),
    "hour": (lambda dates: dates.hour, 0, 23),
    "day of week": (lambda dates: dates.day_of_week, 0, 6),
    "day of month": (lambda dates: dates.day, 1, 30),
    "day of year": (lambda dates: dates.day_of_year, 1, 365),
    "week of year": (lambda dates: dates.isocalendar().week, 1, 52),
    "month of year": (lambda dates: dates.month, 1, 11),
}
_SECONDS = ["second", "minute", "hour", "day of week", "day of month", "day of year"]
_BY_STEP = {  # pandas' name of the step, without its anchor (W-SUN: W)
    **dict.fromkeys(["ns", "us", "ms", "s"], _SECONDS),
    "min": _SECONDS[1:],
    **dict.fromkeys(["h", "bh", "cbh"], _SECONDS[2:]),
    **dict.fromkeys(["D", "B", "C", "SMS", "SME"], _SECONDS[3:]),
    "W": ["day of month", "week of year"],
}
_SEASONS = {
    "D": 7,
    "B": 5,
    "W": 52,
    **dict.fromkeys(["MS", "ME", "BMS", "BME"], 12),
    **dict.fromkeys(["QS", "QE", "BQS", "BQE"], 4),
}
_UNITS = {
    "ns": "nanosecond",
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "min": "minute",
    "h": "hour",
    "D": "day",
    "B": "business day",
    "W": "week",
    **dict.fromkeys(["MS", "ME", "BMS", "BME"], "month"),
    **dict.fromkeys(["QS", "QE", "BQS", "BQE"], "quarter"),
    **dict.fromkeys(["YS", "YE", "BYS", "BYE"], "year"),
}
_NANOSECONDS_A_DAY = 86_400 * 10**9


def parse_frequency(freq: str) -> pd.offsets.BaseOffset:
    """Parse a pandas offset such as `h`, `15min`, `W-SUN`. Raises ConfigError for anything else."""
    try:
        offset = to_offset(freq)
    except ValueError:
        offset = None
    if offset is None or offset.n < 1:
        raise ConfigError(f"{freq!r} is not a step between rows: write one as h, 15min, D, W-SUN or MS")
    return offset


def _code_of(offset: pd.offsets.BaseOffset) -> str:
    """Return pandas' name of a step without its anchor: `W` for `W-SUN`."""
    return offset.rule_code.split("-")[0]


def infer_frequency(dates: pd.DatetimeIndex) -> str:
    """Infer the step between evenly spaced, increasing dates, as a pandas offset alias.

    Raises DataError for fewer than three dates, or dates that are not evenly spaced.
    """
    if len(dates) < 3:
        raise DataError(f"{len(dates)} dates are too few to tell the step between rows: give it (data.freq)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pandas 3 announces an offset for pandas 4
        inferred = pd.infer_freq(dates)
    if inferred is None:
        raise DataError("the dates are not evenly spaced")
    offset = to_offset(inferred)
    assert offset is not None
    return offset.freqstr


def name_step(step: np.timedelta64) -> str:
    """Return the pandas offset alias of a length of time, such as 15min, h or D."""
    days, rest = divmod(int(step / np.timedelta64(1, "ns")), _NANOSECONDS_A_DAY)
    if rest == 0:
        return f"{days}D" if days > 1 else "D"
    offset = to_offset(pd.Timedelta(step))  # type: ignore[call-overload]  # never NaT
    assert offset is not None
    return offset.freqstr


def describe_frequency(freq: str) -> str:
    """Describe a pandas offset in words, such as `hour` or `15 minutes`. Return one that has no words unchanged."""
    offset = parse_frequency(freq)
    unit = _UNITS.get(_code_of(offset))
    if unit is None:
        return freq
    return unit if offset.n == 1 else plural(offset.n, unit)


def time_feature_names(freq: str, holidays: str | None = None) -> list[str]:
    """Return the names of the columns of `time_features` for this step."""
    names = _BY_STEP.get(_code_of(parse_frequency(freq)), ["month of year"])
    return [*names, *(HOLIDAYS if holidays else ())]


def time_features(
    dates: pd.DatetimeIndex, freq: str, holidays: str | None = None
) -> Float[np.ndarray, "rows n_time_features"]:
    """Return the calendar features of each date, each in [-0.5, 0.5]; the table above lists them by step.

    With `holidays`, a country code, three more follow: see `forecast.data.holidays`. Raises ConfigError for an unknown
    country, or a step of more than a day.
    """
    columns = []
    for name in time_feature_names(freq):
        read, lowest, span = _FEATURES[name]
        columns.append((np.asarray(read(dates), dtype=np.float64) - lowest) / span - 0.5)
    if holidays is None:
        return np.stack(columns, axis=1)
    if "day of week" not in time_feature_names(freq):
        raise ConfigError(f"data.holidays={holidays} needs steps of a day or less, and these are of {freq}")
    return np.column_stack([*columns, holiday_features(dates, holidays)])


def season_length(freq: str) -> int:
    """Return the number of rows in the season that a seasonal-naive forecast repeats.

    A day for steps of minutes and hours that divide it (h 24, 30min 48, 15min 96), a week for days (D 7) and business
    days (B 5), a year for weeks (W 52), months (MS, ME 12) and quarters (QS, QE 4), else 1.
    """
    offset = parse_frequency(freq)
    if isinstance(offset, pd.offsets.Minute | pd.offsets.Hour):
        return rows_in(days=1, freq=freq) or 1
    if offset.n > 1:
        return 1
    return _SEASONS.get(_code_of(offset), 1)


def season_candidates(freq: str) -> tuple[int, ...]:
    """Return the seasons that a seasonal-naive forecast may repeat, `season_length` first.

    A day also has a week (h 24 and 168), and a week a year (D 7 and 365).
    """
    season = season_length(freq)
    day, week, year = (rows_in(days, freq) for days in (1, 7, 365))
    longer = {day: week, week: year}.get(season, 0)
    return (season, longer) if longer else (season,)


def rows_in(days: int, freq: str) -> int:
    """Return the rows in a span of whole days; 0 if the step does not divide it or varies (months, business days)."""
    offset = parse_frequency(freq)
    if not isinstance(offset, pd.offsets.Day | pd.offsets.Tick):
        return 0
    step = offset.n * _NANOSECONDS_A_DAY if isinstance(offset, pd.offsets.Day) else offset.nanos
    rows, rest = divmod(days * _NANOSECONDS_A_DAY, step)
    return 0 if rest else rows


def future_dates(dates: pd.DatetimeIndex, freq: str, steps: int) -> pd.DatetimeIndex:
    """Return the `steps` dates that follow the last of `dates`."""
    return pd.date_range(dates[-1:].item(), periods=steps + 1, freq=parse_frequency(freq))[1:]
