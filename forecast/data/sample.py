"""The embedded sample: a synthetic transformer station, generated from a seed; nothing in it was measured.

Hourly, 17,420 rows from 2016-07-01, in ETT's columns: useful (…UFL) and useless (…ULL) loads of an industrial
(H), a commercial (M) and a residential (L) feeder, and the transformer's oil temperature OT in °C.

What there is to learn, in the order of the code: weather that nobody sees, in which heating starts below 15
°C and cooling above 22 °C; days that follow the calendar (workdays, Saturdays, Sundays, public holidays);
profiles whose amplitude drifts; noise that lasts for hours; oil that warms with the square of past loads.
"""

import numpy as np
import pandas as pd
from jaxtyping import Float

from forecast.data.module import ForecastData
from forecast.data.table import Table

COLUMNS = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
ROWS = 17_420
_SEED = 20160701
_FIXED_HOLIDAYS = ("01-01", "01-06", "05-01", "08-15", "10-03", "11-01", "12-24", "12-25", "12-26", "12-31")
_EASTER_MONDAYS = ("2017-04-17", "2018-04-02")

Series = Float[np.ndarray, " rows"]


def sample_table() -> Table:
    """The synthetic set: the same numbers at every call. Values are rounded to three decimals, so that a last
    digit that differs between platforms does not show."""
    dates = pd.date_range("2016-07-01", periods=ROWS, freq="h")
    hour = dates.hour.to_numpy().astype(float)
    random = np.random.Generator(np.random.PCG64(_SEED))

    temperature = _weather(dates, random)
    heating = np.maximum(15 - temperature, 0) / 10
    cooling = np.maximum(temperature - 22, 0) / 6
    saturday, rest = _days(dates)
    workday = 1 - saturday - rest

    shift = _plateau(hour, 5.5, 21.5)  # two shifts in the works
    office = _plateau(hour, 7.5, 18.5)
    morning, evening = _bump(hour, 7.5, 1.6), _bump(hour, 19.5, 2.6)
    brunch = _bump(hour, 11.5, 3.0)
    industrial = (
        3.0 + workday * (9.0 * shift + 1.5 * _bump(hour, 10, 2)) + saturday * 4.0 * _plateau(hour, 5.5, 13.5)
    )
    commercial = (
        2.0
        + workday * office * (6.0 + 2.5 * cooling + 1.5 * heating)
        + saturday * (5.0 * _plateau(hour, 9, 17) * (1 + 0.3 * cooling))
    )
    residential = (
        2.0 + workday * (2.0 * morning + 3.5 * evening) + (1 - workday) * (2.5 * brunch + 3.0 * evening)
    )
    residential = residential + (1.4 * heating + 1.6 * cooling) * (0.4 + evening + 0.5 * morning)

    useful, useless = [], []
    for load, ratio in ((industrial, 0.45), (commercial, 0.3), (residential, 0.2)):
        drift = np.exp(0.12 * _persistent(random, 24 * 40))
        useful.append(
            load * drift * (1 + 0.05 * _persistent(random, 8)) + 0.12 * random.standard_normal(ROWS)
        )
        swing = 1 + 0.15 * _persistent(random, 24 * 20)
        useless.append(ratio * useful[-1] ** 0.9 * swing + 0.08 * random.standard_normal(ROWS))
    total = sum(useful) / 20
    oil = _lag(temperature, 3) + 22 * _lag(total**2, 5) + 0.3 * random.standard_normal(ROWS)

    columns = [series for pair in zip(useful, useless, strict=True) for series in pair]
    values = np.stack([*columns, oil], axis=1).round(3)
    return Table(dates, values, COLUMNS, "h")


def _weather(dates: pd.DatetimeIndex, random: np.random.Generator) -> Series:
    """Air temperature in °C: the year, the day (wider in summer), fronts that last for days."""
    year = 2 * np.pi * (dates.dayofyear.to_numpy() - 20) / 365.25
    day = 2 * np.pi * (dates.hour.to_numpy() - 15) / 24
    season = 13 - 11 * np.cos(year)
    return season + (3 - 1.5 * np.cos(year)) * np.cos(day) + 3 * _persistent(random, 60)


def _days(dates: pd.DatetimeIndex) -> tuple[Series, Series]:
    """1 on Saturdays, and 1 on Sundays and public holidays, else 0."""
    holiday = dates.strftime("%m-%d").isin(_FIXED_HOLIDAYS) | dates.strftime("%Y-%m-%d").isin(_EASTER_MONDAYS)
    rest = holiday | (dates.dayofweek == 6)
    saturday = (dates.dayofweek == 5) & ~rest
    return saturday.astype(float), rest.astype(float)


def _plateau(hour: Series, start: float, end: float) -> Series:
    """1 between two hours of the day, 0 outside, with soft edges."""
    return 1 / (1 + np.exp(-2 * (hour - start))) - 1 / (1 + np.exp(-2 * (hour - end)))


def _bump(hour: Series, peak: float, width: float) -> Series:
    away = (hour - peak + 12) % 24 - 12
    return np.exp(-0.5 * (away / width) ** 2)


def _persistent(random: np.random.Generator, hours: float) -> Series:
    """Noise of unit deviation whose memory fades within `hours`."""
    keep = np.exp(-1 / hours)
    shocks = random.standard_normal(ROWS)
    shocks[1:] *= np.sqrt((1 + keep) / (1 - keep))
    return pd.Series(shocks).ewm(alpha=1 - keep, adjust=False).mean().to_numpy()


def _lag(series: Series, hours: float) -> Series:
    """What follows `series` with a thermal delay of `hours`."""
    return pd.Series(series).ewm(alpha=1 - np.exp(-1 / hours), adjust=False).mean().to_numpy()


class SampleData(ForecastData):
    """The synthetic sample set; needs no file and no network."""

    def read(self) -> Table:
        return sample_table()
