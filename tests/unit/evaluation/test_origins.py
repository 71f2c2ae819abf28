"""Origins of forecasts."""

import numpy as np
import pytest

from forecast.evaluation.measurement import Origins


@pytest.mark.parametrize(
    ("positions", "horizon", "expected"),
    [
        ([0, 24, 48, 72], 24, 1),
        ([0, 24, 48, 72], 25, 2),
        ([0, 24, 48, 72, 96, 120], 100, 5),
        ([0, 24, 48, 0, 24, 48], 48, 2),  # two series with the same dates
        ([0, 24, 48, 7, 31, 55], 24, 2),  # two series with other dates
        ([5], 24, 1),
    ],
)
def test_the_overlap_counts_the_consecutive_dates_that_share_a_step(
    positions: list[int], horizon: int, expected: int
) -> None:
    rows = np.array(positions)
    origins = Origins(rows, np.zeros_like(rows), rows, 24)
    shared = max(sum(0 <= b - a < horizon for b in set(positions)) for a in positions)
    assert origins.overlap(horizon) == expected == shared
