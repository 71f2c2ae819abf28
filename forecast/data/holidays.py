"""A country's public holidays as time features, through the `holidays` package (the extra `holidays`)."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from forecast.errors import ConfigError, NotInstalled

NAMES = {"holiday": 0, "day before a holiday": 1, "day after a holiday": -1}
"""The features in their order, and how many days on from the date each one looks."""


def holiday_features(dates: pd.DatetimeIndex, country: str) -> Float[np.ndarray, "rows 3"]:
    """0.5 where the day, the next one, or the one before is a public holiday, else −0.5.

    `country` is an ISO code, with a subdivision where wanted: TR, DE, DE-BY. Raises ConfigError for one that the
    package does not know, or where it is not installed.
    """
    days, place = np.unique(dates.normalize().to_numpy(), return_inverse=True)
    calendar = _calendar(country)
    told = [
        [day.date() in calendar for day in pd.DatetimeIndex(days) + pd.Timedelta(days=ahead)]
        for ahead in NAMES.values()
    ]
    return np.stack(told, axis=1)[place] - 0.5


def _calendar(country: str):
    try:
        import holidays
    except ModuleNotFoundError:
        raise NotInstalled(f"data.holidays={country}", "holidays") from None
    code, subdivision = split_code(country)
    try:
        return holidays.country_holidays(code, subdivision)
    except NotImplementedError:
        raise ConfigError(
            f"data.holidays={country} is not known: give a country's ISO code, such as TR, DE or DE-BY"
        ) from None


def split_code(country: str) -> tuple[str, str | None]:
    """TR → TR, None; DE-BY → DE, BY."""
    code, _, subdivision = country.partition("-")
    return code, subdivision or None
