"""`data.transform=auto`: the transform of each target, chosen by the validation error of the linear baseline."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from omegaconf import DictConfig

from forecast.data import DataModule
from forecast.data.scaling.domain import ASINH, AUTO, LOG1P, NONE
from forecast.evaluation.baselines import FittedBaselines, Linear, thin_validation
from forecast.evaluation.measurement import score_windows
from forecast.system.formatting import shorten

MARGIN = 0.03
"""Relative reduction of the error that a transform needs. `asinh` lowers the error of normal values by up to 2%, for it
moves forecasts towards the mean."""


@dataclass(frozen=True)
class ChosenTransforms:
    """The transform of each target by name, and its error relative to that without a transform."""

    kinds: dict[str, str]
    relative_errors: dict[str, float]
    error: str

    def describe(self) -> str:
        """The choice in a line for the terminal."""
        changed = [name for name, kind in self.kinds.items() if kind != NONE]
        if not changed:
            error = f"the validation {self.error} of the linear baseline"
            return f"transform  none: no other one lowers {error} by {MARGIN:.0%}"
        parts = [f"{name} {self.kinds[name]} ({self.relative_errors[name] - 1:+.1%})" for name in changed]
        return f"transform  {shorten(parts)}: validation {self.error} of the linear baseline"


def resolve_transform(
    config: DictConfig, data: DataModule, checkpoint: dict[str, Any] | None
) -> ChosenTransforms | None:
    """Replace `data.transform=auto` in `config` and in `data`, whose rows are read, by the transforms of the targets.

    With the content of a checkpoint, they are those of its run.

    Returns:
        The choice; None if nothing was chosen.
    """
    if data.options.transform != AUTO:
        return None
    if checkpoint is not None:
        chosen, transform = None, checkpoint["hyper_parameters"]["data"]["transform"]
    else:
        chosen = choose_transforms(data, config.loss)
        transform = {name: kind for name, kind in chosen.kinds.items() if kind != NONE} or None
    config.data.transform = transform
    data.set_transform(transform)
    return chosen


def choose_transforms(data: DataModule, loss: str) -> ChosenTransforms:
    """Choose the transform of each target: none, `asinh`, or `log1p` if its lower bound is at least 0.

    The error in original units, divided by the scale of the series, decides: the root mean squared error for
    `loss=mse`, otherwise the mean absolute error. Each target is forecast from its own past and the future covariates,
    because the weights of a linear model of all columns depend on all their transforms.
    """
    error = "RMSE" if loss == "mse" else "MAE"
    plain = data.with_transform(None)
    kinds, relative = {}, {}
    for name, lower in zip(plain.target_columns, plain.target_scaler.domain.lower, strict=True):
        errors = {
            kind: linear_error(data.with_transform({name: kind}, target=name), loss)
            for kind in (NONE, ASINH, *([LOG1P] if lower >= 0 else []))
        }
        best = min(errors, key=errors.__getitem__)
        kinds[name] = best if errors[best] < (1 - MARGIN) * errors[NONE] else NONE
        relative[name] = errors[kinds[name]] / errors[NONE] if errors[NONE] > 0 else 1.0
    return ChosenTransforms(kinds, relative, error)


def linear_error(data: DataModule, loss: str) -> float:
    """The error of the linear baseline on validation windows: RMSE for `loss=mse`, otherwise MAE.

    Args:
        data: has one target.
        loss: the loss of training.
    """
    fitted, windows = FittedBaselines.fit(data), data.windows["val"]
    linear = Linear(fitted.linear)
    stride = thin_validation(data, data.season)
    scores = score_windows({"linear": partial(linear, windows)}, data, fitted, "val", stride=stride)["linear"]
    return math.sqrt(scores["mse"]) if loss == "mse" else scores["mae"]
