"""Which origins the picture of a backtest shows, and where its axes of errors end."""

import numpy as np
import pandas as pd
import pytest

from forecast.evaluation.backtest import Origins
from forecast.reports.backtest import limit_errors, select_successive
from forecast.reports.figures import subplots


@pytest.mark.parametrize(
    ("rows", "pred_len", "series", "chosen"),
    [
        ([5], 24, None, [0]),
        ([0, 24, 48], 24, None, [0, 1, 2]),
        ([0, 10, 20, 30, 40, 50], 24, None, [2, 5]),  # those between overlap
        ([0, 300, 600, 900], 300, None, [1, 2, 3]),  # more steps than are drawn of shorter horizons
        ([*range(0, 2400, 24)], 24, None, [*range(84, 100)]),
        ([0, 24, 0, 24], 24, [7, 7, 8, 8], [0, 1]),
    ],
)
def test_the_last_origins_without_overlap_are_drawn(
    rows: list[int], pred_len: int, series: list[int] | None, chosen: list[int]
) -> None:
    numbers = np.array(rows)
    origins = Origins(numbers, np.array(series or [0] * len(rows)), numbers, stride=1)
    assert select_successive(origins, int(origins.series[0]), pred_len).tolist() == chosen


@pytest.mark.parametrize(("naive", "top"), [(100.0, 4.0), (3.0, 3.15)])
def test_a_baseline_with_large_errors_leaves_the_axis(naive: float, top: float) -> None:
    _, axis = subplots(figsize=(4, 3))
    table = pd.DataFrame({"model_mse": [1.0, np.nan, 2.0], "naive_mse": [0.0, 1.0, naive]})
    for column in table:
        axis.plot(table[column], label=column)
    limit_errors(axis, table, ["model"])
    assert axis.get_ylim() == pytest.approx((0, top))
    assert [text.get_text() for text in axis.texts] == ["beyond the axis: naive_mse"] * (naive > 4)
