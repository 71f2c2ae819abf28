"""Seasons: periods of the calendar and of the autocorrelation, and how much of the variance each explains."""

import math
from collections.abc import Callable, Container, Mapping, Sequence
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
MIN_GAIN = 0.05
"""Least strength that a multiple of a shorter season must add to it."""
CYCLES = 3
"""Fewest cycles of a season; with fewer, it cannot be distinguished from a trend."""
NAMELESS_CYCLES = 8
"""Fewest cycles of a period that is not in the calendar."""
PROMINENCE = 0.1
"""Least height and prominence of a peak of the autocorrelation."""
MAX_PEAKS = 8
"""Largest number of peaks that are examined."""
MAX_CLOSE_PEAKS = 2
"""Largest number of peaks that are examined beside each period of the calendar."""
SEARCHED = 64
"""Largest number of columns, evenly spaced, in which seasons are searched."""


class Season(NamedTuple):
    """A season of `rows` rows.

    Attributes:
        name: such as "a day" or "52 weeks"; empty if the length is no whole number of weeks or days.
        strength: the fraction of the variance about the moving mean that it explains, mean over the columns.
    """

    rows: int
    name: str
    strength: float

    @property
    def word(self) -> str:
        return "strong" if self.strength >= STRONG else "clear" if self.strength >= CLEAR else "weak"

    @property
    def title(self) -> str:
        return self.name or f"{self.rows} rows"


def calendar_periods(freq: str, calendar: Calendar | None = None) -> dict[int, str]:
    """Rows in a day, a week and a year of 365 days, if the step divides them; or in a session, a week and a year.

    A year in steps of whole weeks has 364 days.
    """
    if calendar is not None and len(calendar.slots) > 1:
        return calendar.periods
    periods = {
        rows_in(days=days, freq=freq): name for days, name in ((1, "a day"), (7, "a week"), (365, "a year"))
    }
    if freq == "B":
        periods |= {5: "a week", 261: "a year"}
    elif rows_in(days=1, freq=freq) == 0:
        periods[season_length(freq)] = "a year"
    return {rows: name for rows, name in periods.items() if rows > 1}


def find_seasons(
    values: Float64[np.ndarray, "rows columns"], freq: str, calendar: Calendar | None = None
) -> list[Season]:
    """The seasons of the columns, shortest first.

    Candidates are the periods of the calendar and the peaks of the mean autocorrelation. A season that shorter ones do
    not divide is measured after these are subtracted.
    """
    periods = calendar_periods(freq, calendar)
    values = values[:, choose_evenly_spaced(values.shape[1], SEARCHED)]
    kept: list[Season] = []
    for rows in sorted(_choose_seasons(values, periods)):
        rest = _subtract(values, [other.rows for other in kept if rows % other.rows])
        strength = _mean(seasonal_strength(rest, rows) * _variance_left(rest, values, rows))
        kept.append(Season(rows, _name_period(rows, periods), strength))
    return kept


def _name_period(rows: int, periods: Mapping[int, str]) -> str:
    """The name of a period of the calendar, else the number of weeks or days; empty if it is not whole."""
    if rows in periods:
        return periods[rows]
    for unit in ("week", "day"):
        for length, name in periods.items():
            if name == f"a {unit}" and rows % length == 0:
                return f"{rows // length} {unit}s"
    return ""


def _choose_seasons(values: Float64[np.ndarray, "rows columns"], periods: Mapping[int, str]) -> list[int]:
    """Choose the period that explains most, then the one that explains most beside it, until none explains enough.

    Side peaks of a season, such as a season and a week, and fractions of it explain little beside it. Of close periods,
    the one that adds most to its fractions is chosen: a year of 365 days does not contain the week, 364 days do. A
    period of the calendar is preferred if it adds about as much.
    """
    candidates = {rows: DOUBT for rows in periods if len(values) >= CYCLES * rows}
    candidates = autocorrelation_peaks(values, list(candidates)) | candidates
    chosen: list[int] = []
    left = sorted(candidates)
    while left:

        def measure(rows: int) -> _Explained:
            return _measure(values, rows, chosen, list(candidates), periods)

        found = {rows: measure(rows) for rows in left}
        left = [rows for rows in left if found[rows].is_enough(rows, candidates[rows], len(values) / rows)]
        if not left:
            break
        best = max(left, key=lambda rows: found[rows].strength)
        close = [rows for rows in left if _is_close(rows, best)]
        best = max(close, key=lambda rows: found[rows].gain)
        best = _climb(best, lambda rows: measure(rows).gain, most=len(values) // CYCLES)
        highest = measure(best)
        least = highest.gain - MIN_GAIN * (1 - highest.strength)
        named = [rows for rows in close if rows in periods and found[rows].gain >= least]
        chosen.append(max(named, key=lambda rows: found[rows].gain, default=best))
        left = [rows for rows in left if rows != chosen[-1]]
    return chosen


def _climb(rows: int, gain: Callable[[int], float], most: int) -> int:
    """The period near this one with the highest gain: noise and trends move the peaks of the autocorrelation."""
    step = 1 << max(0, (rows // 50).bit_length() - 1)
    while step:
        near = [other for other in (rows, rows - step, rows + step) if 1 < other <= most]
        best = max(near, key=gain)
        rows, step = best, step // 2 if best == rows else step
    return rows


def _is_close(rows: int, other: int) -> bool:
    """Whether one of these periods may be a side peak of the other."""
    return 12 * abs(rows - other) <= other


class _Explained(NamedTuple):
    """The variance that a period explains, what it adds to its fractions, and whether it is a mere harmonic."""

    strength: float
    gain: float
    is_harmonic: bool

    def is_enough(self, rows: int, doubt: float, cycles: float) -> bool:
        """Whether this is more than chance, see `DOUBT` and `DEVIATIONS`."""
        chance = max(doubt, DEVIATIONS * math.sqrt(2 / (rows - 1))) / (cycles - 1)
        least = max(MIN_GAIN, chance * (1 - self.strength + self.gain))
        return not self.is_harmonic and self.strength >= max(WEAK, chance) and self.gain >= least


def _measure(
    values: Float64[np.ndarray, "rows columns"],
    rows: int,
    chosen: Sequence[int],
    candidates: Sequence[int],
    periods: Container[int],
) -> _Explained:
    """Measure what a period explains beside the chosen ones.

    Its fractions are candidates of which it is a multiple, or nearly. Chosen periods that do not divide it are
    subtracted, but not a longer one from a period of the calendar: the average of few cycles contains the latter. A
    harmonic is no period of the calendar and explains less than half of a chosen multiple.
    """
    others = [
        other
        for other in sorted(chosen)
        if rows % other and other % rows and (other < rows or rows not in periods or _is_close(rows, other))
    ]
    fractions = [
        part
        for part in sorted(candidates)
        if round(rows / part) >= 2 and 12 * abs(rows - round(rows / part) * part) <= part
    ]
    rest = _subtract(values, others)
    strength, gain = (
        _mean(seasonal_strength(part, rows) * _variance_left(part, values, rows))
        for part in (rest, _subtract(rest, fractions))
    )
    is_harmonic = rows not in periods and any(
        2 * _mean(seasonal_strength(values, rows, other)) < _mean(seasonal_strength(values, other))
        for other in chosen
        if other % rows == 0
    )
    return _Explained(strength, gain, is_harmonic)


def _subtract(
    values: Float64[np.ndarray, "rows columns"], periods: Sequence[int]
) -> Float64[np.ndarray, "rows columns"]:
    """Subtract the average cycles of these periods, one after another."""
    for rows in periods:
        values = values - average_cycle(values, rows)
    return values


def average_cycle(
    values: Float64[np.ndarray, "rows columns"], period: int
) -> Float64[np.ndarray, "rows columns"]:
    """The mean of each phase over whole cycles, repeated for all rows."""
    whole = values[: len(values) // period * period].reshape(-1, period, values.shape[1])
    profile = (whole - whole.mean(1, keepdims=True)).mean(0)
    return profile[np.arange(len(values)) % period]


def _variance_left(
    rest: Float64[np.ndarray, "rows columns"], values: Float64[np.ndarray, "rows columns"], window: int
) -> Float64[np.ndarray, " columns"]:
    if rest is values:
        return np.ones(values.shape[1])
    before, after = (about_moving_mean(part, window).var(0) for part in (values, rest))
    return np.minimum(1, after / np.where(before > 0, before, 1))


def about_moving_mean(
    values: Float64[np.ndarray, "rows columns"], window: int
) -> Float64[np.ndarray, "rows1 columns"]:
    """Each value minus the mean of the `window` rows around it; rows near the ends are left out."""
    values = values - values.mean(0)
    sums = np.cumsum(np.concatenate([np.zeros_like(values[:1]), values]), axis=0)
    level = (sums[window:] - sums[:-window]) / window
    return values[window // 2 :][: len(level)] - level


def seasonal_strength(
    values: Float64[np.ndarray, "rows columns"], period: int, window: int | None = None
) -> Float64[np.ndarray, " columns"]:
    """Return the fraction of each column's variance about its moving mean that the average cycle explains.

    It is the adjusted R² of the phase means, max(0, 1 − (1 − R²)·m/(m − 1)) for m cycles; NaN for a constant column.
    The moving mean is over `window` rows (default: the period). The seasonal strength of Wang, Smith and Hyndman (2006)
    is similar, with STL in place of the moving mean.
    """
    moving = about_moving_mean(values, window or period)
    cycles = len(moving) // period
    moving = moving[len(moving) - cycles * period :]
    moving = moving - moving.mean(0)
    profile = moving.reshape(cycles, period, -1).mean(0)  # (period, columns)
    variance = moving.var(0)
    still = variance <= 1e-20 * np.square(values).max(0)
    explained = profile.var(0) / np.where(still, 1, variance)
    return np.where(still, np.nan, np.maximum(0, 1 - (1 - explained) * cycles / (cycles - 1)))


def autocorrelation(
    values: Float64[np.ndarray, "rows columns"], lags: int
) -> Float64[np.ndarray, "lags1 columns"]:
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


def autocorrelation_peaks(
    values: Float64[np.ndarray, "rows columns"], periods: Sequence[int]
) -> dict[int, float]:
    """Lags of the most prominent positive peaks of the mean autocorrelation, each with its doubt.

    A peak close to one of `periods` needs as few cycles as these, and is as little in doubt.
    """
    longest = len(values) // CYCLES
    if longest < 3:
        return {}
    mean = autocorrelation(values, min(longest + 1, len(values) - 1)).mean(1)
    found_peaks = find_peaks(mean, least=PROMINENCE)
    peaks = [peak for peak, prominence in found_peaks.items() if peak > 1 and prominence >= PROMINENCE]
    best = np.array(sorted(peaks, key=lambda peak: -found_peaks[peak]), dtype=np.int64)
    found = dict.fromkeys(best[NAMELESS_CYCLES * best <= len(values)][:MAX_PEAKS].tolist(), NAMELESS_DOUBT)
    for rows in periods:
        close = best[np.abs(best - rows) <= min(max(1, rows / 50), rows / 12)]
        found |= dict.fromkeys(close[:MAX_CLOSE_PEAKS].tolist(), DOUBT)
    return found


def find_peaks(values: Float64[np.ndarray, " rows"], least: float = -np.inf) -> dict[int, float]:
    """The positions of the local maxima of at least `least`, each with its prominence.

    The prominence is the descent from a maximum to the next higher value, or to an end.

    Of equal neighbours, the middle one is a maximum; the ends are none. As `scipy.signal.find_peaks`, whose import
    takes more time than the rest of `forecast.check`.
    """
    first = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)  # of each run of equal values
    last = np.append(first[1:], len(values)) - 1
    levels = values[first]
    inner = np.arange(1, len(first) - 1)
    inner = inner[levels[inner] > np.maximum(levels[inner - 1], levels[inner + 1])]
    found = {}
    for peak in ((first + last) // 2)[inner[levels[inner] >= least]].tolist():
        higher = np.flatnonzero(values > values[peak])
        before, after = higher[higher < peak], higher[higher > peak]
        left = values[before[-1] if len(before) else 0 : peak + 1].min()
        right = values[peak : after[0] + 1 if len(after) else len(values)].min()
        found[peak] = float(values[peak] - max(left, right))
    return found


def _mean(by_column: Float64[np.ndarray, " columns"]) -> float:
    known = by_column[~np.isnan(by_column)]
    return float(known.mean()) if len(known) else 0.0
