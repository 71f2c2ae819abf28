"""A country's public holidays as time features, through the `holidays` package (the extra `holidays`)."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from forecast.system.errors import ConfigError, NotInstalled

NAMES = {"holiday": 0, "day before a holiday": 1, "day after a holiday": -1}
"""Names of the features in order, with the offset in days from the date to the day that each describes."""


def holiday_features(dates: pd.DatetimeIndex, country: str) -> Float[np.ndarray, "rows 3"]:
    """Return 0.5 if the day, the next day, or the day before is a public holiday, else −0.5.

    `country` is an ISO code, with or without a subdivision: TR, DE, DE-BY. Raises ConfigError if the package `holidays`
    does not know the country or is not installed.
    """
    days, place = np.unique(dates.normalize().to_numpy(), return_inverse=True)
    calendar = _calendar(country)
    is_holiday = [
        [day.date() in calendar for day in pd.DatetimeIndex(days) + pd.Timedelta(days=ahead)]
        for ahead in NAMES.values()
    ]
    return np.stack(is_holiday, axis=1)[place] - 0.5


def warn_of_utc_holidays(title: str, country: str, *, has_file: bool) -> None:
    """Warn that the dates of the data called `title` are UTC, and so are the days that are marked."""
    advice = "set data.timezone" if has_file else "give them in the country's zone (tz_convert)"
    warnings.warn(
        f"{title}: the dates are UTC, so data.holidays={country} marks days of UTC, which begin and end some hours "
        f"before or after the country's: {advice}",
        stacklevel=3,
    )


def check_country(country: str) -> None:
    """Raise ConfigError if the package `holidays` does not know a country or is not installed."""
    _calendar(country)


def _calendar(country: str):
    holidays = _import(f"data.holidays={country}")
    code, subdivision = split_code(country)
    try:
        return holidays.country_holidays(code, subdivision)
    except NotImplementedError:
        raise ConfigError(
            f"data.holidays={country} is not known: give a country's ISO code, such as TR, DE or DE-BY"
        ) from None


def closed_days(code: str):
    """Return the holidays of a country, as in `holiday_features`, or of an exchange, such as XNYS.

    Raises ConfigError if the package `holidays` does not know the code or is not installed.
    """
    holidays = _import(f"data.calendar={code}")
    try:
        if is_exchange(code):
            return holidays.financial_holidays(code)
        return holidays.country_holidays(*split_code(code))
    except NotImplementedError:
        raise ConfigError(
            f"data.calendar={code} is not known: give the code of a country or exchange, such as DE or XNYS"
        ) from None


def is_exchange(code: str) -> bool:
    """Return whether the package `holidays` knows a code as that of an exchange."""
    return code in _import(f"data.calendar={code}").list_supported_financial()


def _import(setting: str) -> Any:
    try:
        import holidays
    except ModuleNotFoundError:
        raise NotInstalled(setting, "holidays", "holidays") from None
    return holidays


def split_code(country: str) -> tuple[str, str | None]:
    """Split a code into country and subdivision: TR → TR, None; DE-BY → DE, BY."""
    code, _, subdivision = country.partition("-")
    return code, subdivision or None
