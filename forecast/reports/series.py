"""Scores of each series, variable and window as tables, and of the series in lines for the terminal."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64

from forecast.data import DataModule
from forecast.data.panel_labels import ID_COLUMN, id_columns
from forecast.evaluation.errors import Errors, average
from forecast.evaluation.measurement import Results
from forecast.evaluation.scores import LABELS, MODEL, SAME_ERROR, SCALED_SCORES, SCORES

MAX_NAMED = 5
"""Largest number of series with the highest MASE that the terminal names."""


def tabulate_series(data: DataModule, results: Results) -> pd.DataFrame | None:
    """One row for each tested series: its number of windows, and columns such as `model_mse` of each score.

    None if the data have no ids.
    """
    if not data.panel.has_ids:  # the one series of a table has the scores of the test
        return None
    windows = [len(starts) for starts in data.windows[data.tested_split].starts]
    table: dict[str, object] = {ID_COLUMN: data.panel.ids, "windows": windows}
    for name, errors in results.errors.items():
        scores, counts = errors.by_series(), errors.series_counts
        table |= {f"{name}_{score}": average(score, scores[score], counts).numpy() for score in SCORES}
    frame = pd.DataFrame(table)
    return frame.dropna(subset=f"{MODEL}_mse").reset_index(drop=True)


def tabulate_variables(
    columns: Sequence[str],
    errors: Mapping[str, Errors],
    coverage: Mapping[str, Float64[np.ndarray, " n_targets"]],
) -> pd.DataFrame:
    """Return one row for each variable: the scores of each forecaster, and the coverage of the intervals.

    A score that no forecaster has (CRPS in a backtest) gets no columns.

    Args:
        columns: the variables.
        errors: by forecaster.
        coverage: from `intervals.tabulate_coverage_by_variable`.
    """
    tables = {name: each.by_variable() for name, each in errors.items()}
    measured = [score for score in SCORES if not all(table[score].isnan().all() for table in tables.values())]
    scores = {f"{name}_{score}": table[score].numpy() for name, table in tables.items() for score in measured}
    return pd.DataFrame({"variable": columns, **scores, **coverage})


def tabulate_windows(data: DataModule, results: Results) -> pd.DataFrame:
    """One row for each test window: its series if there are ids, `forecast_start`, and its scores.

    Scores have columns such as `model_mse`, the coverage of intervals columns such as `conformal_coverage_80`.
    """
    windows = data.windows[data.tested_split]
    index = torch.arange(len(windows))
    errors = {
        f"{name}_{score}": values[:, i].numpy()
        for name, values in results.windows.items()
        for i, score in enumerate(SCALED_SCORES)
    }
    ids = id_columns(data.panel, windows.series(index).numpy())
    starts = data.panel.dates(windows.origins(index).numpy())
    return pd.DataFrame({**ids, "forecast_start": starts, **errors, **results.coverage_by_window})


def describe_series(table: pd.DataFrame, baseline: str) -> list[str]:
    """Compare the model with a baseline by series, and name the series with the highest MASE.

    `table` is that of `tabulate_series`.
    """
    model, other = table[f"{MODEL}_mse"].to_numpy(), table[f"{baseline}_mse"].to_numpy()
    better, worse = (int((a < (1 - SAME_ERROR) * b).sum()) for a, b in ((model, other), (other, model)))
    lines = [
        f"series     {len(table):,} tested; the model has less squared error than {LABELS[baseline]} in {better:,} "
        f"({100 * better / len(table):.0f}%), more in {worse:,}"
    ]
    mase = table.set_index(ID_COLUMN).pop(f"{MODEL}_mase").dropna()
    if len(mase):
        named = ", ".join(f"{name} {value:.2f}" for name, value in mase.nlargest(MAX_NAMED).items())
        lines.append(f"           MASE median {mase.median():.3f}; worst {named}")
    return lines
