"""Windows over one tensor, gathered a batch at a time, and the order in which they are served."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from forecast.errors import ConfigError


class Batch(NamedTuple):
    """Some windows of one split; values are scaled, float32."""

    past: Float[Tensor, "batch seq_len n_features"]
    past_time: Float[Tensor, "batch seq_len n_time_features"]
    future: Float[Tensor, "batch pred_len n_targets"]
    future_time: Float[Tensor, "batch pred_len n_time_features"]
    index: Int64[Tensor, " batch"]  # the window's number within its split


class Windows:
    """The windows of one split, numbered through the series of a table in which they lie one after the other.

    `starts` holds, of each series, the rows at which its windows' pasts begin, with the same step for all. All splits
    share `values` and `time`; nothing is copied before a batch is gathered.
    """

    def __init__(
        self,
        values: Float[Tensor, "rows n_features"],
        time: Float[Tensor, "rows n_time_features"],
        *,
        starts: Sequence[range],
        seq_len: int,
        pred_len: int,
        target_index: list[int],
    ) -> None:
        self.values, self.time = values, time
        self._number(starts, seq_len, pred_len, target_index)
        end = starts[-1].stop + seq_len + pred_len - 1  # what lies behind the last window is out of reach
        self._pasts, self._futures = slide(values[:end], seq_len), slide(values[:end], pred_len)
        self._past_times, self._future_times = slide(time[:end], seq_len), slide(time[:end], pred_len)
        self._all_targets = target_index == list(range(values.shape[1]))
        self._targets = torch.tensor(target_index, device=values.device)

    def _number(self, starts: Sequence[range], seq_len: int, pred_len: int, target_index: list[int]) -> None:
        self.starts, self.seq_len, self.pred_len, self.target_index = starts, seq_len, pred_len, target_index
        device = self.values.device
        counts = torch.tensor([len(rows) for rows in starts], device=device)
        self._ends = counts.cumsum(0)  # window numbers after each series' last
        self.stride = starts[0].step
        # window i of series s begins at row i · stride + _shifts[s]
        firsts = torch.tensor([rows.start for rows in starts], device=device)
        self._shifts = firsts - (self._ends - counts) * self.stride
        self.count = int(self._ends[-1])

    def __len__(self) -> int:
        return self.count

    @property
    def overlap(self) -> int:
        """How many first dates in a row have windows that share a step; those of several series may differ by one."""
        return -(-self.pred_len // (self.stride if len(self.starts) == 1 else 1))

    def series(self, index: Int64[Tensor, " batch"]) -> Int64[Tensor, " batch"]:
        """The number of the series that each of these windows lies in."""
        return torch.bucketize(index, self._ends, right=True)

    def origins(self, index: Int64[Tensor, " batch"]) -> Int64[Tensor, " batch"]:
        """The table's row that each of these windows first forecasts."""
        shifts = self._shifts if len(self.starts) == 1 else self._shifts[self.series(index)]
        return index * self.stride + shifts + self.seq_len

    def covered(self) -> list[Float[Tensor, "rows n_features"]]:
        """Of each series, the rows of the table that its windows cover, pasts and futures."""
        width = self.seq_len + self.pred_len
        return [self.values[rows.start : rows.stop + width - 1] for rows in self.starts if rows]

    def gather(self, index: Int64[Tensor, " batch"]) -> Batch:
        """The windows of these numbers, in this order. `index` lies on the device of `values`."""
        origins = self.origins(index)
        future = self._futures.index_select(0, origins)
        return Batch(
            past=self._pasts.index_select(0, origins - self.seq_len),
            past_time=self._past_times.index_select(0, origins - self.seq_len),
            future=future if self._all_targets else future.index_select(2, self._targets),
            future_time=self._future_times.index_select(0, origins),
            index=index,
        )

    def over(
        self, values: Float[Tensor, "rows n_features"], time: Float[Tensor, "rows n_time_features"]
    ) -> "Windows":
        """The same windows over another copy of the table, such as one on a device."""
        return Windows(
            values,
            time,
            starts=self.starts,
            seq_len=self.seq_len,
            pred_len=self.pred_len,
            target_index=self.target_index,
        )

    def to(self, device: torch.device | str) -> "Windows":
        return self.over(self.values.to(device), self.time.to(device))


def slide(table: Float[Tensor, "rows columns"], length: int) -> Float[Tensor, "starts length columns"]:
    """A view: entry i holds the rows i … i + length − 1."""
    return table.unfold(0, length, 1).transpose(1, 2)


class EpochOrder:
    """The order of the windows in one epoch: a function of (seed, epoch) only. Lightning sets the epoch.

    Shuffled and with fewer than all windows `per_epoch`, each epoch samples that many anew, none of them twice.
    """

    def __init__(self, count: int, shuffle: bool, seed: int, per_epoch: int | None = None) -> None:
        self.count, self.shuffle, self.seed = count, shuffle, seed
        self.per_epoch = min(per_epoch or count, count)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __call__(self) -> Int64[Tensor, " per_epoch"]:
        if not self.shuffle:
            return torch.arange(self.count)
        sequence = np.random.SeedSequence([self.seed, self.epoch])
        if self.per_epoch < self.count:
            sampled = np.random.default_rng(sequence).choice(self.count, self.per_epoch, replace=False)
            return torch.from_numpy(sampled)
        state = sequence.generate_state(1)[0]
        return torch.randperm(self.count, generator=torch.Generator().manual_seed(int(state)))


class WindowLoader:
    """Batches of windows, shared out between the processes of a run.

    `batch_size` counts the windows of one batch over all processes: process `rank` gets every `world_size`-th
    of them. All processes serve the same number of batches, so that they stay in step.

    - Training (`shuffle`): `per_epoch` windows, default all, sampled anew each epoch; the last, shorter batch is cut to
      a multiple of `world_size`, nothing else.
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
        if shuffle and batch_size % world_size:
            raise ConfigError(
                f"data.batch_size={batch_size} must divide by the number of processes, {world_size}"
            )
        self.windows, self.batch_size = windows, batch_size
        self.rank, self.world_size = rank, world_size
        self.sampler = EpochOrder(len(windows), shuffle, seed, per_epoch)
        count = self.sampler.per_epoch
        self._served = count // world_size * world_size if shuffle else count
        if self._served == 0:
            raise ConfigError(f"{count} windows cannot be shared between {world_size} processes: use fewer")
        self._epoch, self._batches, self._resuming = 0, 0, False

    def __len__(self) -> int:
        return -(-self._served // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        # A generator: this runs when the first batch is asked for, and Lightning has set the epoch.
        epoch = self.sampler.epoch
        first = self._batches if self._resuming and self._epoch == epoch else 0
        self._resuming = False
        order = self.sampler()[: self._served].to(self.windows.values.device)
        for number in range(first, len(self)):
            self._epoch, self._batches = epoch, number + 1
            batch = order[number * self.batch_size : (number + 1) * self.batch_size]
            yield self.windows.gather(batch[self.rank :: self.world_size].contiguous())

    def state_dict(self) -> dict[str, Any]:
        return {
            "epoch": self._epoch,
            "batches": self._batches,
            "batch_size": self.batch_size,
            "seed": self.sampler.seed,
            "windows": len(self.windows),
            "windows_per_epoch": self.sampler.per_epoch,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ConfigError where this loader's batches are not those that the state counts."""
        mine = self.state_dict()
        for key in ("batch_size", "seed", "windows", "windows_per_epoch"):
            if state[key] != mine[key]:
                raise ConfigError(
                    f"the checkpoint stopped within an epoch of {key}={state[key]}, and this run "
                    f"has {mine[key]}: resume with the same data, batch size and seed"
                )
        self._epoch, self._batches, self._resuming = state["epoch"], state["batches"], True
