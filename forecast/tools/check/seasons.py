"""Seasons: periods of the calendar and of the autocorrelation, and how much of the variance each explains."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from forecast.data.calendars import Calendar
from forecast.data.time_features import choose_evenly_spaced, rows_in, season_length

WEAK, CLEAR, STRONG = 0.1, 0.3, 0.6
"""Least strengths of a weak, a clear and a strong season; a weaker period is not a season."""
DOUBT, NAMELESS_DOUBT = 1.5, 3.0
"""Strength that a random walk reaches by chance, times the number of cycles: for calendar and other periods."""
DEVIATIONS = 3.0
"""Standard deviations, √(2 / (rows − 1)), that the F statistic of the phase means of a season exceeds 1 by."""
MIN_GAIN = 0.05  # least strength that a season must add to shorter ones
CYCLES, NAMELESS_CYCLES = 3, 8
"""Fewest cycles of a season; with fewer, it cannot be distinguished from a trend. Other periods need more."""
PROMINENCE = 0.1  # least height and prominence of a peak of the autocorrelation
MAX_PEAKS = 8  # largest number of peaks that are examined
SEARCHED = 64  # largest number of columns, evenly spaced, in which seasons are searched

Values = Float64[np.ndarray, "rows columns"]


class Season(NamedTuple):
    """A season of `rows` rows."""

    rows: int
    name: str  # such as "a day" or "52 weeks"; empty if the length is no whole number of weeks or days
    strength: float  # the fraction of the variance about the moving mean that it explains, mean over the columns

    @property
    def word(self) -> str:
        return "strong" if self.strength >= STRONG else "clear" if self.strength >= CLEAR else "weak"

    @property
    def title(self) -> str:
        return self.name or f"{self.rows} rows"


def calendar_periods(freq: str, calendar: Calendar | None = None) -> dict[int, str]:
    """Rows in a day, a week, 52 weeks and a year of 365 days, if the step divides them; or of sessions.

    A year in steps of whole weeks has 364 days.
    """
    if calendar is not None and len(calendar.slots) > 1:
        periods = calendar.periods
    else:
        lengths = ((1, "a day"), (7, "a week"), (365, "a year"))
        periods = {rows_in(days=days, freq=freq): name for days, name in lengths}
        if freq == "B":
            periods |= {5: "a week", 261: "a year"}
        elif rows_in(days=1, freq=freq) == 0:
            periods[season_length(freq)] = "a year"
    weeks = {52 * rows: "52 weeks" for rows, name in periods.items() if name == "a week"}
    return {rows: name for rows, name in (weeks | periods).items() if rows > 1}


def find_seasons(values: Values, freq: str, calendar: Calendar | None = None) -> list[Season]:
    """The seasons of the columns, shortest first.

    They are the periods of the calendar that add enough to shorter ones, and the peak of the mean autocorrelation that
    explains most of the rest. A season that shorter ones do not divide is measured after these are subtracted.
    """
    periods = calendar_periods(freq, calendar)
    values = values[:, choose_evenly_spaced(values.shape[1], SEARCHED)]
    possible = [rows for rows in sorted(periods) if CYCLES * rows <= len(values)]
    if "52 weeks" in map(periods.get, possible[:-1]):  # and a year: the other one would add nothing
        *possible, weeks, year = possible
        gains = [_strength(values, rows, possible) for rows in (weeks, year)]
        possible.append(weeks if gains[0] > gains[1] + MIN_GAIN * (1 - gains[1]) else year)
    kept: list[int] = []
    for rows in possible:
        if _measure(values, rows, kept, DOUBT) > 0:
            kept.append(rows)
    peaks = autocorrelation_peaks(_subtract(values, kept))
    found = {rows: _measure(values, rows, kept, NAMELESS_DOUBT) for rows in peaks}
    most = max(found.values(), default=0.0)
    if most > 0:  # of a period and its multiples, which explain as much, the shortest one
        shortest = min(rows for rows, strength in found.items() if strength >= most - MIN_GAIN)
        kept = [rows for rows in kept if shortest % rows == 0 or _measure(values, rows, [shortest], DOUBT) > 0]
        kept = sorted([*kept, shortest])
    return [Season(rows, periods.get(rows, ""), _strength(values, rows, _undivided(rows, kept))) for rows in kept]


def _strength(values: Values, rows: int, others: Sequence[int]) -> float:
    """The mean fraction of the variance that a season explains after these others are subtracted."""
    rest = _subtract(values, others)
    strength = seasonal_strength(rest, rows)
    if others:
        before, after = (about_moving_mean(part, rows).var(0) for part in (values, rest))
        strength = strength * np.minimum(1, after / np.where(before > 0, before, 1))
    known = strength[~np.isnan(strength)]
    return float(known.mean()) if len(known) else 0.0


def _undivided(rows: int, others: Sequence[int]) -> list[int]:
    """The other seasons that are shorter and do not divide one of `rows` rows."""
    return [other for other in others if other < rows and rows % other]


def _measure(values: Values, rows: int, kept: Sequence[int], doubt: float) -> float:
    """The strength of a period, or 0 if it or what it adds to the seasons in `kept` may be chance."""
    strength, gain = _strength(values, rows, _undivided(rows, kept)), _strength(values, rows, kept)
    chance = max(doubt, DEVIATIONS * math.sqrt(2 / (rows - 1))) / (len(values) / rows - 1)
    is_enough = strength >= max(WEAK, chance) and gain >= max(MIN_GAIN, chance * (1 - strength + gain))
    return strength if is_enough else 0.0


def _subtract(values: Values, periods: Sequence[int]) -> Values:
    """Subtract the average cycles of these periods, one after another."""
    for rows in periods:
        values = values - average_cycle(values, rows)
    return values


def average_cycle(values: Values, period: int) -> Values:
    """The mean of each phase over whole cycles, repeated for all rows."""
    whole = values[: len(values) // period * period].reshape(-1, period, values.shape[1])
    profile = (whole - whole.mean(1, keepdims=True)).mean(0)
    return profile[np.arange(len(values)) % period]


def about_moving_mean(values: Values, window: int) -> Float64[np.ndarray, "rows1 columns"]:
    """Each value minus the mean of the `window` rows around it; rows near the ends are left out."""
    values = values - values.mean(0)
    sums = np.cumsum(np.concatenate([np.zeros_like(values[:1]), values]), axis=0)
    level = (sums[window:] - sums[:-window]) / window
    return values[window // 2 :][: len(level)] - level


def seasonal_strength(values: Values, period: int) -> Float64[np.ndarray, " columns"]:
    """Return the fraction of each column's variance about its moving mean that the average cycle explains.

    It is the adjusted R² of the phase means, max(0, 1 − (1 − R²)·m/(m − 1)) for m cycles; NaN for a constant column.
    The moving mean is over one period. The seasonal strength of Wang, Smith and Hyndman (2006) is similar, with STL in
    place of the moving mean.
    """
    moving = about_moving_mean(values, period)
    cycles = len(moving) // period
    moving = moving[len(moving) - cycles * period :]
    moving = moving - moving.mean(0)
    profile = moving.reshape(cycles, period, -1).mean(0)  # (period, columns)
    variance = moving.var(0)
    still = variance <= 1e-20 * np.square(values).max(0)
    explained = profile.var(0) / np.where(still, 1, variance)
    return np.where(still, np.nan, np.maximum(0, 1 - (1 - explained) * cycles / (cycles - 1)))


def autocorrelation(values: Values, lags: int) -> Float64[np.ndarray, "lags1 columns"]:
    """Autocorrelation of each column without its linear trend, at lags 0 … `lags`; zeros for a constant column."""
    size = 1 << (len(values) + lags - 1).bit_length()  # padded, so that no lag wraps around
    result = np.zeros((lags + 1, values.shape[1]))
    steps = np.arange(len(values))
    for number, column in enumerate(values.T):
        if np.ptp(column) > 0:
            spectrum = np.fft.rfft(column - np.polynomial.Polynomial.fit(steps, column, 1)(steps), size)
            raw = np.fft.irfft(np.abs(spectrum) ** 2, size)[: lags + 1]
            result[:, number] = raw / raw[0] if raw[0] > 0 else 0
    return result


def autocorrelation_peaks(values: Values) -> list[int]:
    """Lags of the most prominent positive peaks of the mean autocorrelation that have enough cycles."""
    longest = len(values) // NAMELESS_CYCLES
    if longest < 2:
        return []
    mean = autocorrelation(values, longest + 1).mean(1)
    is_peak = (mean[1:-1] > mean[:-2]) & (mean[1:-1] >= mean[2:]) & (mean[1:-1] >= PROMINENCE)
    prominences = {rows: measure_prominence(mean, rows) for rows in (np.flatnonzero(is_peak) + 1).tolist()}
    found = sorted(prominences, key=lambda rows: -prominences[rows])
    return [rows for rows in found if 1 < rows <= longest and prominences[rows] >= PROMINENCE][:MAX_PEAKS]


def measure_prominence(values: Float64[np.ndarray, " lags"], peak: int) -> float:
    """Return how far one must go down from a peak to reach a higher value, or an end (as `scipy.signal`)."""
    lowest = []
    for side in (values[peak::-1], values[peak:]):
        higher = np.flatnonzero(side > values[peak])
        lowest.append(side[: higher[0] if len(higher) else None].min())
    return float(values[peak] - max(lowest))
