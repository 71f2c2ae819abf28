"""Conformal intervals that follow drift: each offset is updated with the errors of earlier forecasts.

The offset q of probability τ begins at its value of the calibration. With each error e = truth − forecast that becomes
known, it moves by η · (τ − 1[e ≤ q]): down where the error lies at or below it, up where the error lies above. This is
online gradient descent on the pinball loss, the quantile tracker of Angelopoulos, Candès and Tibshirani 2023. Over T
updates, the share of errors at or below their offset differs from τ by |last − first offset| / (η · T), whatever the
errors are. No distribution is assumed, and drift is allowed.

The error of step h (0: the first) is known h + 1 rows after the origin of its forecast. The offsets of a forecast thus
use the errors of forecasts that began at least h + 1 rows earlier.
"""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from forecast.evaluation.backtest import Origins, PerOrigin
from forecast.evaluation.conformal import Calibration

RATE, MAX_RATE = 0.002, 0.1
"""Step size for each row between two forecasts, as a share of the width of the calibrated 80% interval; largest step.

Chosen on validation rows, see docs/intervals.md."""

SERIES_AT_ONCE = 256
"""Number of series whose intervals are adapted at once."""


def adapt(
    calibration: Calibration, errors: Float[Tensor, "series origins steps n_targets"], stride: int
) -> Iterator[Float[Tensor, "series quantiles steps n_targets"]]:
    """Yield the offsets at each origin, in the order of time, and last those at the origin after them.

    Args:
        calibration: the offsets before the first update.
        errors: scaled errors, truth − forecast, of earlier forecasts; NaN where the truth is missing or not known.
        stride: rows between two origins of a series.
    """
    n_series, n_origins, n_steps, _ = errors.shape
    first = calibration.offsets.to(errors)
    spread = first[calibration.quantiles.index(0.9)] - first[calibration.quantiles.index(0.1)]
    rate = min(RATE * stride, MAX_RATE) * spread  # (steps, n_targets)
    probability = torch.tensor(calibration.quantiles).to(errors)[:, None, None]
    step = torch.arange(n_steps)
    delay = step // stride + 1  # origins until the error of each step is known
    offsets = first.expand(n_series, *first.shape).clone()
    for origin in range(n_origins + 1):
        known = origin - delay
        error = errors[:, known.clamp(min=0), step][:, None]  # (series, 1, steps, n_targets)
        moved = offsets + rate * (probability - (error <= offsets).to(errors))
        counts = (known >= 0)[:, None] & error.isfinite()
        offsets = torch.where(counts, moved, offsets)
        yield offsets.sort(dim=1).values  # updates can cross


def adaptive_quantiles(
    calibration: Calibration,
    origins: Origins,
    point: Float[Tensor, "origins pred_len n_targets"],
    truth: Float[Tensor, "origins pred_len n_targets"],
) -> Iterator[tuple[PerOrigin, Float[Tensor, "chosen pred_len n_targets quantiles"]]]:
    """Yield adaptive quantiles of past forecasts, whose offsets follow the errors of each series.

    Args:
        calibration: the offsets at the first origin.
        origins: of one series after the other, in the order of time.
        point, truth: scaled forecasts of these origins, and true values.

    Yields:
        Numbers of some of the origins, and their scaled quantiles.
    """
    n_series = int(origins.series.max()) + 1
    first, counts = origins.first_rows(n_series)
    number = (origins.rows - first[origins.series]) // origins.stride
    for part in np.array_split(np.flatnonzero(counts), -(-np.count_nonzero(counts) // SERIES_AT_ONCE)):
        place = np.full(n_series, -1)
        place[part] = np.arange(len(part))
        mine = np.flatnonzero(place[origins.series] >= 0)
        errors = torch.full((len(part), int(counts[part].max()), *point.shape[1:]), torch.nan)
        errors[place[origins.series[mine]], number[mine]] = (truth - point)[mine]
        adapted = adapt(calibration, errors, origins.stride)
        for origin, offsets in zip(range(errors.shape[1]), adapted, strict=False):
            here = mine[number[mine] == origin]
            own = offsets[place[origins.series[here]]]
            yield here, point[here][..., None] + own.permute(0, 2, 3, 1)
