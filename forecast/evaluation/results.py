"""Results of a test: errors and scores of the model beside those of the baselines."""

import dataclasses
import math
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from forecast.evaluation.baselines import Baseline
from forecast.evaluation.errors import Errors
from forecast.evaluation.forecaster_names import LABELS, MODEL


@dataclasses.dataclass(frozen=True)
class Results:
    """Scores of the model and of the baselines on one split.

    Attributes:
        errors: errors of the model (first) and of each baseline, by name.
        windows: scores of each window (n_windows, scores), in the order of `SCALED_SCORES`, of the model and of each
            baseline, by name; sums of errors divided by the mean number of measured values of a window, see
            `errors.window_errors`.
        intervals: scores of the intervals by method, from `IntervalSums.compute`.
        coverage_by_step: fraction of true values within an interval at each step, from
            `intervals.tabulate_coverage_by_step`.
        coverage_by_variable: the same for each variable.
        coverage_by_window: the same for each window; NaN without true values.
        baselines: the baselines that were measured.
    """

    errors: dict[str, Errors]
    windows: dict[str, Tensor]
    intervals: dict[str, dict[str, Any]]
    coverage_by_step: dict[str, Float64[np.ndarray, " pred_len"]]
    coverage_by_variable: dict[str, Float64[np.ndarray, " n_targets"]]
    coverage_by_window: dict[str, Float64[np.ndarray, " n_windows"]]
    baselines: dict[str, Baseline]

    @cached_property
    def scores(self) -> dict[str, dict[str, float]]:
        """Average scores of the model (first) and of each baseline, by name."""
        return {name: errors.scores() for name, errors in self.errors.items()}

    @property
    def best_baseline(self) -> str:
        """The baseline with the lowest MSE."""
        return min(LABELS, key=lambda name: self.scores[name]["mse"])

    @property
    def skill(self) -> float:
        """1 − MSE / MSE of the best baseline; NaN if the best baseline makes no error."""
        mse, best = self.scores[MODEL]["mse"], self.scores[self.best_baseline]["mse"]
        return 1 - mse / best if best > 0 else math.nan

    def content(self) -> dict[str, Any]:
        """The results in the layout of metrics.json."""
        return {
            "test": self.scores[MODEL],
            "baselines": {name: scores for name, scores in self.scores.items() if name != MODEL},
            "skill": self.skill,
            "intervals": self.intervals,
            "best_baseline": self.best_baseline,
        }
