"""The line that counts series in which the model has less squared error than a baseline."""

import pandas as pd

from forecast.reports.scores import describe_series


def test_equal_errors_count_for_neither() -> None:
    table = pd.DataFrame(
        {
            "unique_id": ["a", "b", "c", "d"], "model_mase": [1.0, 2.0, 3.0, 4.0],
            "model_mse": [1.0, 1.0, 1.0, 2.0], "linear_mse": [1.0 + 1e-7, 1.0 - 1e-7, 1.1, 1.0],
        }
    )  # fmt: skip
    line, _ = describe_series(table, "linear")
    assert line.endswith("the model has less squared error than linear baseline in 1 (25%), more in 1")
