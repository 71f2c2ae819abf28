"""Calendar features of dates, the step between dates, season lengths, holidays, and future dates."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int64
from pandas.tseries.frequencies import to_offset

from forecast.system.errors import ConfigError, DataError, NotInstalled
from forecast.system.formatting import plural

NAMES = {"holiday": 0, "day before a holiday": 1, "day after a holiday": -1}
"""Names of the features in order, with the offset in days from the date to the day that each describes."""


def holiday_features(dates: pd.DatetimeIndex, country: str) -> Float[np.ndarray, "rows 3"]:
    """Return 0.5 if the day, the next day, or the day before is a public holiday, else −0.5.

    `country` is an ISO code, with or without a subdivision: TR, DE, DE-BY. Raises ConfigError as `find_holidays`.
    """
    days, place = np.unique(dates.normalize().to_numpy(), return_inverse=True)
    calendar = find_holidays("data.holidays", country)
    moved = [pd.DatetimeIndex(days) + pd.Timedelta(days=ahead) for ahead in NAMES.values()]
    return np.array([[day.date() in calendar for day in each] for each in moved]).T[place] - 0.5


def find_holidays(key: str, code: str) -> Any:
    """The holidays of a country, such as TR or DE-BY, or with the setting `data.calendar` of an exchange, such as XNYS.

    Raises ConfigError if the package `holidays` does not know the code or is not installed.
    """
    try:
        import holidays
    except ModuleNotFoundError:
        raise NotInstalled(f"{key}={code}", "holidays", "holidays") from None
    try:
        if key == "data.calendar" and code in holidays.list_supported_financial():
            return holidays.financial_holidays(code)
        return holidays.country_holidays(*split_code(code))
    except NotImplementedError:
        of_country = "a country's ISO code, such as TR, DE or DE-BY"
        known = of_country if key == "data.holidays" else "the code of a country or exchange, such as DE or XNYS"
        raise ConfigError(f"{key}={code} is not known: give {known}") from None


def split_code(country: str) -> tuple[str, str | None]:
    """Split a code into country and subdivision: TR → TR, None; DE-BY → DE, BY."""
    code, _, subdivision = country.partition("-")
    return code, subdivision or None


FEATURES = {  # name: (attribute of the dates, that of `week` of their isocalendar(), its least value, its range)
    "second": ("second", 0, 59),
    "minute": ("minute", 0, 59),
    "hour": ("hour", 0, 23),
    "day of week": ("day_of_week", 0, 6),
    "day of month": ("day", 1, 30),
    "day of year": ("day_of_year", 1, 365),
    "week of year": ("week", 1, 52),
    "month of year": ("month", 1, 11),
}
_SECONDS = ["second", "minute", "hour", "day of week", "day of month", "day of year"]
_MONTH = ["month of year"]
_OTHER: tuple[str | None, int, list[str]] = (None, 1, _MONTH)
_STEPS: dict[str, tuple[str | None, int, list[str]]] = {
    # pandas' name of the step, without its anchor (W-SUN: W): unit in words, rows of a season, features
    **{code: (unit, 1, _SECONDS) for code, unit in {"ns": "nanosecond", "us": "microsecond"}.items()},
    **{code: (unit, 1, _SECONDS) for code, unit in {"ms": "millisecond", "s": "second"}.items()},
    "min": ("minute", 1, _SECONDS[1:]),
    "h": ("hour", 1, _SECONDS[2:]),
    **dict.fromkeys(["bh", "cbh"], (None, 1, _SECONDS[2:])),
    "D": ("day", 7, _SECONDS[3:]),
    "B": ("business day", 5, _SECONDS[3:]),
    "C": (None, 1, _SECONDS[3:]),
    **dict.fromkeys(["SMS", "SME"], ("half month", 24, _SECONDS[3:])),
    "W": ("week", 52, ["day of month", "week of year"]),
    **dict.fromkeys(["MS", "ME", "BMS", "BME", "WOM", "LWOM"], ("month", 12, _MONTH)),
    **dict.fromkeys(["QS", "QE", "BQS", "BQE"], ("quarter", 4, _MONTH)),
    **dict.fromkeys(["YS", "YE", "BYS", "BYE"], ("year", 1, _MONTH)),
}
_NANOSECONDS_A_DAY = 86_400 * 10**9


def parse_frequency(freq: str) -> pd.offsets.BaseOffset:
    """Parse a pandas offset such as `h`, `15min` or `W-SUN`. Raises ConfigError for anything else."""
    try:
        offset = to_offset(freq)
    except ValueError:
        offset = None
    if offset is None or offset.n < 1:
        raise ConfigError(f"{freq!r} is not a step between rows: write one as h, 15min, D, W-SUN or MS")
    return offset


def code_of(offset: pd.offsets.BaseOffset) -> str:
    """Return the name of a step without its anchor: `W` for `W-SUN`."""
    return offset.rule_code.split("-")[0]


def infer_frequency(dates: pd.DatetimeIndex) -> str:
    """Infer the step between evenly spaced, increasing dates, as a pandas offset alias.

    Raises DataError for fewer than three dates, or dates that are not evenly spaced.
    """
    if len(dates) < 3:
        raise DataError(f"{len(dates)} dates are too few to tell the step between rows: give it (data.freq)")
    # pandas 3 announces an offset for pandas 4
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        inferred = pd.infer_freq(dates)
    offset = None if inferred is None else to_offset(inferred)
    # pandas calls three 15ths of a month 31D if they lie 31 days apart, last Fridays fourth, quarterly ones monthly
    is_wrong = isinstance(offset, pd.offsets.Day) and offset.n >= 28 and dates.day.nunique() == 1
    if isinstance(offset, pd.offsets.WeekOfMonth):
        is_wrong = not pd.date_range(dates[0], dates[-1], freq=offset).equals(dates)
    if offset is None or is_wrong:
        raise DataError("the dates are not evenly spaced")
    return offset.freqstr


def infer_calendar_step(dates: pd.DatetimeIndex) -> str | None:
    """Infer a step of the calendar between increasing dates, of which some may be missing.

    Candidates are the first or last day or business day of every n-th month, a weekday of its n-th or last week, weeks,
    half months and business days. Returns None if the dates follow none of them.
    """
    gap = np.diff(dates.to_numpy()).min(initial=np.timedelta64(366, "D"))  # type: ignore[arg-type]
    if gap < np.timedelta64(1, "D") or len(dates) < 3:
        return None
    weekday = f"{dates[0]:%a}".upper() if dates.day_of_week.nunique() == 1 else None
    codes = []
    if gap >= np.timedelta64(26, "D"):  # such as from the last business day of January to that of February
        of_weekday = [*(f"WOM-{week}{weekday}" for week in range(1, 5)), f"LWOM-{weekday}"]
        codes = ["MS", "ME", "BMS", "BME", *(of_weekday if weekday else ())]
    elif gap >= np.timedelta64(13, "D") and not weekday:
        codes = [f"SMS-{day}" for day in (15, 16)] + ["SME-15"]
    for code in codes:
        if all(parse_frequency(code).is_on_offset(date) for date in dates):
            months = (dates.year.to_numpy() * 12 + dates.month.to_numpy()).astype(np.int64)
            return code if code.startswith("SM") else _name_multiple(code, np.diff(months), dates)
    if weekday:
        weeks = dates.to_numpy().astype("datetime64[D]").astype(np.int64) // 7
        return _name_multiple(f"W-{weekday}", np.diff(weeks), dates)
    return "B" if gap == np.timedelta64(1, "D") and dates.day_of_week.max() < 5 else None  # type: ignore[operator]


def _name_multiple(code: str, steps: Int64[np.ndarray, " gaps"], dates: pd.DatetimeIndex) -> str:
    """Return the longest multiple of a step that the dates follow, by pandas' own name if it has one.

    `steps` counts the steps from each date to the next.
    """
    n = int(np.gcd.reduce(steps))
    freq = f"{n}{code}" if n > 1 else code
    try:
        return infer_frequency(pd.date_range(dates[0], dates[-1], freq=freq))
    except DataError:
        return freq


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
    unit, *_ = _STEPS.get(code_of(offset), _OTHER)
    if unit is None:
        return freq
    return unit if offset.n == 1 else plural(offset.n, unit)


def time_feature_names(freq: str, holidays: str | None = None) -> list[str]:
    """Return the names of the columns of `time_features` for this step."""
    *_, names = _STEPS.get(code_of(parse_frequency(freq)), _OTHER)
    return [*names, *(NAMES if holidays else ())]


def time_features(
    dates: pd.DatetimeIndex, freq: str, holidays: str | None = None
) -> Float[np.ndarray, "rows n_time_features"]:
    """Return the calendar features of each date, each in [-0.5, 0.5]; the table above lists them by step.

    With `holidays`, a country code, three more follow. Raises ConfigError for an unknown country, or a step of more
    than a day.
    """
    names = time_feature_names(freq)
    columns = []
    for attribute, least, span in (FEATURES[name] for name in names):
        read = getattr(dates.isocalendar() if attribute == "week" else dates, attribute)
        columns.append((np.asarray(read, dtype=np.float64) - least) / span - 0.5)
    if holidays is None:
        return np.stack(columns, axis=1)
    if "day of week" not in names:
        raise ConfigError(f"data.holidays={holidays} needs steps of a day or less, and these are of {freq}")
    return np.column_stack([*columns, holiday_features(dates, holidays)])


def season_length(freq: str) -> int:
    """Return the number of rows in the season that a seasonal-naive forecast repeats.

    A day for steps of minutes and hours that divide it (h 24, 30min 48, 15min 96), a week for days (D 7) and business
    days (B 5), a year for weeks (W 52, 28D 13), half months (SMS 24), months (MS, 3ME 4) and quarters (QS, QE 4), else
    1.
    """
    offset = parse_frequency(freq)
    if isinstance(offset, pd.offsets.Minute | pd.offsets.Hour):
        return rows_in(days=1, freq=freq) or 1
    (_, season, _), n = _STEPS.get(code_of(offset), _OTHER), offset.n
    if isinstance(offset, pd.offsets.Day) and n % 7 == 0:
        season, n = 52, n // 7
    return 1 if season % n else season // n


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
    return pd.date_range(dates[-1:].item(), periods=steps + 1, freq=freq)[1:]


def choose_evenly_spaced(count: int, most: int) -> Int64[np.ndarray, " chosen"]:
    """At most `most` of the numbers 0 … count − 1, evenly spread: the first, and of several the last, among them."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)
