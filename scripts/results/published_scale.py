"""Errors of `weather` on the scale of published scores, in which −9999, a missing value, is a number."""

from pathlib import Path

import numpy as np
import pandas as pd

TRAINING = 0.7
"""Fraction of the rows whose standard deviation scales the published errors."""


def published_errors(run: Path, file: Path) -> dict[str, float]:
    """Compute the test MSE of a run and of its linear baseline, each column divided by its published scale.

    The published loaders scale a column by its standard deviation over the first 70% of the rows as they are in the
    file. −9999 occurs in three columns, and only in these rows: their errors nearly vanish.

    Args:
        run: the run folder, whose errors_by_variable.csv has errors in original units.
        file: weather.csv.
    """
    rows = pd.read_csv(file, encoding_errors="replace").drop(columns="date")
    variance = rows.head(int(TRAINING * len(rows))).var(ddof=0)
    errors = pd.read_csv(run / "errors_by_variable.csv", index_col="variable")
    squared = {
        key: errors[f"{name}_rmse_raw"] ** 2 for key, name in (("mse", "model"), ("linear_mse", "linear"))
    }
    if set(errors.index) != set(variance.index):
        raise ValueError(f"{run}: its columns are not those of {file}")
    return {f"published_{key}": float(np.mean(values / variance)) for key, values in squared.items()}
