"""The scores of a test that are printed with a forecast. Imports no torch."""

import dataclasses
from typing import Any

from forecast.evaluation.forecaster_names import MODEL


@dataclasses.dataclass(frozen=True)
class ReportedScores:
    """Scores of a test that `predict` prints with a forecast.

    Attributes:
        mse: of the model and of each baseline, by name.
        coverage: share of the true values that each interval covered, by method and level.
    """

    mse: dict[str, float]
    coverage: dict[str, dict[str, float]]

    @classmethod
    def read(cls, content: dict[str, Any]) -> "ReportedScores":
        """Read what `Results.content` returned; an older version may have had fewer baselines."""
        mse = {MODEL: content["test"], **content["baselines"]}
        return cls(
            {name: float(scores["mse"]) for name, scores in mse.items()},
            {
                method: {
                    level: float(each["coverage"]) for level, each in scores.items() if isinstance(each, dict)
                }
                for method, scores in content["intervals"].items()
            },
        )

    @property
    def best_baseline(self) -> str:
        """The baseline with the lowest MSE."""
        return min((name for name in self.mse if name != MODEL), key=lambda name: self.mse[name])
