"""Built-in data sets: synthetic ones, generated from a seed, and published files."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from filelock import FileLock
from jaxtyping import Bool, Float, Int

from forecast.data.files.sources import FileSource
from forecast.data.panel import Panel
from forecast.data.source import Source
from forecast.system.errors import ConfigError, DataError, user_path

Series = Float[np.ndarray, " rows"]


def between(hour: Series, start: float, end: float) -> Series:
    """Return 1 between two hours of the day and 0 outside, with smooth edges."""
    return 1 / (1 + np.exp(-2 * (hour - start))) - 1 / (1 + np.exp(-2 * (hour - end)))


def around(hour: Series, peak: float | Series, width: float) -> Series:
    """Return a Gaussian bump at an hour of the day, periodic in 24 hours."""
    away = (hour - peak + 12) % 24 - 12
    return np.exp(-0.5 * (away / width) ** 2)


def persistent(random: np.random.Generator, rows: int, *, hours: int) -> Series:
    """Return AR(1) noise of unit standard deviation with a time constant of `hours`."""
    keep = np.exp(-1 / hours)
    shocks = random.standard_normal(rows)
    shocks[1:] *= np.sqrt((1 + keep) / (1 - keep))
    return lag(shocks, hours=hours)


def lag(series: Series, *, hours: int) -> Series:
    """Smooth a series exponentially with a time constant of `hours`, which delays it."""
    return pd.Series(series).ewm(alpha=1 - np.exp(-1 / hours), adjust=False).mean().to_numpy()


def weather(
    dates: pd.DatetimeIndex, random: np.random.Generator, *, mean: float, year: float, day: float, hours: int
) -> Series:
    """Air temperature in °C: the year, the day (wider in summer), and fronts that last for days.

    Args:
        dates, random: of each row; of the fronts.
        mean, year, day: the mean, the deviation of summer and winter, and that of day and night, also of the fronts.
        hours: time constant of the fronts.
    """
    season = np.cos(2 * np.pi * (dates.day_of_year.to_numpy() - 20) / 365.25)
    hour = np.cos(2 * np.pi * (dates.hour.to_numpy() - 15) / 24)
    fronts = persistent(random, len(dates), hours=hours)
    return mean - year * season + (day - 1.5 * season) * hour + day * fronts


SAMPLE_COLUMNS = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
SAMPLE_ROWS = 17_420
_SAMPLE_SEED = 20160701
_FIXED_HOLIDAYS = ("01-01", "01-06", "05-01", "08-15", "10-03", "11-01", "12-24", "12-25", "12-26", "12-31")
_EASTER_MONDAYS = ("2017-04-17", "2018-04-02")


def sample_table() -> Panel:
    """The synthetic set, the same at every call.

    Values are rounded to three decimals, so that last digits that differ between platforms do not show.
    """
    dates = pd.date_range("2016-07-01", periods=SAMPLE_ROWS, freq="h")
    random = np.random.Generator(np.random.PCG64(_SAMPLE_SEED))
    temperature = weather(dates, random, mean=13.0, year=11.0, day=3.0, hours=60)
    columns = []
    for activity, reactive in zip(_activities(dates, temperature), (0.45, 0.3, 0.2), strict=True):
        base, active, plan = activity
        level = np.exp(0.06 * persistent(random, SAMPLE_ROWS, hours=24 * 40) + plan * _weekly(dates, random))
        noise = 1 + 0.08 * persistent(random, SAMPLE_ROWS, hours=6)
        useful = (base + level * active) * noise + 0.3 * random.standard_normal(SAMPLE_ROWS)
        swing = 1 + 0.15 * persistent(random, SAMPLE_ROWS, hours=24 * 20)
        useless = reactive * np.abs(useful) ** 0.9 * swing + 0.12 * random.standard_normal(SAMPLE_ROWS)
        columns += [useful, useless]
    load = (columns[0] + columns[2] + columns[4]) / 20
    oil = lag(temperature, hours=3) + 22 * lag(load**2, hours=5) + 0.3 * random.standard_normal(SAMPLE_ROWS)
    return Panel.of_table(dates, np.stack([*columns, oil], axis=1).round(3), SAMPLE_COLUMNS, "h")


def _activities(dates: pd.DatetimeIndex, temperature: Series) -> list[tuple[float, Series, float]]:
    """For each feeder: the base load, the load of human activity, and the spread of weekly plans."""
    heating = np.maximum(15 - temperature, 0) / 10
    cooling = np.maximum(temperature - 22, 0) / 6
    saturday, rest = _sample_days(dates)
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


def _sample_days(dates: pd.DatetimeIndex) -> tuple[Series, Series]:
    """1 on Saturdays, and 1 on Sundays and public holidays, else 0."""
    weekday = dates.day_of_week.to_numpy()
    holiday = dates.strftime("%m-%d").isin(_FIXED_HOLIDAYS) | dates.strftime("%Y-%m-%d").isin(_EASTER_MONDAYS)
    rest = holiday | (weekday == 6)
    saturday = (weekday == 5) & ~rest
    return saturday.astype(float), rest.astype(float)


def _weekly(dates: pd.DatetimeIndex, random: np.random.Generator) -> Series:
    """Noise of unit deviation that changes at midnight before each Monday, and only then."""
    week = (np.arange(SAMPLE_ROWS) // 24 + dates.day_of_week[0]) // 7
    return random.standard_normal(week[-1] + 1)[week]


LOAD_COLUMNS = ("load", "temperature")
LOAD_ROWS = 39_456
_LOAD_SEED = 20170101
_FIXED = ("01-01", "04-23", "05-01", "05-19", "07-15", "08-30", "10-29")
_FEASTS = {  # first day: days, the afternoon before each not counted
    **dict.fromkeys(("2017-06-25", "2018-06-15", "2019-06-04", "2020-05-24", "2021-05-13"), 3),
    **dict.fromkeys(("2022-05-02", "2023-04-21", "2024-04-10"), 3),
    **dict.fromkeys(("2017-09-01", "2018-08-21", "2019-08-11", "2020-07-31", "2021-07-20"), 4),
    **dict.fromkeys(("2022-07-09", "2023-06-28", "2024-06-16"), 4),
}


def load_table(rows: int = LOAD_ROWS, seed: int = _LOAD_SEED) -> Panel:
    """The generated set, the same at every call; values are rounded to three decimals.

    Args:
        rows: hours from 2017-01-01; the holidays are known until the end of 2024.
        seed: of the random numbers; another one gives another load of the same kind.
    """
    dates = pd.date_range("2017-01-01", periods=rows, freq="h")
    random = np.random.Generator(np.random.PCG64(seed))
    temperature = weather(dates, random, mean=11.0, year=9.5, day=3.5, hours=72)
    felt = lag(temperature, hours=12)
    heating, cooling = (np.maximum(15 - felt, 0) / 10) ** 2, (np.maximum(felt - 20, 0) / 6) ** 2
    growth = 1 + 0.02 * np.arange(rows) / 8766
    level = np.exp(0.03 * persistent(random, rows, hours=24 * 30) + 0.012 * persistent(random, rows, hours=8))
    night = 1 - 0.35 * around(dates.hour.to_numpy().astype(float), 3.5, 4.0)
    load = growth * level * (28 * night + _activity(dates) + 3.5 * heating * night + 4 * cooling * (1.6 - night))
    load += 0.15 * random.standard_normal(rows)
    return Panel.of_table(dates, np.stack([load, temperature], axis=1).round(3), LOAD_COLUMNS, "h")


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
    ranges = (pd.date_range(first, periods=days) for first, days in _FEASTS.items())
    feasts = pd.DatetimeIndex([one for days in ranges for one in days])

    def is_off(days: pd.DatetimeIndex) -> Bool[np.ndarray, " rows"]:
        return np.asarray(days.strftime("%m-%d").isin(_FIXED) | days.isin(feasts))

    weekday, one = day.day_of_week.to_numpy(), pd.Timedelta(days=1)
    rest = is_off(day) | (weekday == 6)
    bridge = ~rest & ((is_off(day - one) & (weekday == 4)) | (is_off(day + one) & (weekday == 0)))
    return rest, np.asarray(day.isin(feasts)), (weekday == 5) & ~rest, bridge


PRODUCTS, WEEKS, WEEK = 6, 2000, 336
RECALL_COLUMNS = ("output", *(f"{when}_{product + 1}" for when in ("now", "next") for product in range(PRODUCTS)))
SOONEST, LATEST = 4, 8  # weeks from a run of a product to its next
MEMORY, NOISE = 0.9, 0.15
_RECALL_SEED = 19900101


def recall_table() -> Panel:
    """The generated set, the same at every call; values are rounded to three decimals."""
    dates = pd.date_range("1990-01-01", periods=WEEKS * WEEK, freq="30min")
    random = np.random.Generator(np.random.PCG64(_RECALL_SEED))
    product, level = _plan(random)
    day = -0.7 * around(dates.hour.to_numpy().astype(float), 3.0, 3.0)
    output = np.repeat(level[:-1], WEEK) + day + NOISE * random.standard_normal(len(dates))
    flags = np.repeat(np.eye(PRODUCTS)[product], WEEK, axis=0)
    values = np.column_stack([output, flags[:-WEEK], flags[WEEK:]]).round(3)
    return Panel.of_table(dates, values, RECALL_COLUMNS, "30min")


def _plan(random: np.random.Generator) -> tuple[Int[np.ndarray, " weeks"], Float[np.ndarray, " weeks"]]:
    """The product of each week, and one after the table's last, and the level at which it is made.

    Each week is for one of the products that have waited long enough, at random; one that has waited `LATEST` at once.
    """
    waiting = list(zip(range(-LATEST, PRODUCTS - LATEST), random.permutation(PRODUCTS), strict=True))
    levels = random.standard_normal(PRODUCTS)
    weeks = []
    for week in range(WEEKS + 1):
        oldest, _ = waiting[0]  # week of the last run, product
        _, product = waiting.pop(0 if week - oldest == LATEST else random.integers(PRODUCTS - SOONEST + 1))
        waiting.append((week, product))
        levels[product] = MEMORY * levels[product] + np.sqrt(1 - MEMORY**2) * random.standard_normal()
        weeks.append((product, levels[product]))
    products, made = zip(*weeks, strict=True)
    return np.array(products), np.array(made)


class GeneratedSource(Source):
    """A function that makes a panel, the same at every call; needs no file and no network."""

    path: Path | None = None

    def __init__(self, make: Callable[[], Panel]) -> None:
        self._make = make

    def read(self) -> Panel:
        return self._make()


_TIMEOUT = 30  # seconds without an answer of the server


@dataclass(kw_only=True)
class DownloadedSource(FileSource):
    """The table in the file `path` below `root`.

    A file that is missing or has another hash is downloaded to a temporary place, checked, and moved to `path`, once
    for all processes.

    Args:
        root: folder of the downloaded files.
        url: address of the file; None: the file is not downloaded.
        hash: SHA-256 of the file, or `md5:…`; None: the file is not checked.
        by_hand: where to find the file, for error messages; None: at `url`.

    Raises ConfigError for a `path` outside of `root`, where a download could replace other files, and DataError, which
    says where to place the file by hand, if the download fails.
    """

    root: str | Path
    url: str | None
    hash: str | None
    by_hand: str | None = None

    def __post_init__(self) -> None:
        path, self.path = self.path, Path(self.root) / self.path
        super().__post_init__()
        below = Path(os.path.abspath(self.path)).is_relative_to(os.path.abspath(user_path(self.root)))
        if self.url is not None and not below:
            problem = f"not below data.root={self.root}, where a downloaded set lies"
            raise ConfigError(f"data.path={path}: {problem}; a file of your own is data=csv data.path={path}")
        self.by_hand = self.by_hand or f"from {self.url}"

    def prepare(self) -> None:
        import pooch
        from pooch.hashes import hash_matches

        is_there = self.path.is_file()
        if is_there and hash_matches(str(self.path), self.hash):
            return
        if self.url is None:
            found = "not the published file (wrong hash)" if is_there else "no such file"
            raise DataError(f"{self.path}: {found}: put it there by hand: {self.by_hand}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.parent / f".{self.path.name}.lock"):
                place = {"fname": self.path.name, "path": self.path.parent}
                downloader: Any = pooch.HTTPDownloader(timeout=_TIMEOUT)
                pooch.retrieve(self.url, self.hash, **place, downloader=downloader)
        except (OSError, ValueError) as error:  # an error of the connection is an OSError
            problem = f"cannot be downloaded ({' '.join(str(error).split())})"
            raise DataError(f"{self.path}: {problem}: put it there by hand: {self.by_hand}") from None

    def read(self) -> Panel:
        self.prepare()
        return super().read()
