"""The scores of each of many series: as a table, and in lines for the screen."""

import numpy as np
import pandas as pd

from forecast.data import SeriesData
from forecast.metrics import SCORES, over_variables
from forecast.scores import LABELS, MODEL, Measured
from forecast.series_errors import SeriesErrorSums

WORST = 5
"""Series named on the screen."""


def introduced(data: SeriesData) -> list[str]:
    """What stands in the data beside the targets."""
    panel, lines = data.panel, []
    kinds = {
        "past covariates": [name for name in data.feature_columns if name not in data.columns],
        "future covariates": list(panel.known_columns),
        "static": list(map(str, panel.static.columns)),
    }
    if told := "; ".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names):
        lines.append(f"covariates {told}")
    if data.windows_per_epoch < min(len(panel.ids), data.n_windows["train"]):
        lines.append(
            f"note: an epoch of {data.windows_per_epoch:,} windows misses many of {len(panel.ids):,} series: "
            f"data.windows_per_epoch={4 * len(panel.ids)} draws about four of each"
        )
    return lines


def by_series(data: SeriesData, measured: Measured) -> pd.DataFrame:
    """A row a series that was tested: its windows, each score of the model and the baselines, such as `model_mse`."""
    table: dict[str, object] = {}
    for name, errors in measured.errors.items():
        assert isinstance(errors, SeriesErrorSums)
        table.setdefault("unique_id", data.panel.ids)
        table.setdefault("windows", errors.windows.cpu().numpy().astype(np.int64))
        scores = errors.by_series()
        table |= {f"{name}_{score}": over_variables(score, scores[score]).numpy() for score in SCORES}
    frame = pd.DataFrame(table)
    return frame.loc[frame["windows"] > 0].reset_index(drop=True)


def described(data: SeriesData, measured: Measured) -> list[str]:
    """How the series differ, and the worst of them."""
    table, rival = by_series(data, measured), measured.best_baseline
    better = np.count_nonzero(table[f"{MODEL}_mse"] < table[f"{rival}_mse"])
    said = [
        f"series     {len(table):,} tested; the model has less squared error than {LABELS[rival]} in {better:,} "
        f"({100 * better / len(table):.0f}%)"
    ]
    mase = table.set_index("unique_id").pop(f"{MODEL}_mase").dropna()
    if len(mase):
        worst = mase.nlargest(WORST)
        named = ", ".join(f"{name} {value:.2f}" for name, value in worst.items())
        said.append(f"           MASE median {mase.median():.3f}; worst {named}")
    return said
