"""A synthetic national load: four and a half years of hourly values.

39,456 rows from 2017-01-01: `load` in GW, and `temperature` in °C, the air's mean over the country.

A model can learn from it:

- different daily shapes of working days, Saturdays and Sundays;
- public holidays of Turkey, two of which move eleven days a year, and the half day before them;
- working days between a holiday and a weekend;
- evening peaks that follow dusk;
- heating below 15 °C and cooling above 20 °C, with the square of the distance, half a day later;
- growth, and a level that drifts for weeks.

`data.holidays=TR` gives a model the same holidays.
"""

import numpy as np
import pandas as pd
from jaxtyping import Bool

from forecast.data.panel import Panel
from forecast.data.sets.synthetic import Series, around, between, lag, persistent

COLUMNS = ("load", "temperature")
ROWS = 39_456
_SEED = 20170101
_FIXED = ("01-01", "04-23", "05-01", "05-19", "07-15", "08-30", "10-29")
_FEASTS = {  # first day: days, the afternoon before each not counted
    **dict.fromkeys(("2017-06-25", "2018-06-15", "2019-06-04", "2020-05-24", "2021-05-13"), 3),
    **dict.fromkeys(("2022-05-02", "2023-04-21", "2024-04-10"), 3),
    **dict.fromkeys(("2017-09-01", "2018-08-21", "2019-08-11", "2020-07-31", "2021-07-20"), 4),
    **dict.fromkeys(("2022-07-09", "2023-06-28", "2024-06-16"), 4),
}


def load_table(rows: int = ROWS, seed: int = _SEED) -> Panel:
    """The generated set, the same at every call; values are rounded to three decimals.

    Args:
        rows: hours from 2017-01-01; the holidays are known until the end of 2024.
        seed: of the random numbers; another one gives another load of the same kind.
    """
    dates = pd.date_range("2017-01-01", periods=rows, freq="h")
    random = np.random.Generator(np.random.PCG64(seed))
    temperature = _weather(dates, random)
    felt = lag(temperature, hours=12)
    heating, cooling = (np.maximum(15 - felt, 0) / 10) ** 2, (np.maximum(felt - 20, 0) / 6) ** 2
    growth = 1 + 0.02 * np.arange(rows) / 8766
    level = np.exp(0.03 * persistent(random, rows, hours=24 * 30) + 0.012 * persistent(random, rows, hours=8))
    night = 1 - 0.35 * around(dates.hour.to_numpy().astype(float), 3.5, 4.0)
    load = (
        growth * level * (28 * night + _activity(dates) + 3.5 * heating * night + 4 * cooling * (1.6 - night))
    )
    load += 0.15 * random.standard_normal(rows)
    return Panel.of_table(dates, np.stack([load, temperature], axis=1).round(3), COLUMNS, "h")


def _weather(dates: pd.DatetimeIndex, random: np.random.Generator) -> Series:
    """Air temperature: the year, the day (wider in summer), and fronts that last for days."""
    year = np.cos(2 * np.pi * (dates.day_of_year.to_numpy() - 20) / 365.25)
    day = np.cos(2 * np.pi * (dates.hour.to_numpy() - 15) / 24)
    return 11 - 9.5 * year + (3.5 - 1.5 * year) * day + 3.5 * persistent(random, len(dates), hours=72)


def _activity(dates: pd.DatetimeIndex) -> Series:
    """The load of people's days, in GW: work, lunch, the evening at dusk; little of it on days off."""
    hour = dates.hour.to_numpy().astype(float)
    rest, feast, saturday, bridge = classify_days(dates)
    workday = ~rest & ~saturday
    summer = -np.cos(2 * np.pi * (dates.day_of_year.to_numpy() + 10) / 365.25)
    evening = around(hour, 19.0 + 1.5 * summer, 1.8)
    eve = np.roll(feast, -24) & ~feast & (hour >= 13)  # the half day before a feast
    work = workday * (14 * between(hour, 6.5, 18.5) + 3 * around(hour, 11.5, 1.5)) * (1 - 0.4 * bridge)
    away = saturday * 10 * between(hour, 8.0, 19.0) + (rest & ~feast) * 6 * between(hour, 9.5, 20.0)
    return (work + away) * (1 - 0.5 * eve) + feast * 1.5 * between(hour, 10.0, 21.0) + 6 * evening


def classify_days(dates: pd.DatetimeIndex) -> tuple[Bool[np.ndarray, " rows"], ...]:
    """Sundays and holidays; the feasts among them; other Saturdays; working days between a day off and a weekend."""
    day = dates.normalize()
    begins = pd.to_datetime([*_FEASTS])
    feasts = pd.DatetimeIndex(
        [
            first + pd.Timedelta(days=n)
            for first, days in zip(begins, _FEASTS.values(), strict=True)
            for n in range(days)
        ]
    )

    def is_off(days: pd.DatetimeIndex) -> Bool[np.ndarray, " rows"]:
        return np.asarray(days.strftime("%m-%d").isin(_FIXED) | days.isin(feasts))

    weekday, one = day.day_of_week.to_numpy(), pd.Timedelta(days=1)
    rest = is_off(day) | (weekday == 6)
    bridge = ~rest & ((is_off(day - one) & (weekday == 4)) | (is_off(day + one) & (weekday == 0)))
    return rest, np.asarray(day.isin(feasts)), (weekday == 5) & ~rest, bridge
