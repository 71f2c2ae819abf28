"""Seasons: the periods of the calendar and of the autocorrelation, and how much of a column each explains."""

from dataclasses import dataclass

import numpy as np
import scipy.signal
from jaxtyping import Float64

from forecast.data.calendar import parse_frequency, rows_in

WEAK, CLEAR, STRONG = 0.1, 0.3, 0.6  # strength; below WEAK there is no season
DOUBT, NAMELESS_DOUBT = 1.5, 3.0  # over the cycles: the strength that a random walk reaches by chance
GAIN = 0.05  # what a longer season must explain beyond a shorter one that it contains
CYCLES = 3  # fewer cannot tell a season from a trend
NAMELESS_CYCLES = 8  # the same, for a period that the calendar does not explain
PROMINENCE = 0.1  # of a peak of the autocorrelation
PEAKS = 8
BINS = 53  # a season of very many rows is averaged to so many phases
LONG = 2_016  # rows: a week of 5 minutes
CHUNK = 64  # columns at a time


@dataclass(frozen=True)
class Season:
    """by_column: the strength in each column, NaN where a column is constant; `strength` is their mean."""

    rows: int
    name: str  # "a day"; empty where the calendar has no name for it
    by_column: Float64[np.ndarray, " columns"]

    @property
    def strength(self) -> float:
        return _mean(self.by_column)

    @property
    def word(self) -> str:
        return "strong" if self.strength >= STRONG else "clear" if self.strength >= CLEAR else "weak"


def calendar_periods(freq: str) -> dict[int, str]:
    """Rows in a day, a week and a year, where the step gives whole ones; leap days are left out."""
    offset = parse_frequency(freq)
    periods = {
        rows_in(days=days, freq=freq): name for days, name in ((1, "a day"), (7, "a week"), (365, "a year"))
    }
    step = offset.rule_code.split("-")[0]
    if offset.n == 1:
        periods |= {
            "B": {5: "a week", 261: "a year"},
            "W": {52: "a year"},
            **{month: {12: "a year"} for month in ("MS", "ME", "BMS", "BME")},
            **{quarter: {4: "a year"} for quarter in ("QS", "QE", "BQS", "BQE")},
        }.get(step, {})
    return {rows: name for rows, name in periods.items() if rows > 1}


def find_seasons(values: Float64[np.ndarray, "rows columns"], freq: str) -> list[Season]:
    """The seasons that explain something, shortest first.

    Candidates are the calendar's periods and the peaks of the mean autocorrelation. A period that holds a shorter
    season counts only if it adds to it, another only for what shorter seasons leave; a nameless period that is
    mostly a part of a longer one goes.
    """
    candidates = calendar_periods(freq)
    for peak in autocorrelation_peaks(values):
        if not any(abs(peak - rows) <= max(1, rows / 50) for rows in calendar_periods(freq)):
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
    """The kept seasons and, if it explains something, the period of `rows`."""
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
    if season.strength - known < max(GAIN, chance * (1 - known)):
        return kept
    harmonics = {part for part, explained in parts.items() if explained < season.strength / 2}
    return [part for part in kept if part.name or part.rows not in harmonics] + [season]


def average_cycle(
    values: Float64[np.ndarray, "rows columns"], period: int
) -> Float64[np.ndarray, "rows columns"]:
    """The mean by phase, over whole cycles, repeated."""
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
    """Each value less the mean of the `window` rows around it, where there are so many."""
    values = values - values.mean(0)
    sums = np.cumsum(np.concatenate([np.zeros_like(values[:1]), values]), axis=0)
    level = (sums[window:] - sums[:-window]) / window
    return values[window // 2 :][: len(level)] - level


def seasonal_strength(
    values: Float64[np.ndarray, "rows columns"], period: int, window: int | None = None
) -> Float64[np.ndarray, " columns"]:
    """The share of each column's variance about its moving mean that the average cycle explains.

    R² of the means by phase, less what they explain of noise: 1 − (1 − R²)·m/(m − 1) for m cycles (adjusted R²),
    not below 0; NaN for a constant column. Near kin to the seasonal strength of Wang, Smith and Hyndman (2006),
    with the classical moving mean over `window` rows (default: the period) in place of STL.
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
    share = profile.var(0) / np.where(still, 1, variance)
    return np.where(still, np.nan, np.maximum(0, 1 - (1 - share) * cycles / (cycles - 1)))


def autocorrelation(
    values: Float64[np.ndarray, "rows columns"], lags: int
) -> Float64[np.ndarray, "lags1 columns"]:
    """Of each column less its straight trend, at lags 0 … `lags`; zeros for a constant column."""
    size = 1 << (len(values) + lags - 1).bit_length()  # room for no lag to wrap around
    result = np.zeros((lags + 1, values.shape[1]))
    for number, column in enumerate(values.T):
        if np.ptp(column) > 0:
            spectrum = np.fft.rfft(scipy.signal.detrend(column), size)
            raw = np.fft.irfft(np.abs(spectrum) ** 2, size)[: lags + 1]
            result[:, number] = raw / raw[0] if raw[0] > 0 else 0
    return result


def autocorrelation_peaks(values: Float64[np.ndarray, "rows columns"]) -> list[int]:
    """Lags where the mean autocorrelation has its most prominent peaks above 0, rising."""
    longest = len(values) // NAMELESS_CYCLES
    if longest < 3:
        return []
    mean = autocorrelation(values, min(longest + 1, len(values) - 1)).mean(1)
    peaks, found = scipy.signal.find_peaks(mean, prominence=PROMINENCE, height=PROMINENCE)
    best = np.argsort(found["prominences"])[::-1][:PEAKS]
    return sorted(int(lag) for lag in peaks[best] if lag > 1)


def _mean(by_column: Float64[np.ndarray, " columns"]) -> float:
    known = by_column[~np.isnan(by_column)]
    return float(known.mean()) if len(known) else 0.0
