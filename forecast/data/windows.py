"""Windows of a panel: their gathering in batches, completed, in the order of an epoch, shared between processes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from forecast.data.panel import Panel
from forecast.data.source import check_batch_size
from forecast.data.step_features import Index, Rows, StepFeatures
from forecast.system.errors import ConfigError
from forecast.system.formatting import plural

SEASONS_BACK = 7  # number of seasons before and after a gap in which `seasonal` looks for a value of the same phase


Past = Float[Tensor, "batch length columns"]
Steps = Int64[Tensor, " missing"]  # a step of the window of each missing value


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

    `limit`: rows after the last measured value from which on the mean of the window is used. None: no limit.
    """

    methods: tuple[str, ...]  # of each column of the window
    season: int  # rows of a season
    limit: int | None
    zero: Float[Tensor, "series columns"]  # zero in scaled units (series, columns)

    def to(self, device: torch.device | str) -> "Fill":
        return Fill(self.methods, self.season, self.limit, self.zero.to(device))

    def complete(self, past: Past, series: Index) -> Past:
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

    def _same_phase(self, gaps: "Gaps", near: Steps | None = None) -> Float[Tensor, " missing"]:
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
        row, step: of each missing value.
        before, after: step of the last measured value before it (−1: none) and of the first one after it (length:
            none).
    """

    rows: Float[Tensor, "rows length"]  # the values, with gaps
    row: Int64[Tensor, " missing"]
    step: Steps
    before: Steps
    after: Steps

    @classmethod
    def find(cls, rows: Float[Tensor, "rows length"]) -> "Gaps":
        missing, length = rows.isnan(), rows.shape[1]
        step = torch.arange(length, dtype=torch.int32, device=rows.device)
        before = torch.where(missing, -1, step).cummax(1).values
        after = torch.where(missing, length, step).flip(1).cummin(1).values.flip(1)
        row, at = missing.nonzero(as_tuple=True)
        return cls(rows, row, at, before[row, at].long(), after[row, at].long())

    def select(self, chosen: Bool[Tensor, " missing"]) -> "Gaps":
        return Gaps(self.rows, *(part[chosen] for part in (self.row, self.step, self.before, self.after)))

    def read(self, steps: Steps) -> Float[Tensor, " missing"]:
        """The value of the row of each missing value at another step; NaN outside of the window."""
        length = self.rows.shape[1]
        values = self.rows[self.row, steps.clamp(0, length - 1)]
        return torch.where((steps < 0) | (steps >= length), torch.nan, values)


class Batch(NamedTuple):
    """Some windows of one split: scaled values, float32. Missing ones are completed in `past`, NaN in `future`."""

    past: Float[Tensor, "batch seq_len n_features"]
    past_time: Float[Tensor, "batch seq_len n_time_features"]
    future: Float[Tensor, "batch pred_len n_targets"]
    future_time: Float[Tensor, "batch pred_len n_time_features"]
    index: Index  # number of the window within its split
    series: Index  # number of the series that the window lies in


@dataclass(eq=False)
class Windows:
    """The windows of one split, numbered consecutively across series.

    All splits share `values` and `time`; nothing is copied before a batch is gathered.

    `seq_len`, `pred_len`: rows of the past and of the future of a window.
    """

    values: Rows  # scaled rows of the panel (rows, n_features), NaN where missing
    time: StepFeatures  # calendar features, future covariates and static features of the rows
    _: KW_ONLY
    starts: Sequence[range]  # for each series, the first rows of its windows; all ranges have the same step
    first_rows: Int64[Tensor, " series"]  # first row of each series (series,); nothing before it may be read
    seq_len: int
    pred_len: int
    target_index: list[int]  # columns of `values` that are forecast
    fill: Fill | None = None  # how missing values of the past are completed; None: no value is missing

    def __post_init__(self) -> None:
        device = self.device
        self.first_rows, self.fill = self.first_rows.to(device), self.fill and self.fill.to(device)
        self.stride = self.starts[0].step
        counts = torch.tensor([len(rows) for rows in self.starts], device=device)
        self._ends = counts.cumsum(0)  # number of the window after the last one of each series
        # window i of series s begins at row i · stride + _shifts[s]
        firsts = torch.tensor([rows.start for rows in self.starts], device=device)
        self._shifts = firsts - (self._ends - counts) * self.stride
        self.count = int(self._ends[-1])
        self._has_all_columns = self.target_index == list(range(self.values.n_columns))
        self._target_columns = torch.tensor(self.target_index, device=device)

    def __len__(self) -> int:
        return self.count

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def overlap(self) -> int:
        """Number of consecutive dates whose windows share a step; series may be shifted against each other by one."""
        return -(-self.pred_len // (self.stride if len(self.starts) == 1 else 1))

    def count_horizons(self, every: int | float = 1, pred_len: int | None = None) -> float:
        """Count the horizons that the rows of every n-th window hold: one in each series, and one for each `pred_len`
        further rows, but at most one for each of these windows."""
        spacing = min(1, self.stride * every / (pred_len or self.pred_len))
        counts = [len(rows) for rows in self.starts if len(rows)]
        further = (sum(counts) - len(counts)) / every
        return float(min(len(counts) + further * spacing, math.ceil(sum(counts) / every)))

    def align(self, index: Index) -> Int64[Tensor, "series dates"]:
        """The places in `index`, which ascends, of the windows of each series on the dates that every series has."""
        dates = self.origins(index) + self.time.shifts[self.series(index)]
        _, number, counts = dates.unique(return_inverse=True, return_counts=True)
        return (counts[number] == len(self.starts)).nonzero().view(len(self.starts), -1)

    def series(self, index: Index) -> Index:
        return torch.bucketize(index, self._ends, right=True)

    def origins(self, index: Index) -> Index:
        """The first row that each window forecasts."""
        return index * self.stride + self._shifts[self.series(index)] + self.seq_len

    def locate(self, panel: Panel, index: Index | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the first date that each window forecasts, and the number of its series; None: all windows."""
        index = torch.arange(len(self), device=self.device) if index is None else index
        return panel.dates(self.origins(index).cpu().numpy()).to_numpy(), self.series(index).cpu().numpy()

    def gather(self, index: Index) -> Batch:
        """The windows with these numbers, in this order. `index` lies on the device of the windows."""
        future = self.values.windows(self.origins(index), self.pred_len)
        if not self._has_all_columns:
            future = future.index_select(2, self._target_columns)
        return self.gather_past(index)._replace(future=future)

    def gather_past(self, index: Index) -> Batch:
        """The windows with these numbers, with NaN for `future`, whose rows may lie after the end of the panel."""
        series, origins = self.series(index), self.origins(index)
        first = origins - self.seq_len
        past = read_past(self.values, self.fill, first, self.seq_len, series)
        return Batch(
            past=past,
            past_time=self.time.past(first, self.seq_len, series),
            future=past.new_full((len(index), self.pred_len, len(self.target_index)), torch.nan),
            future_time=self.time.ahead(origins, self.pred_len, series),
            index=index,
            series=series,
        )

    def measured(self, index: Index) -> Bool[Tensor, "batch seq_len n_features"]:
        """Whether the values in the pasts of these windows were measured, not completed."""
        return ~self.values.windows(self.origins(index) - self.seq_len, self.seq_len).isnan()

    def targets(self, rows: Int64[Tensor, "*shape"] | slice) -> Float[Tensor, "*shape n_targets"]:
        """The scaled targets of these rows of the panel, NaN where missing."""
        return self.values[rows][..., self.target_index]

    def with_starts(self, starts: Sequence[range], *, pred_len: int | None = None) -> "Windows":
        """Windows of the same rows that begin at other rows; `pred_len` may be longer or shorter."""
        return replace(self, starts=starts, pred_len=pred_len or self.pred_len)

    def to(self, device: torch.device | str) -> "Windows":
        """The same windows of a copy of the rows on another device."""
        return self.with_rows(self.values.to(device), self.time.to(device))

    def with_rows(self, values: Rows, time: StepFeatures) -> "Windows":
        """The same windows of a copy of the rows."""
        return replace(self, values=values, time=time)


def read_past(values: Rows, fill: Fill | None, first: Index, length: int, series: Index) -> Past:
    """Windows of `length` rows before a forecast, with missing values completed."""
    past = values.windows(first, length)
    return past if fill is None else fill.complete(past, series)


class WindowLoader:
    """Batches of windows, shared out between the processes of a run.

    `batch_size` counts the windows of one batch over all processes: process `rank` gets every `world_size`-th
    of them. All processes serve the same number of batches, so that they stay in step.

    - Training (`shuffle`): `per_epoch` windows, default all, none of them twice. Their order is a function of `seed`
      and the epoch only, which Lightning sets. The last, shorter batch is cut to a multiple of `world_size`.
    - Evaluation: every window is served once over all processes. Where the last batch has fewer windows than
      there are processes, the processes left over get a batch of no windows.

    `state_dict` holds the place within the epoch; after `load_state_dict` the next pass over that epoch
    serves the remaining batches. Lightning keeps it in its checkpoints.
    """

    batch_sampler = None  # Lightning asks for it where a loader has a sampler

    def __init__(
        self,
        windows: Windows,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        per_epoch: int | None = None,
    ) -> None:
        if shuffle:
            check_batch_size(batch_size, world_size)
        self.windows, self.batch_size = windows, batch_size
        self.rank, self.world_size = rank, world_size
        self.shuffle, self.seed, self.epoch = shuffle, seed, 0
        self.per_epoch = count = min(per_epoch or len(windows), len(windows))
        self._served = count // world_size * world_size if shuffle else count
        if self._served == 0:
            shared = f"{plural(count, 'window')} cannot be shared between {world_size} processes"
            raise ConfigError(f"{shared}: use fewer processes")
        self._epoch, self._batches, self._resuming = 0, 0, False

    @property
    def sampler(self) -> "WindowLoader":
        """The object whose epoch Lightning sets."""
        return self

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def _order(self) -> Int64[Tensor, " per_epoch"]:
        """The numbers of the windows of the epoch."""
        count = len(self.windows)
        if not self.shuffle:
            return torch.arange(count)
        sequence = np.random.SeedSequence([self.seed, self.epoch])
        if self.per_epoch < count:
            drawn = np.random.default_rng(sequence).choice(count, self.per_epoch, replace=False)
            return torch.from_numpy(drawn)
        seed = int(sequence.generate_state(1)[0])
        return torch.randperm(count, generator=torch.Generator().manual_seed(seed))

    def __len__(self) -> int:
        return -(-self._served // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        # A generator: this runs when the first batch is asked for, and Lightning has set the epoch.
        epoch = self.epoch
        first = self._batches if self._resuming and self._epoch == epoch else 0
        self._resuming = False
        order = self._order()[: self._served].to(self.windows.device)
        for number in range(first, len(self)):
            self._epoch, self._batches = epoch, number + 1
            batch = order[number * self.batch_size : (number + 1) * self.batch_size]
            yield self.windows.gather(batch[self.rank :: self.world_size].contiguous())

    def state_dict(self) -> dict[str, Any]:
        return {
            "epoch": self._epoch,
            "batches": self._batches,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "windows": len(self.windows),
            "windows_per_epoch": self.per_epoch,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue an epoch. Raises ConfigError if the batches of this loader are not those that the state counts."""
        mine = self.state_dict()
        for key in ("batch_size", "seed", "windows", "windows_per_epoch"):
            if state[key] != mine[key]:
                stopped = f"the checkpoint stopped within an epoch of {key}={state[key]}, and this run has {mine[key]}"
                raise ConfigError(f"{stopped}: resume with the same data, batch size and seed")
        self._epoch, self._batches, self._resuming = state["epoch"], state["batches"], True
