"""The scores of a tested model beside the baselines': measured, and shown as a table."""

import dataclasses
import math
from typing import Any

from rich.console import Console
from rich.table import Table
from torch import Tensor

from forecast.baselines import Baseline, FittedBaselines, score
from forecast.data import ForecastData
from forecast.forecaster import Forecaster
from forecast.metrics import SCORES, ErrorSums
from forecast.rounding import alike

MODEL = "model"
LABELS = {"naive": "naive", "seasonal_naive": "seasonal naive", "linear": "linear map"}
ROWS = "attention,\nor simple rule"
"""Above the names in a table, where they are short."""


def labels(attention: str) -> dict[str, str]:
    """What pictures call a model with this attention, and the baselines."""
    return {MODEL: f"{attention} attention", **LABELS}


@dataclasses.dataclass(frozen=True)
class Measured:
    """Of the split tested: errors of the model (first) and of each baseline, and of each window (n_windows, 2)."""

    errors: dict[str, ErrorSums]
    windows: dict[str, Tensor]
    baselines: dict[str, Baseline]
    intervals: dict[str, dict[str, Any]]  # by method, as IntervalSums.scores gives them

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        return {name: errors.scores() for name, errors in self.errors.items()}

    @property
    def best_baseline(self) -> str:
        return min(LABELS, key=lambda name: self.scores[name]["mse"])

    @property
    def skill(self) -> float:
        """1 − MSE / the best baseline's MSE: the share of its error that the model removes.

        NaN where that baseline makes no error at all, and nothing is left to remove.
        """
        scores = self.scores
        rival = scores[self.best_baseline]["mse"]
        return 1 - scores[MODEL]["mse"] / rival if rival > 0 else math.nan


def measure(forecaster: Forecaster, data: ForecastData, fitted: FittedBaselines) -> Measured:
    """The tested forecaster beside the baselines on the same windows."""
    errors, windows = {MODEL: forecaster.errors}, {MODEL: forecaster.test_windows}
    rules = fitted.rules()
    for name, baseline in rules.items():
        errors[name], windows[name] = score(baseline, data, fitted.new_errors(data), data.tested)
    intervals = {method: sums.scores() for method, sums in forecaster.intervals.items()}
    return Measured(errors, windows, rules, intervals)


def which_windows(data: ForecastData, split: str) -> str:
    """How many windows of a split were scored, in words."""
    count, stride = f"{data.n_windows[split]:,} windows", data.eval_stride
    return (
        f"{count}, every one counted"
        if stride == 1 or split == "train"
        else f"{count}, one every {stride} steps"
    )


def skill_in_words(skill: float, rival: str) -> str:
    """What a skill says of a model beside `rival`, the best baseline; NaN where that makes no error."""
    if math.isnan(skill):
        return f"no skill can be given: {rival}, the best baseline, makes no error here; use {rival}"
    percent = f"{100 * abs(skill):.1f}%"
    if percent == "0.0%":
        return f"skill 0.000: level with {rival}, the best baseline"
    if skill > 0:
        return f"skill {skill:.3f}: {percent} less squared error than {rival}, the best baseline"
    return f"skill {skill:.3f}: WORSE than {rival} by {percent} in squared error; use {rival}"


def show_scores(title: str, attention: str, measured: Measured) -> None:
    """Print the table of scores, what the skill means, and how good the intervals are."""
    table = Table(title=title)
    table.add_column(ROWS)
    for heading in ("MSE", "MAE", "RMSE", "MAE", "sMAPE", "WAPE", "MASE"):
        table.add_column(heading, justify="right")
    table.columns[1].header, table.columns[2].header = "MSE\nscaled", "MAE\nscaled"
    table.columns[3].header, table.columns[4].header = "RMSE\nunits", "MAE\nunits"
    columns = [alike(scores[s] for scores in measured.scores.values()) for s in SCORES]
    for name, *row in zip(measured.scores, *columns, strict=True):
        table.add_row(LABELS.get(name, attention), *row, style="bold" if name == MODEL else None)
    console = Console(markup=False)
    console.print(table)
    console.print(skill_in_words(measured.skill, LABELS[measured.best_baseline]))
    for method, scores in measured.intervals.items():
        levels = "; ".join(
            f"{level}% holds {100 * score['coverage']:.1f}%, width {score['width']:.3f}"
            for level, score in scores.items()
            if isinstance(score, dict)
        )
        console.print(f"intervals, {method}: {levels or 'none'}; CRPS {scores['crps']:.3f} (scaled)")
