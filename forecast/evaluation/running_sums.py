"""Sums over batches of windows, added up over the processes of a run."""

from typing import TypeVar

import torch
from torch import Tensor

from forecast.models.norm import sum_over_processes

AnySums = TypeVar("AnySums", bound="RunningSums")


class RunningSums:
    """Tensors by name, to which each process adds its batches."""

    def __init__(self, **zeros: Tensor) -> None:
        self.sums = zeros

    @property
    def device(self) -> torch.device:
        return next(iter(self.sums.values())).device

    def to(self: AnySums, device: torch.device | str) -> AnySums:
        self.sums = {name: sums.to(device) for name, sums in self.sums.items()}
        return self

    def totals(self) -> dict[str, Tensor]:
        """The sums over all processes, on the CPU. Every process must call this."""
        return {name: sum_over_processes(sums).cpu() for name, sums in self.sums.items()}
