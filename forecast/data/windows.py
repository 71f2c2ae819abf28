"""Windows over one tensor, gathered a batch at a time, and the order in which they are served."""

from collections.abc import Iterator
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
    """Every window of one split: window i's past is rows first_row + i … first_row + i + seq_len − 1.

    All splits share `values` and `time`; nothing is copied before a batch is gathered.
    """

    def __init__(
        self,
        values: Float[Tensor, "rows n_features"],
        time: Float[Tensor, "rows n_time_features"],
        *,
        first_row: int,
        count: int,
        seq_len: int,
        pred_len: int,
        target_index: list[int],
    ) -> None:
        self.values, self.time = values, time
        self.first_row, self.count = first_row, count
        self.seq_len, self.pred_len = seq_len, pred_len
        self.target_index = target_index
        self._pasts = self._slide(values, first_row, seq_len)
        self._past_times = self._slide(time, first_row, seq_len)
        self._futures = self._slide(values, first_row + seq_len, pred_len)
        self._future_times = self._slide(time, first_row + seq_len, pred_len)
        self._all_targets = target_index == list(range(values.shape[1]))
        self._targets = torch.tensor(target_index, device=values.device)

    def _slide(
        self, table: Float[Tensor, "rows columns"], first_row: int, length: int
    ) -> Float[Tensor, "windows length columns"]:
        """A view: row i holds the rows first_row + i … first_row + i + length − 1."""
        rows = table[first_row : first_row + self.count + length - 1]
        return rows.unfold(0, length, 1).transpose(1, 2)

    def __len__(self) -> int:
        return self.count

    @property
    def rows(self) -> Float[Tensor, "rows n_features"]:
        """The rows of the table that these windows cover, pasts and futures."""
        return self.values[self.first_row : self.first_row + self.count + self.seq_len + self.pred_len - 1]

    def gather(self, index: Int64[Tensor, " batch"]) -> Batch:
        """The windows of these numbers, in this order. `index` lies on the device of `values`."""
        future = self._futures.index_select(0, index)
        return Batch(
            past=self._pasts.index_select(0, index),
            past_time=self._past_times.index_select(0, index),
            future=future if self._all_targets else future.index_select(2, self._targets),
            future_time=self._future_times.index_select(0, index),
            index=index,
        )

    def over(
        self, values: Float[Tensor, "rows n_features"], time: Float[Tensor, "rows n_time_features"]
    ) -> "Windows":
        """The same windows over another copy of the table, such as one on a device."""
        return Windows(
            values,
            time,
            first_row=self.first_row,
            count=self.count,
            seq_len=self.seq_len,
            pred_len=self.pred_len,
            target_index=self.target_index,
        )

    def to(self, device: torch.device | str) -> "Windows":
        return self.over(self.values.to(device), self.time.to(device))


class EpochOrder:
    """The order of the windows in one epoch: a function of (seed, epoch) only. Lightning sets the epoch."""

    def __init__(self, count: int, shuffle: bool, seed: int) -> None:
        self.count, self.shuffle, self.seed = count, shuffle, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __call__(self) -> Int64[Tensor, " count"]:
        if not self.shuffle:
            return torch.arange(self.count)
        state = np.random.SeedSequence([self.seed, self.epoch]).generate_state(1)[0]
        return torch.randperm(self.count, generator=torch.Generator().manual_seed(int(state)))


class WindowLoader:
    """Batches of windows, shared out between the processes of a run.

    `batch_size` counts the windows of one batch over all processes: process `rank` gets every `world_size`-th
    of them. All processes serve the same number of batches, so that they stay in step.

    - Training (`shuffle`): the last, shorter batch is cut to a multiple of `world_size`, nothing else.
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
    ) -> None:
        if shuffle and batch_size % world_size:
            raise ConfigError(
                f"data.batch_size={batch_size} must divide by the number of processes, {world_size}"
            )
        self.windows, self.batch_size = windows, batch_size
        self.rank, self.world_size = rank, world_size
        self.sampler = EpochOrder(len(windows), shuffle, seed)
        self._served = len(windows) // world_size * world_size if shuffle else len(windows)
        if self._served == 0:
            raise ConfigError(
                f"{len(windows)} windows cannot be shared between {world_size} processes: use fewer"
            )
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
            yield self.windows.gather(batch[self.rank :: self.world_size])

    def state_dict(self) -> dict[str, Any]:
        return {
            "epoch": self._epoch,
            "batches": self._batches,
            "batch_size": self.batch_size,
            "seed": self.sampler.seed,
            "windows": len(self.windows),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ConfigError where this loader's batches are not those that the state counts."""
        mine = self.state_dict()
        for key in ("batch_size", "seed", "windows"):
            if state[key] != mine[key]:
                raise ConfigError(
                    f"the checkpoint stopped within an epoch of {key}={state[key]}, and this run "
                    f"has {mine[key]}: resume with the same data, batch size and seed"
                )
        self._epoch, self._batches, self._resuming = state["epoch"], state["batches"], True
