"""The verdict of a backtest: whether the model or the best baseline is better, and whether that is significant."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from forecast.evaluation.backtest import Backtest
from forecast.evaluation.scores import LABELS, MODEL, SAME_ERROR, describe_change
from forecast.evaluation.significance import (
    SIGNIFICANCE_LEVEL,
    LossDifference,
    diebold_mariano,
    sum_losses_by_date,
)


@dataclass(frozen=True)
class Verdict:
    """The comparison of the model with the best baseline.

    Attributes:
        best_baseline: the baseline with the lowest MSE.
        change: MSE of the model relative to that of the best baseline, minus 1; NaN if the baseline has no error.
        difference: the Diebold-Mariano test of the two, corrected for the choice among the baselines.
    """

    best_baseline: str
    change: float
    difference: LossDifference

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        baseline, p_value = LABELS[self.best_baseline], self.difference.adjusted_p_value
        if math.isnan(self.change):
            return f"{baseline} had no error"
        if abs(self.change) < SAME_ERROR:
            return f"the model and {baseline}, the best baseline, had the same MSE"
        found = (
            f"the model had {describe_change(self.change)} than {baseline}, the best baseline by scaled MSE"
        )
        if math.isnan(p_value):
            return f"{found}; there are too few origins to test whether that is significant"
        is_not = "" if p_value < SIGNIFICANCE_LEVEL else " not"
        test = (
            f"Diebold-Mariano test, p = {p_value:.2g}, corrected for the choice among {len(LABELS)} baselines"
        )
        return f"{found}; the difference is{is_not} significant ({test})"


def compare_with_baseline(backtest: Backtest) -> Verdict:
    """Compare the model of a backtest with the baseline of the lowest MSE.

    The loss of an origin is its sum of squared errors, divided by the mean number of true values of an origin, so that
    the mean of the losses is the MSE. Origins of several series on the same date count as one observation.
    """
    mse = {name: errors.scores()["mse"] for name, errors in backtest.errors.items()}
    best = min(LABELS, key=lambda name: mse[name])
    change = mse[MODEL] / mse[best] - 1 if mse[best] > 0 else math.nan
    overlap = backtest.origins.overlap(backtest.truth.shape[1])
    model, baseline = sum_errors(backtest, MODEL), sum_errors(backtest, best)
    return Verdict(best, change, diebold_mariano(model, baseline, overlap, comparisons=len(LABELS)))


def sum_errors(backtest: Backtest, name: str) -> Float64[np.ndarray, " observations"]:
    """The losses of a forecaster in chronological order."""
    counts = np.isfinite(backtest.truth).sum((1, 2))
    squares = np.where(np.isfinite(backtest.truth), backtest.scaled_errors(name), 0.0) ** 2
    has_truth = counts > 0
    losses = (squares.sum((1, 2)) / counts[has_truth].mean())[has_truth]
    return sum_losses_by_date(losses, backtest.origins.positions[has_truth])
