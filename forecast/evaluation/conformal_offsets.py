"""Offsets of conformal intervals: of each step of the horizon, and pooled over the steps.

The offset of a step is a quantile of the errors of one step of the horizon and one variable: of m sorted errors number
⌈(m + 1)τ⌉ for τ ≥ ½ and number ⌊(m + 1)τ⌋ for τ < ½. This rounding away from the median is that of split conformal
prediction (Papadopoulos et al. 2002).

A few overlapping windows are too little data to estimate a quantile for each step. The pooled offset uses the errors of
all steps of a variable: it is a factor times s, where s is the root mean square of the errors of the step (Lei et al.
2018, locally weighted conformal inference). The factor is

    √p · (quantile of |error| / s, with both signs) + (1 − √p) · quantile of error / s

p is the p-value of the hypothesis that errors are as often positive as negative, in a Diebold-Mariano test of the mean
sign of each window. It is at least 2¹⁻ⁿ, the p-value of n equal signs, where n is the number of horizons in the
validation rows. A bias or a skew that a few windows do not prove is thus only a part of the interval.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from forecast.evaluation.significance import diebold_mariano

MAX_POOLED = 1 << 20
"""Largest number of errors that are pooled. If there are more, windows are drawn."""


def step_offsets(
    errors: Float[Tensor, "windows steps n_targets"], at: Sequence[float]
) -> Float[Tensor, "quantiles steps n_targets"]:
    """The quantiles of the errors of each step and variable, moved outwards by one rank."""
    count = errors.isfinite().sum(0)  # (steps, n_targets)
    # NaN last; NumPy sorts ten times faster than torch.sort
    ordered = torch.from_numpy(np.sort(errors.movedim(0, -1).contiguous().numpy(), axis=-1))
    ranks = torch.stack([
        (torch.floor if p < 0.5 else torch.ceil)(((count + 1).double() * p).round(decimals=6)) for p in at
    ])  # fmt: skip
    index = ranks.long().clamp(min=1).minimum(count.clamp(min=1)) - 1
    return ordered.gather(-1, index.movedim(0, -1)).movedim(-1, 0)


def pooled_offsets(
    errors: Float[Tensor, "windows steps n_targets"], at: Sequence[float], horizons: int | float
) -> Float[Tensor, "quantiles steps n_targets"]:
    """Offsets from the errors of all steps of a variable, each relative to the errors of its step.

    A step whose errors are all zero has offsets of zero, and does not count in the quantiles.
    """
    scale = errors.square().nanmean(0).sqrt()  # (steps, n_targets)
    relative, probability = errors / scale, np.array(at)
    drawn = torch.randperm(len(errors), generator=torch.Generator().manual_seed(0))
    drawn = drawn[: max(1, MAX_POOLED // scale.numel())]
    factors = np.zeros((len(at), scale.shape[1]))
    for target, each in enumerate(relative.unbind(2)):
        share = math.sqrt(p_of_equal_signs(each, horizons))
        pool = each[drawn] if len(drawn) < len(each) else each
        values = pool[pool.isfinite()].numpy()
        if len(values):
            symmetric = np.quantile(np.abs(values), np.abs(2 * probability - 1)) * np.sign(probability - 0.5)
            factors[:, target] = share * symmetric + (1 - share) * np.quantile(values, probability)
    return torch.from_numpy(factors).float()[:, None] * scale


def p_of_equal_signs(errors: Float[Tensor, "windows steps"], horizons: int | float) -> float:
    """The p-value of the hypothesis that errors are as often positive as negative; 1 where there is no test.

    Args:
        errors: of windows in the order of time; those of many series one after the other, as if they were independent.
        horizons: number of horizons that the rows of the windows hold.
    """
    signs = errors.sign().nanmean(1)
    signs = signs[signs.isfinite()].double().numpy()
    if horizons <= 1 or not len(signs):
        return 1.0
    overlap = math.ceil((len(errors) - 1) / (horizons - 1))  # windows after which two have no step in common
    p_value = diebold_mariano(signs, np.zeros_like(signs), max(1, overlap)).p_value
    return 1.0 if math.isnan(p_value) else max(p_value, 2 ** (1 - horizons))
