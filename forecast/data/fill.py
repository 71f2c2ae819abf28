"""Completion of the past of a window, in which values may be missing, for models that need every number.

Only values of the window itself are used, so nothing after the forecast origin is read. Missing values stay missing in
the truth: they are never scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from forecast.data.row_ranges import PerSeries

SEASONS_BACK = 7
"""Number of seasons before and after a gap in which `seasonal` looks for a value of the same phase."""


@dataclass(frozen=True)
class Fill:
    """A rule that fills missing values in the past of a window.

    auto      linear in gaps of at most a quarter of a season; at an end of the window, the nearest measured value plus
              the change from its row to this one in another season. Seasonal in longer gaps
    linear    on the line between the values before and after a gap
    previous  the last value before the gap
    seasonal  the last value of the same phase of the season before the gap, else the first one after it
    zero      zero, in original units
    none      the mean of the window

    A value that the method does not give, such as one after the last measured value of the window for `linear`, is
    taken from `previous`, and one before the first measured value from `none`. The mean of a window without any value
    is 0 after scaling, the center of its series.

    Attributes:
        methods: of each column of the window.
        season: rows of a season.
        limit: rows after the last measured value from which on the mean of the window is used. None: no limit.
        zero: zero in scaled units (series, columns).
    """

    methods: tuple[str, ...]
    season: int
    limit: int | None
    zero: Float[Tensor, "series columns"]

    def to(self, device: torch.device | str) -> "Fill":
        return Fill(self.methods, self.season, self.limit, self.zero.to(device))

    def select(self, columns: Sequence[int]) -> "Fill":
        """The rule of some columns of the window."""
        methods = tuple(self.methods[column] for column in columns)
        return Fill(methods, self.season, self.limit, self.zero[:, columns])

    def complete(
        self, past: Float[Tensor, "batch length columns"], series: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch length columns"]:
        """Replace NaN in scaled windows; `series[i]` is the series of window i."""
        missing = past.isnan()
        if not missing.any():
            return past
        mean = past.nanmean(1, keepdim=True).nan_to_num(0.0)
        completed = torch.where(missing, mean, past)
        window, column = missing.any(1).nonzero(as_tuple=True)  # the pairs with a gap
        gaps = Gaps.find(past[window, :, column])
        for method in dict.fromkeys(self.methods):
            if method == "none":
                continue
            is_method = torch.tensor([name == method for name in self.methods], device=past.device)[column]
            some = gaps.select(is_method[gaps.row])
            windows, columns = window[some.row], column[some.row]
            if method == "zero":
                found = self.zero[series[windows], columns].to(past)
            else:
                found = self._interpolate(some, method)
            usable = ~found.isnan()
            completed[windows[usable], some.step[usable], columns[usable]] = found[usable]
        return completed

    def _interpolate(self, gaps: "Gaps", method: str) -> Float[Tensor, " missing"]:
        """The values that a method gives for missing ones; NaN where it gives none."""
        previous = gaps.read(gaps.before)
        if method == "previous":
            found = previous
        else:
            following = gaps.read(gaps.after)
            weight = (gaps.step - gaps.before).to(previous) / (gaps.after - gaps.before)
            line = previous + (following - previous) * weight
            found = line if method == "linear" else self._same_phase(gaps)
            if method == "auto":
                is_short = gaps.after - gaps.before - 1 <= self.season // 4
                at_end = self._same_phase(gaps, torch.where(gaps.before >= 0, gaps.before, gaps.after))
                short = torch.where(line.isnan(), at_end, line)
                found = torch.where(is_short & ~short.isnan(), short, found)
            found = torch.where(found.isnan(), previous, found)
        if self.limit is not None:
            is_far = (gaps.before >= 0) & (gaps.step - gaps.before > self.limit)
            found = torch.where(is_far, torch.nan, found)
        return found

    def _same_phase(
        self, gaps: "Gaps", near: Int64[Tensor, " missing"] | None = None
    ) -> Float[Tensor, " missing"]:
        """The last measured value whole seasons before each missing one, else the first after it; NaN if there is none.

        With `near`, a measured step for each missing one: its value plus the change from it in that season.
        """
        found = gaps.rows.new_full(gaps.step.shape, torch.nan)
        seasons = range(1, SEASONS_BACK + 1)
        for number in (*(-n for n in seasons), *seasons):
            shift = number * self.season
            value = gaps.read(gaps.step + shift)
            if near is not None:
                value = gaps.read(near) + value - gaps.read(near + shift)
            found = torch.where(found.isnan(), value, found)
        return found


@dataclass(frozen=True)
class Gaps:
    """The missing values of some rows, each a column of a window, and the measured values around them.

    Attributes:
        rows: the values, with gaps.
        row, step: of each missing value.
        before, after: step of the last measured value before it (−1: none) and of the first one after it (length:
            none).
    """

    rows: Float[Tensor, "rows length"]
    row: Int64[Tensor, " missing"]
    step: Int64[Tensor, " missing"]
    before: Int64[Tensor, " missing"]
    after: Int64[Tensor, " missing"]

    @classmethod
    def find(cls, rows: Float[Tensor, "rows length"]) -> "Gaps":
        missing, length = rows.isnan(), rows.shape[1]
        step = torch.arange(length, dtype=torch.int32, device=rows.device)
        before = torch.where(missing, -1, step).cummax(1).values
        after = torch.where(missing, length, step).flip(1).cummin(1).values.flip(1)
        row, at = missing.nonzero(as_tuple=True)
        return cls(rows, row, at, before[row, at].long(), after[row, at].long())

    def select(self, chosen: Bool[Tensor, " missing"]) -> "Gaps":
        """Some of the missing values."""
        parts = (self.row, self.step, self.before, self.after)
        return Gaps(self.rows, *(part[chosen] for part in parts))

    def read(self, steps: Int64[Tensor, " missing"]) -> Float[Tensor, " missing"]:
        """The value of the row of each missing value at another step; NaN outside of the window."""
        length = self.rows.shape[1]
        values = self.rows[self.row, steps.clamp(0, length - 1)]
        return torch.where((steps < 0) | (steps >= length), torch.nan, values)


def carry_forward(
    values: Float[Tensor, "rows columns"], starts: PerSeries, stops: PerSeries
) -> Float[Tensor, "rows columns"]:
    """Replace NaN by the value above it in its series, or by 0, the center after scaling."""
    missing = values.isnan().numpy()
    if not missing.any():
        return values
    own = np.repeat(starts, stops - starts)[:, None]
    source = np.maximum.accumulate(np.where(missing, own, np.arange(len(values))[:, None]), axis=0)
    return values.gather(0, torch.from_numpy(source)).nan_to_num(0.0)
