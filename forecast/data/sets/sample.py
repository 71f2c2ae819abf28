"""The data set `sample`: a synthetic transformer station, generated from a seed.

Hourly, 17,420 rows from 2016-07-01, in ETT's columns: useful (…UFL) and useless (…ULL) loads of an industrial
(H), a commercial (M) and a residential (L) feeder, and the transformer's oil temperature OT in °C.

What there is to learn: weather that nobody sees, with heating below 15 °C and cooling above 22 °C; hours that
differ on workdays, Saturdays, and Sundays with public holidays; night shifts in the last days of a month and
late shopping in its first; activity that drifts slowly and starts anew every Monday; noise that lasts for
hours; oil that warms with the square of past loads. What depends on the calendar in these ways no linear model
of past values can follow.
"""

import numpy as np
import pandas as pd

from forecast.data.panel import Panel
from forecast.data.sets.synthetic import Series, around, between, lag, persistent

COLUMNS = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
ROWS = 17_420
_SEED = 20160701
_FIXED_HOLIDAYS = ("01-01", "01-06", "05-01", "08-15", "10-03", "11-01", "12-24", "12-25", "12-26", "12-31")
_EASTER_MONDAYS = ("2017-04-17", "2018-04-02")


def sample_table() -> Panel:
    """The synthetic set, the same at every call.

    Values are rounded to three decimals, so that last digits that differ between platforms do not show.
    """
    dates = pd.date_range("2016-07-01", periods=ROWS, freq="h")
    random = np.random.Generator(np.random.PCG64(_SEED))
    temperature = _weather(dates, random)
    columns = []
    for activity, reactive in zip(_activities(dates, temperature), (0.45, 0.3, 0.2), strict=True):
        base, active, plan = activity
        level = np.exp(0.06 * persistent(random, ROWS, hours=24 * 40) + plan * _weekly(dates, random))
        noise = 1 + 0.08 * persistent(random, ROWS, hours=6)
        useful = (base + level * active) * noise + 0.3 * random.standard_normal(ROWS)
        swing = 1 + 0.15 * persistent(random, ROWS, hours=24 * 20)
        useless = reactive * np.abs(useful) ** 0.9 * swing + 0.12 * random.standard_normal(ROWS)
        columns += [useful, useless]
    load = (columns[0] + columns[2] + columns[4]) / 20
    oil = lag(temperature, hours=3) + 22 * lag(load**2, hours=5) + 0.3 * random.standard_normal(ROWS)
    return Panel.of_table(dates, np.stack([*columns, oil], axis=1).round(3), COLUMNS, "h")


def _activities(dates: pd.DatetimeIndex, temperature: Series) -> list[tuple[float, Series, float]]:
    """For each feeder: the base load, the load of human activity, and the spread of weekly plans."""
    heating = np.maximum(15 - temperature, 0) / 10
    cooling = np.maximum(temperature - 22, 0) / 6
    saturday, rest = _days(dates)
    workday = 1 - saturday - rest
    hour, day = dates.hour.to_numpy().astype(float), dates.day.to_numpy()

    shifts, office = between(hour, 5.5, 21.5), between(hour, 7.5, 18.5)
    morning, midday, evening = around(hour, 7.5, 1.6), around(hour, 12.5, 3.0), around(hour, 19.5, 2.6)
    night_shift = workday * (day > 22) * (1 - shifts)
    late_shopping = (1 - rest) * (day <= 6) * between(hour, 18.5, 22.5)

    industrial = workday * 6.0 * shifts + 3.6 * night_shift
    industrial += saturday * 5.0 * between(hour, 5.5, 17.5) + rest * 3.0 * shifts
    commercial = workday * office * (5.0 + 3.0 * cooling + 2.0 * heating) + 4.2 * late_shopping
    commercial += saturday * between(hour, 9.5, 20.5) * (5.0 + 3.0 * cooling)
    commercial += rest * 3.5 * between(hour, 10.5, 18.5)
    residential = workday * (2.0 * morning + 3.5 * evening) + (1 - workday) * (3.5 * midday + 2.5 * evening)
    residential += (1.4 * heating + 1.6 * cooling) * (0.4 + 0.5 * morning + evening)
    return [(5.0, industrial, 0.2), (3.0, commercial, 0.1), (2.0, residential, 0.1)]


def _weather(dates: pd.DatetimeIndex, random: np.random.Generator) -> Series:
    """Air temperature in °C: the year, the day (wider in summer), fronts that last for days."""
    year = np.cos(2 * np.pi * (dates.day_of_year.to_numpy() - 20) / 365.25)
    day = np.cos(2 * np.pi * (dates.hour.to_numpy() - 15) / 24)
    return 13 - 11 * year + (3 - 1.5 * year) * day + 3 * persistent(random, ROWS, hours=60)


def _days(dates: pd.DatetimeIndex) -> tuple[Series, Series]:
    """1 on Saturdays, and 1 on Sundays and public holidays, else 0."""
    weekday = dates.day_of_week.to_numpy()
    holiday = dates.strftime("%m-%d").isin(_FIXED_HOLIDAYS) | dates.strftime("%Y-%m-%d").isin(_EASTER_MONDAYS)
    rest = holiday | (weekday == 6)
    saturday = (weekday == 5) & ~rest
    return saturday.astype(float), rest.astype(float)


def _weekly(dates: pd.DatetimeIndex, random: np.random.Generator) -> Series:
    """Noise of unit deviation that changes at midnight before each Monday, and only then."""
    week = (np.arange(ROWS) // 24 + dates.day_of_week[0]) // 7
    return random.standard_normal(week[-1] + 1)[week]
