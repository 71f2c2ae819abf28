"""Learning-rate schedules as Lightning takes them; each is called with the optimizer and the number of its steps."""

import math
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau


def constant(optimizer: Optimizer, total_steps: int) -> dict[str, Any]:
    """Keep the learning rate constant."""
    return {"scheduler": LambdaLR(optimizer, lambda _: 1.0), "interval": "epoch"}


def halving(optimizer: Optimizer, total_steps: int, *, full_epochs: int = 2) -> dict[str, Any]:
    """Halve the rate after every epoch from `full_epochs` on: `type1` of the Informer code."""
    factor = LambdaLR(optimizer, lambda epoch: 0.5 ** max(0, epoch - full_epochs + 1))
    return {"scheduler": factor, "interval": "epoch"}


def cosine(optimizer: Optimizer, total_steps: int, *, warmup: float = 0.1, final: float = 0.0) -> dict[str, Any]:
    """Rise linearly over the fraction `warmup` of the steps, then fall as a half cosine to `final` times the peak."""
    if not 0 <= warmup < 1:
        raise ValueError(f"schedule.warmup={warmup} must be a fraction of all steps: at least 0 and below 1")
    rising = max(1, round(warmup * total_steps))

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / rising
        done = min(1.0, (step - rising) / max(1, total_steps - rising))
        return final + (1 - final) * (1 + math.cos(math.pi * done)) / 2

    return {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}


def plateau(
    optimizer: Optimizer, total_steps: int, *, patience: int = 1, factor: float = 0.5, monitor: str | None = None
) -> dict[str, Any]:
    """Multiply the rate by `factor` when `monitor` has not improved for more than `patience` epochs.

    Without `monitor`, it is the metric that selects the best epoch (`Forecaster.configure_optimizers`).
    """
    scheduler = ReduceLROnPlateau(optimizer, factor=factor, patience=patience)
    return {"scheduler": scheduler, "interval": "epoch", "monitor": monitor}
