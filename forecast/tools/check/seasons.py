"""Seasons: periods of the calendar and of the autocorrelation, and how much of the variance each explains."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from forecast.data.calendars import Calendar
from forecast.data.time_features import rows_in, season_length

WEAK, CLEAR, STRONG = 0.1, 0.3, 0.6
"""Least strengths of a weak, a clear and a strong season; a weaker period is not a season."""
DOUBT, NAMELESS_DOUBT = 1.5, 3.0
"""Strength that a random walk reaches by chance, times the number of cycles: for calendar and other periods."""
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
BINS = 53
"""Number of phases to which a season of more than LONG rows is averaged."""
LONG = 2_016
"""Rows: a week in steps of 5 minutes."""
CHUNK = 64
"""Columns that are examined at a time."""


@dataclass(frozen=True)
class Season:
    """A season of `rows` rows.

    Attributes:
        name: such as "a day"; empty if it is no period of the calendar.
        by_column: the strength in each column, NaN in a constant one. `strength` is their mean.
    """

    rows: int
    name: str
    by_column: Float64[np.ndarray, " columns"]

    @property
    def strength(self) -> float:
        return _mean(self.by_column)

    def by_target(self, n_targets: int) -> list[float]:
        """The mean strength of each target, for columns that hold the targets of several series one after another."""
        each = self.by_column.reshape(-1, n_targets).T
        return [_mean(column) if (~np.isnan(column)).any() else float("nan") for column in each]

    @property
    def word(self) -> str:
        return "strong" if self.strength >= STRONG else "clear" if self.strength >= CLEAR else "weak"


def calendar_periods(freq: str, calendar: Calendar | None = None) -> dict[int, str]:
    """Rows in a day, a week and a year of 365 days, if the step divides them; or in a session and a week."""
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

    Candidates are the periods of the calendar and the peaks of the mean autocorrelation. A multiple of a shorter
    season counts only if it explains more; any other period is measured after shorter seasons are subtracted. A period
    outside the calendar is dropped if a multiple of it explains much more.
    """
    candidates = calendar_periods(freq, calendar)
    for peak in autocorrelation_peaks(values):
        if not any(abs(peak - rows) <= max(1, rows / 50) for rows in calendar_periods(freq, calendar)):
            candidates[peak] = ""
    kept: list[Season] = []
    for rows, name in sorted(candidates.items()):
        slip = any(0 < abs(rows - round(rows / s.rows) * s.rows) <= s.rows / 12 for s in kept)
        if len(values) >= CYCLES * rows and (name or not slip):
            kept = _with(kept, values, rows, name)
    return kept


def _with(
    kept: list[Season], values: Float64[np.ndarray, "rows columns"], rows: int, name: str
) -> list[Season]:
    """Return the kept seasons, with the period of `rows` if it explains enough."""
    rest = values
    for other in kept:
        if rows % other.rows:
            rest = rest - average_cycle(rest, other.rows)
    season = Season(rows, name, seasonal_strength(rest, rows) * _variance_left(rest, values, rows))
    chance = (DOUBT if name else NAMELESS_DOUBT) * rows / (len(values) - rows)
    if season.strength < max(WEAK, chance):
        return kept
    parts = {
        part.rows: _mean(seasonal_strength(values, part.rows, window=rows))
        for part in kept
        if rows % part.rows == 0
    }
    known = max(parts.values(), default=0.0)
    if season.strength - known < max(MIN_GAIN, chance * (1 - known)):
        return kept
    harmonics = {part for part, explained in parts.items() if explained < season.strength / 2}
    return [part for part in kept if part.name or part.rows not in harmonics] + [season]


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
    parts = [
        _strength(values[:, start : start + CHUNK], period, window or period)
        for start in range(0, values.shape[1], CHUNK)
    ]
    return np.concatenate(parts)


def _strength(
    values: Float64[np.ndarray, "rows columns"], period: int, window: int
) -> Float64[np.ndarray, " columns"]:
    moving = about_moving_mean(values, window)
    cycles = len(moving) // period
    moving = moving[len(moving) - cycles * period :]
    moving = moving - moving.mean(0)
    profile = moving.reshape(cycles, period, -1).mean(0)  # (period, columns)
    if period > LONG:
        bins = np.arange(BINS) * period // BINS
        widths = np.diff(np.append(bins, period))
        profile = np.repeat(np.add.reduceat(profile, bins) / widths[:, None], widths, axis=0)
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


def autocorrelation_peaks(values: Float64[np.ndarray, "rows columns"]) -> list[int]:
    """Lags of the most prominent positive peaks of the mean autocorrelation, in ascending order."""
    longest = len(values) // NAMELESS_CYCLES
    if longest < 3:
        return []
    mean = autocorrelation(values, min(longest + 1, len(values) - 1)).mean(1)
    peaks = find_peaks(mean)
    prominences = np.array([measure_prominence(mean, peak) for peak in peaks.tolist()])
    is_peak = (mean[peaks] >= PROMINENCE) & (prominences >= PROMINENCE)
    peaks, prominences = peaks[is_peak], prominences[is_peak]
    best = np.argsort(prominences)[::-1][:MAX_PEAKS]
    return sorted(int(lag) for lag in peaks[best] if lag > 1)


def find_peaks(values: Float64[np.ndarray, " rows"]) -> Int64[np.ndarray, " peaks"]:
    """Positions of the local maxima; of equal neighbours, the middle one. The ends are none.

    As `scipy.signal.find_peaks`, whose import takes more time than the rest of `forecast.check`.
    """
    first = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)  # of each run of equal values
    last = np.append(first[1:], len(values)) - 1
    levels = values[first]
    inner = np.arange(1, len(first) - 1)
    is_peak = (levels[inner - 1] < levels[inner]) & (levels[inner + 1] < levels[inner])
    return ((first + last) // 2)[inner[is_peak]].astype(np.int64)


def measure_prominence(values: Float64[np.ndarray, " rows"], peak: int) -> float:
    """The prominence of a peak: the descent from it to the next higher value, or to an end."""
    higher = np.flatnonzero(values > values[peak])
    before, after = higher[higher < peak], higher[higher > peak]
    left = values[before[-1] if len(before) else 0 : peak + 1].min()
    right = values[peak : after[0] + 1 if len(after) else len(values)].min()
    return float(values[peak] - max(left, right))


def _mean(by_column: Float64[np.ndarray, " columns"]) -> float:
    known = by_column[~np.isnan(by_column)]
    return float(known.mean()) if len(known) else 0.0
