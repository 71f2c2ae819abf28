"""Learning-rate schedules in the form Lightning takes; each is called with the optimizer and the steps to come."""

import math
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau


def constant(optimizer: Optimizer, total_steps: int) -> dict[str, Any]:
    """The learning rate stays."""
    return {"scheduler": LambdaLR(optimizer, lambda _: 1.0), "interval": "epoch"}


def halving(optimizer: Optimizer, total_steps: int, *, full_epochs: int = 2) -> dict[str, Any]:
    """Halve after every epoch once `full_epochs` are over: the Informer paper's `type1`."""
    factor = LambdaLR(optimizer, lambda epoch: 0.5 ** max(0, epoch - full_epochs + 1))
    return {"scheduler": factor, "interval": "epoch"}


def cosine(
    optimizer: Optimizer, total_steps: int, *, warmup: float = 0.1, final: float = 0.0
) -> dict[str, Any]:
    """Rise linearly over the `warmup` share of the steps, then fall along a half cosine to `final` of the peak."""
    if not 0 <= warmup < 1:
        raise ValueError(f"schedule.warmup={warmup} is a share of all steps: at least 0 and below 1")
    rising = max(1, round(warmup * total_steps))

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / rising
        done = min(1.0, (step - rising) / max(1, total_steps - rising))
        return final + (1 - final) * (1 + math.cos(math.pi * done)) / 2

    return {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}


def plateau(
    optimizer: Optimizer,
    total_steps: int,
    *,
    patience: int = 1,
    factor: float = 0.5,
    monitor: str = "val/mse",
) -> dict[str, Any]:
    """Multiply by `factor` when `monitor` has not improved for more than `patience` epochs."""
    scheduler = ReduceLROnPlateau(optimizer, factor=factor, patience=patience)
    return {"scheduler": scheduler, "interval": "epoch", "monitor": monitor}
