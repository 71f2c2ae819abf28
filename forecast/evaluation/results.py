"""Results of a test: errors and scores of the model beside those of the baselines."""

import dataclasses
import math
from functools import cached_property
from typing import Any

from torch import Tensor

from forecast.evaluation.baselines import Baseline
from forecast.evaluation.errors import Errors

MODEL = "model"
LABELS = {"naive": "naive", "seasonal_naive": "seasonal naive", "linear": "linear model"}
"""What the baselines are called in tables and figures."""


def labels(attention: str) -> dict[str, str]:
    """What figures call a model with this attention, and the baselines."""
    return {MODEL: f"{attention} attention", **LABELS}


@dataclasses.dataclass(frozen=True)
class Results:
    """What a test found on one split.

    Attributes:
        errors: of the model (first) and of each baseline.
        windows: MSE and MAE of each window (n_windows, 2), of the model and of each baseline.
        intervals: by method, as `IntervalSums.compute` gives them.
        baselines: the baselines that were measured.
    """

    errors: dict[str, Errors]
    windows: dict[str, Tensor]
    intervals: dict[str, dict[str, Any]]
    baselines: dict[str, Baseline]

    @cached_property
    def scores(self) -> dict[str, dict[str, float]]:
        return {name: errors.scores() for name, errors in self.errors.items()}

    @property
    def best_baseline(self) -> str:
        return min(LABELS, key=lambda name: self.scores[name]["mse"])

    @property
    def skill(self) -> float:
        """1 − MSE / MSE of the best baseline: the fraction of its squared error that the model removes.

        NaN if that baseline makes no error.
        """
        scores = self.scores
        rival = scores[self.best_baseline]["mse"]
        return 1 - scores[MODEL]["mse"] / rival if rival > 0 else math.nan

    def content(self) -> dict[str, Any]:
        """The results as metrics.json has them."""
        return {
            "test": self.scores[MODEL],
            "baselines": {name: scores for name, scores in self.scores.items() if name != MODEL},
            "skill": self.skill,
            "intervals": self.intervals,
            "best_baseline": self.best_baseline,
        }
