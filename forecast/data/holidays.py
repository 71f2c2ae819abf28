"""A country's public holidays as time features, through the `holidays` package (the extra `holidays`)."""

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
    """Split a code into country and subdivision: TR → TR, None; DE-BY → DE, BY."""
    code, _, subdivision = country.partition("-")
    return code, subdivision or None
