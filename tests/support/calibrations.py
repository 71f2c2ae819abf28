from collections.abc import Sequence

import torch
from torch import Tensor

from forecast.evaluation.conformal import Calibration


def calibrate_errors(errors: Tensor, levels: Sequence[float] = (), *, horizons: float) -> Calibration:
    """The calibration of forecasts that are all zero, whose factors are one."""
    return Calibration.fit(torch.zeros_like(errors), errors, levels, horizons=horizons)
