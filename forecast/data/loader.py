"""Batches of windows in the order of an epoch, shared out between processes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from forecast.data.windows import Batch, Windows
from forecast.system.errors import ConfigError
from forecast.system.formatting import plural


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
            raise ConfigError(
                f"{plural(count, 'window')} cannot be shared between {world_size} processes: use fewer processes"
            )
        self._epoch, self._batches, self._resuming = 0, 0, False

    def __len__(self) -> int:
        return -(-self._served // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        # A generator: this runs when the first batch is asked for, and Lightning has set the epoch.
        epoch = self.sampler.epoch
        first = self._batches if self._resuming and self._epoch == epoch else 0
        self._resuming = False
        order = self.sampler()[: self._served].to(self.windows.device)
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
        """Continue an epoch. Raises ConfigError if the batches of this loader are not those that the state counts."""
        mine = self.state_dict()
        for key in ("batch_size", "seed", "windows", "windows_per_epoch"):
            if state[key] != mine[key]:
                raise ConfigError(
                    f"the checkpoint stopped within an epoch of {key}={state[key]}, and this run "
                    f"has {mine[key]}: resume with the same data, batch size and seed"
                )
        self._epoch, self._batches, self._resuming = state["epoch"], state["batches"], True
