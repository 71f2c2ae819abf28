"""Facts about a panel: its gaps, its splits and its columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Int64

from forecast.data import Panel
from forecast.data.calendars import format_date
from forecast.data.row_ranges import PerSeries, ranges
from forecast.data.split import Split, split_panel
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import plural

MAX_NAMED = 3
"""Largest number of gaps that are named, and of gross errors of a series: more of them are no isolated errors."""
SENTINEL_COUNT = 3  # a code for a missing value comes at least this often
MIN_DISTANCE = 10
"""Least distance of a gross error from the range of the other numbers, in lengths of this range.

The highest spike of the electricity prices that are published as EPF lies 2.6 such lengths away, and it is true.
"""
MIN_NUMBERS = 50  # fewest numbers of a series in which gross errors and copies are sought
MIN_COUNTED = 10  # fewest numbers of a column that counts rows
DRIFT = 1.0  # smallest absolute drift that is noted, in standard deviations of the training rows
REPEATS = 3  # fewest rows for each value of a part of the date, on average, for a column to be a function of it
LABELS = {"train": "training", "val": "validation", "test": "test"}  # names of the splits in notes


# ---- gaps


@dataclass(frozen=True)
class Gap:
    """Consecutive missing rows of one series; `first` and `last` are missing too."""

    series: str  # empty if the source has no ids
    first: pd.Timestamp
    last: pd.Timestamp
    rows: int

    def __str__(self) -> str:
        dates = format_date(self.first)
        if self.rows > 1:
            dates += f" to {format_date(self.last)} ({self.rows:,} rows)"
        return f"{self.series} {dates}".strip()


@dataclass(frozen=True)
class Gaps:
    """Gaps of a panel; infinite numbers count as missing."""

    missing_rows: int  # dates between the first and the last row of a series without any value
    stretches: int  # number of runs of consecutive missing rows
    longest: tuple[Gap, ...]  # the longest of these runs
    missing_numbers: int  # missing numbers in the other rows


def runs(mask: Bool[np.ndarray, " rows"]) -> tuple[Int[np.ndarray, " runs"], Int[np.ndarray, " runs"]]:
    """First row and length of each run of rows where `mask` is true."""
    change = np.diff(np.concatenate(([False], mask, [False])).astype(np.int8))
    starts = np.flatnonzero(change == 1)
    return starts, np.flatnonzero(change == -1) - starts


def number_columns(panel: Panel) -> tuple[list[str], Float[np.ndarray, "rows columns"]]:
    """Names and values of targets, past covariates, future covariates, and these as known ahead; those of numbers."""
    values = np.asarray(panel.values) if panel.future is None else np.hstack([panel.values, panel.future])
    names = [*panel.columns, *panel.future_columns]
    kept = [number for number, name in enumerate(names) if name not in panel.texts]
    return [names[number] for number in kept], values if len(kept) == len(names) else values[:, kept]


def find_gaps(panel: Panel) -> Gaps:
    """Count the missing rows and numbers up to the end of each series, and locate the longest runs of missing rows."""
    missing = np.isnan(number_columns(panel)[1])
    is_after_end = np.ones(len(missing), bool)
    is_after_end[ranges(panel.starts, panel.ends)] = False
    missing[is_after_end] = False  # there, only future covariates are known
    missing_rows = missing.all(1)
    # the first and the last row of a series have values, so no run reaches into another series
    starts, lengths = runs(missing_rows)  # type: ignore[reportArgumentType]
    longest = []
    for number in np.argsort(-lengths, kind="stable")[:MAX_NAMED]:
        row, length = int(starts[number]), int(lengths[number])
        first, last = panel.local_dates(np.array([row, row + length - 1]))
        longest.append(Gap(str(panel.ids[panel.series_of(np.array([row]))[0]]), first, last, length))
    return Gaps(
        missing_rows=int(missing_rows.sum()),
        stretches=len(starts),
        longest=tuple(longest),
        missing_numbers=int(missing[~missing_rows].sum()),
    )


# ---- splits


@dataclass(frozen=True)
class SplitPart:
    """One split: the rows first[s] … stop[s] − 1 of each series s of a panel.

    Attributes:
        history: rows of each series before `first`, from which windows of validation and test may take their past.
        has_scale: the series that can be scaled; one without training rows has no windows unless data.scale_by=all.
        begins, ends: the first and the last date of any series.
    """

    name: str
    first: PerSeries
    stop: PerSeries
    history: PerSeries
    has_scale: Bool[np.ndarray, " series"]
    begins: pd.Timestamp
    ends: pd.Timestamp

    @property
    def lengths(self) -> PerSeries:
        return self.stop - self.first

    @property
    def n_rows(self) -> int:
        return int(self.lengths.sum())

    @property
    def typical(self) -> int:
        """The median number of rows of the series that have rows in this split and in training."""
        used = np.sort(self.lengths[self.has_scale & (self.lengths > 0)])
        return int(used[(len(used) - 1) // 2]) if len(used) else 0

    def windows(self, seq_len: int, pred_len: int) -> Int64[np.ndarray, " series"]:
        own = pred_len + np.maximum(0, seq_len - self.history)
        return np.where(self.has_scale, np.maximum(0, self.lengths - own + 1), 0)


def split_parts(panel: Panel, split: Split, scale_by: str = "series") -> list[SplitPart]:
    """Split each series into training, validation and test rows; `scale_by` as in `ScalingOptions`.

    Raises ConfigError: a `split` of one part; DataError: a split without rows.
    """
    rows = split_panel(panel, split, seq_len=1, season=1)
    if set(rows) != {"train", "val", "test"}:
        raise ConfigError(f"data.split={split} is one part: leave it out, or give all three")
    has_scale = (rows["train"][1] > rows["train"][0]) | (scale_by == "all")
    parts = []
    for name, (first, last) in rows.items():
        used = last > first
        if not used.any():
            raise DataError(
                f"{panel.n_rows} rows leave none for the {name} part: give more rows, or another data.split"
            )
        begins, ends = panel.local_dates(first[used]).min(), panel.local_dates(last[used] - 1).max()
        parts.append(SplitPart(name, first, last, first - panel.starts, has_scale, begins, ends))  # type: ignore[reportArgumentType]
    return parts


# ---- columns


@dataclass(frozen=True)
class GrossError:
    """A number that is probably an error; all numbers of its series that are not lie from `low` to `high`."""

    series: str  # empty if the source has no ids
    date: pd.Timestamp
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Column:
    """Facts about a column of all series, in original units; missing numbers do not count.

    Attributes:
        minimum, mean, maximum: NaN for a column without numbers.
        drift: (mean of the test rows − mean of the training rows) / standard deviation of the training rows, the
            median of the series; NaN if the training rows are constant.
        useless: why the column is left out: it is empty or constant, has no number in a split, counts the rows of
            every series, or is a function of a part of the date; empty if it is read.
    """

    name: str
    minimum: float = np.nan
    mean: float = np.nan
    maximum: float = np.nan
    missing: int = 0  # missing numbers in rows that have another number
    drift: float = np.nan
    sentinel: float | None = None  # a number that is probably a code for a missing value; None: there is no such number
    gross_errors: tuple[GrossError, ...] = ()  # numbers far from all others of their series; the first ones
    useless: str = ""

    @property
    def notes(self) -> list[str]:
        """What is unusual, the most serious first."""
        table = [
            (self.useless, self.useless),
            (self.missing, f"{self.missing:,} missing"),
            (self.sentinel is not None, f"{self.sentinel or 0:g} looks like a code for a missing value"),
            (abs(self.drift) >= DRIFT, "large drift"),
        ]
        return [note for applies, note in table if applies]


def measure_columns(panel: Panel, parts: Sequence[SplitPart]) -> list[Column]:
    names, values = number_columns(panel)
    series = [slice(*ends) for ends in zip(panel.starts.tolist(), panel.ends.tolist(), strict=True)]
    found = {find_sentinel(column[rows]) for column in values.T for rows in series}
    codes = sorted(code for code in found if code is not None)
    date_parts = number_date_parts(panel)
    has_row = ~np.isnan(values).all(1)
    rows = ranges(panel.starts, panel.ends)
    columns = []
    for name, column in zip(names, values.T, strict=True):
        known = column[rows][~np.isnan(column[rows])]
        if not len(known):
            columns.append(Column(name, useless="empty"))
            continue
        ends = float(known.min()), float(known.max())
        sentinel = next((code for code in codes if code in ends), None)  # a code of one column is one in all
        of_series = [each for each in (column[part] for part in series) if not np.isnan(each).all()]
        empty_in = [LABELS[part.name] for part in parts if np.isnan(column[ranges(part.first, part.stop)]).all()]
        useless = (
            (all(map(is_counter, of_series)), "counts the rows"),
            (follows_date(column, date_parts), "follows from the date, which the model reads"),
            (empty_in, f"no value in {' and '.join(empty_in)}"),
            (all(np.nanmin(each) == np.nanmax(each) for each in of_series), "constant"),
        )
        columns.append(
            Column(
                name,
                minimum=ends[0],
                mean=float(known.mean()),
                maximum=ends[1],
                missing=int((np.isnan(column) & has_row)[rows].sum()),
                drift=measure_drift(column, parts[0], parts[-1]),
                sentinel=sentinel,
                gross_errors=list_gross_errors(np.where(column == sentinel, np.nan, column), panel),
                useless=next((reason for applies, reason in useless if applies), ""),
            )
        )
    return columns


def measure_drift(column: Float[np.ndarray, " rows"], train: SplitPart, test: SplitPart) -> float:
    drifts = []
    for first, stop, begin, end in zip(train.first, train.stop, test.first, test.stop, strict=True):
        before, after = (rows[~np.isnan(rows)] for rows in (column[first:stop], column[begin:end]))
        if len(before) and len(after) and before.min() < before.max():
            drifts.append((after.mean() - before.mean()) / before.std())
    return float(np.median(drifts)) if drifts else np.nan


def list_gross_errors(column: Float[np.ndarray, " rows"], panel: Panel) -> tuple[GrossError, ...]:
    found = []
    for series, (start, end) in enumerate(zip(panel.starts.tolist(), panel.ends.tolist(), strict=True)):
        low, high, wrong = find_gross_errors(column[start:end])
        if not wrong:
            continue
        rows = start + np.array(wrong, dtype=np.int64)
        for row, date in zip(rows, panel.local_dates(rows), strict=True):
            found.append(GrossError(str(panel.ids[series]), date, float(column[row]), low, high))
    return tuple(found[:MAX_NAMED])


def find_sentinel(values: Float[np.ndarray, " rows"]) -> float | None:
    """The lowest or highest number if it is a probable code for a missing value, such as −9999.

    It must be a whole number other than 0, or have no other digits than 9 (−99.99), that comes at least
    `SENTINEL_COUNT` times, and must lie farther from all other numbers than these lie from each other.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    for extreme in (float(known.min()), float(known.max())):
        rest = known[known != extreme]
        is_code = extreme.is_integer() or {*f"{abs(extreme):g}"} == {"9", "."}
        if extreme == 0 or not is_code or not len(rest) or len(known) - len(rest) < SENTINEL_COUNT:
            continue
        distance = min(abs(extreme - rest.min()), abs(extreme - rest.max()))
        if distance > rest.max() - rest.min() > 0:
            return extreme
    return None


def find_gross_errors(values: Float[np.ndarray, " rows"]) -> tuple[float, float, list[int]]:
    """The rows of at most `MAX_NAMED` numbers that lie far from all others; NaN does not count.

    Returns the range of the other numbers, and the rows.
    """
    rows = np.flatnonzero(~np.isnan(values))
    if len(rows) < MIN_NUMBERS:
        return np.nan, np.nan, []
    known = values[rows]
    distances = np.abs(known - np.median(known))
    far = np.argpartition(-distances, MAX_NAMED)[: MAX_NAMED + 1]
    far = far[np.argsort(-distances[far], kind="stable")]
    for count in range(MAX_NAMED, 0, -1):
        rest = np.delete(known, far[:count])
        low, high = float(rest.min()), float(rest.max())
        distance = np.maximum(low - known[far[:count]], known[far[:count]] - high).min()
        if high > low and distance > MIN_DISTANCE * (high - low):
            return low, high, sorted(rows[far[:count]].tolist())
    return np.nan, np.nan, []


def is_counter(values: Float[np.ndarray, " rows"]) -> bool:
    """Whether each number is the one before plus 1, as in a column of row numbers.

    After a missing row, the number may be larger by up to the number of steps: rows are numbered before or after some
    are left out.
    """
    rows = np.flatnonzero(~np.isnan(values))
    steps, distances = np.diff(values[rows]), np.diff(rows)
    is_next = (steps >= 1) & (steps <= distances) & (steps == np.round(steps))
    return len(rows) >= MIN_COUNTED and bool(is_next.all())


def number_date_parts(panel: Panel) -> list[Int[np.ndarray, " rows"]]:
    """Number the values of each part of the dates of all rows, such as the hour and the weekday, from 0 on."""
    dates, places = panel.utc_offset.shown(panel.grid), panel.places(np.arange(panel.stops[-1]))
    names = ("hour", "minute", "day_of_week", "day", "month", "day_of_year", "year")
    parts = [dates.hour * 60 + dates.minute, *(getattr(dates, name) for name in names)]
    return [np.unique(part, return_inverse=True)[1].astype(np.int32)[places] for part in parts]


def follows_date(column: Float[np.ndarray, " rows"], parts_of_dates: Sequence[Int[np.ndarray, " rows"]]) -> bool:
    """Whether a column is a function of a part of the date that has few values: one for every `REPEATS` rows."""
    known = ~np.isnan(column)
    values = column[known]
    if not len(values) or values.min() == values.max():
        return False
    for part in parts_of_dates:
        groups = part[known]
        value_of_group = np.empty(int(part.max()) + 1)
        value_of_group[groups] = values
        # within one year, a day of the year stands for one day only, and any column of days is a function of it
        comes_again = np.count_nonzero(np.diff(groups)) + 2 >= 2 * len(value_of_group)
        is_part = np.array_equal(values - values.min(), groups - groups.min())
        is_seen = len(value_of_group) * REPEATS <= len(values) and (comes_again or is_part)
        if is_seen and np.array_equal(value_of_group[groups], values):
            return True
    return False


@dataclass(frozen=True)
class CategoryColumn:
    """A column of text: its number of different texts, and its cells: with text, without, and of no training row."""

    name: str
    distinct: int
    filled: int
    missing: int
    unseen: int = 0

    @property
    def note(self) -> str:
        missing = f"; {self.missing:,} missing" if self.missing else ""
        unseen = f"; {self.unseen:,} with a value that no training row has" if self.unseen else ""
        return f"text, {plural(self.distinct, 'value')}{missing}{unseen}"


def measure_categories(panel: Panel, train: SplitPart) -> list[CategoryColumn]:
    """The facts about the covariates that are text; of static ones, a cell is that of a series."""
    found = []
    for block, names in ((panel.values, panel.columns), (panel.future, panel.future_columns)):
        for number, name in enumerate(names):
            if name in panel.texts and block is not None:
                column = np.asarray(block)[:, number]
                codes = column[~np.isnan(column)]  # -1: an empty cell
                filled = codes[codes >= 0]
                unseen = int((~np.isin(filled, column[ranges(train.first, train.stop)])).sum())
                missing = len(codes) - len(filled)
                found.append(CategoryColumn(name, len(np.unique(filled)), len(filled), missing, unseen))
    for name, column in panel.static.items():
        if not pd.api.types.is_numeric_dtype(column.dtype):
            filled = int(column.count())
            found.append(CategoryColumn(str(name), column.nunique(), filled, len(column) - filled))
    return found
