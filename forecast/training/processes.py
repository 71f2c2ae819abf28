"""Messages between the processes of one run."""

from typing import Any

import lightning as L
import torch.distributed as dist


def gather(trainer: L.Trainer, value: Any) -> list[Any]:
    """Return the values of all processes, by rank; tensors should be on the CPU."""
    if trainer.world_size == 1:
        return [value]
    gathered: list[Any] = [None] * trainer.world_size
    dist.all_gather_object(gathered, value)
    return gathered
