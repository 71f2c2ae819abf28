"""Names of forecasters and scores, and the scores of a test that are printed with a forecast. Imports no torch."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from forecast.evaluation.levels import QUANTILE

MODEL = "model"

MAX_MISS = 0.1
"""A coverage that differs from its level by more is explained."""

LARGER_ERRORS = 1.2
"""Ratio of errors, or its reciprocal, from which the errors of two periods are called different."""

ONE_SIDED = 3
"""Ratio of the values above and below an interval, or its reciprocal, from which they lie on one side."""

FEW_HORIZONS = 5
"""Conformal intervals from fewer horizons of validation rows are called rough."""


class BaselineFacts(NamedTuple):
    """Facts about a baseline for tables and figures.

    Attributes:
        label: its name in tables and figures.
        colour: of its lines, a grey: colours are those of attention types.
        dashes: of its lines, as Matplotlib names them.
        depends_on: the setting or the entry of metrics.json that changes its forecast; None: nothing does.
        has_parameters: whether it has weights, which later rows can make out of date.
    """

    label: str
    colour: str
    dashes: str
    depends_on: str | None = None
    has_parameters: bool = False


BASELINES = {
    "naive": BaselineFacts("naive", "#8a96a3", ":"),
    "seasonal_naive": BaselineFacts("seasonal naive", "#6b7785", "-.", depends_on="season"),
    "linear": BaselineFacts("linear baseline", "#3d4854", "--", depends_on="seq_len", has_parameters=True),
}
"""The baselines by name, in the order of tables; `forecast.evaluation.baselines` has their classes."""

LABELS = {name: facts.label for name, facts in BASELINES.items()}
"""Labels of the baselines in tables and figures."""

SAME_ERROR = 5e-4
"""Two forecasters of an origin, a series or a run are equal if their errors differ by less: by 0.0% when printed.

If only the linear model was kept, it can be the linear baseline up to round-off.
"""

LINEAR_ALONE = " (linear model alone)"
"""Follows the name of a model of which only the linear model was kept, so that attention has no part in its scores."""


def name_tested(attention: str, *, untrained: bool) -> str:
    """Name the model in a row of scores: by its attention type, and whether only its linear model was kept."""
    return attention + LINEAR_ALONE * untrained


def describe_change(change: float) -> str:
    """Describe a difference of two MSEs, relative to the second one: `3.1% less MSE`."""
    return f"{abs(change):.1%} {'less' if change < 0 else 'more'} MSE"


def labels(attention: str) -> dict[str, str]:
    """Labels of the model of this attention type (or `mlp`) and of the baselines, in figures.

    With attention=linear it is "model (linear)": a "linear model" is what the linear baseline fits.
    """
    return {MODEL: f"model ({attention})", **LABELS}


class Score(NamedTuple):
    """A score of forecasts, of which lower values are better.

    Attributes:
        label: its name in tables.
        unit: `scaled` or `units`; empty: it has none.
        meaning: what it is, in words.
        of: function of the means of the errors (`errors.CellErrors`) and of the denominators of MASE.
        is_ratio: whether it is not defined where its denominator is zero.
    """

    label: str
    unit: str
    meaning: str
    of: Callable[[Any, Any], Any]
    is_ratio: bool = False

    def heading(self, form: str) -> str:
        """The label with the unit in a form such as `{} ({})`; the label alone without a unit."""
        return form.format(self.label, self.unit) if self.unit else self.label


def ratio(numerator: Any, denominator: Any) -> Any:
    """Divide tensors, with NaN where the denominator is zero."""
    return (numerator / denominator).where(denominator != 0, math.nan)


SCORES = {
    "mse": Score("MSE", "scaled", "mean squared error of the scaled values", lambda e, _: e.squared),
    "mae": Score("MAE", "scaled", "mean absolute error of the scaled values", lambda e, _: e.absolute),
    "crps": Score(
        "CRPS", "scaled", "continuous ranked probability score of the scaled values, from deciles",
        lambda e, _: e.crps,
    ),
    "rmse_raw": Score(
        "RMSE", "units", "root mean squared error in original units", lambda e, _: e.squared_raw.sqrt()
    ),
    "mae_raw": Score("MAE", "units", "mean absolute error in original units", lambda e, _: e.absolute_raw),
    "smape": Score(
        "sMAPE", "", "symmetric mean absolute percentage error, from 0 to 200", lambda e, _: e.symmetric
    ),
    "wape": Score(
        "WAPE", "", "sum of absolute errors / sum of absolute values",
        lambda e, _: ratio(e.absolute_raw, e.magnitude), is_ratio=True,
    ),
    "mase": Score(
        "MASE", "", "MAE / MAE of the seasonal naive forecast on the training rows",
        lambda e, naive_mae: ratio(e.absolute_raw, naive_mae), is_ratio=True,
    ),
}  # fmt: skip
"""The scores by name, in the order of metrics.json; see `errors` for their definitions."""

SCALED_SCORES = tuple(name for name, score in SCORES.items() if score.unit == "scaled")
"""Scores of scaled values, which are means over all true values and are also saved for each window."""


@dataclasses.dataclass(frozen=True)
class ReportedScores:
    """Scores of a test that `predict` prints with a forecast.

    Attributes:
        mse: of the model and of each baseline, by name.
        coverage: share of the true values that each interval covered, by method and level.
        misses: why a coverage misses its level, by method, from `explain_misses`.
    """

    mse: dict[str, float]
    coverage: dict[str, dict[str, float]]
    misses: dict[str, str] = dataclasses.field(default_factory=dict)

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
            explain_misses(content["intervals"]),
        )

    @property
    def best_baseline(self) -> str:
        """The baseline with the lowest MSE."""
        return min((name for name in self.mse if name != MODEL), key=lambda name: self.mse[name])


def explain_misses(intervals: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Explain, by method, a coverage that differs from its level by more than `MAX_MISS`; of several, the farthest.

    Args:
        intervals: by method, what `IntervalSums.compute` returned; runs of an older version have fewer entries.
    """
    found = {}
    for method, scores in intervals.items():
        levels = {level: each for level, each in scores.items() if isinstance(each, Mapping)}
        misses = {level: nan_if_none(each["coverage"]) - float(level) / 100 for level, each in levels.items()}
        far = {level: miss for level, miss in misses.items() if abs(miss) > MAX_MISS}  # NaN is not
        if not far:
            continue
        level, miss = max(far.items(), key=lambda item: abs(item[1]))
        causes = list_causes(scores, levels[level], miss)
        if method == QUANTILE:
            causes.pop("horizons", None)
        points = f"{100 * abs(miss):.0f} points {'less' if miss < 0 else 'more'}"
        text = "; ".join(causes.values()) or "the cause is unknown"
        found[method] = f"the {level}% interval ({method}) covers {points} than its level: {text}"
    return found


def list_causes(scores: Mapping[str, Any], level: Mapping[str, Any], miss: float) -> dict[str, str]:
    """List what makes a coverage too low (`miss` < 0) or too high, in words, by the entries that show it."""
    ratio, horizons = (nan_if_none(scores.get(name)) for name in ("error_ratio", "horizons"))
    above, below = (nan_if_none(level.get(side)) for side in ("above", "below"))
    causes = {}
    if ratio > LARGER_ERRORS if miss < 0 else ratio < 1 / LARGER_ERRORS:
        causes["error_ratio"] = f"the errors are {ratio:.1f} times those on the validation windows"
    if miss < 0 and max(above, below) > ONE_SIDED * min(above, below):
        causes["sides"] = (
            f"{above:.1%} of the values lie above it and {below:.1%} below: the forecasts are too "
            f"{'low' if above > below else 'high'}, as after a change of level or trend"
        )
    if horizons < FEW_HORIZONS:
        causes["horizons"] = f"the validation rows hold only {horizons:.1f} horizons"
    return causes


def nan_if_none(value: float | None) -> float:
    """A score of JSON, in which NaN is None."""
    return math.nan if value is None else value


def round_to_unit(
    values: Float64[np.ndarray, "*shape"], unit: Float64[np.ndarray, "*#shape"], digits: int
) -> Float64[np.ndarray, "*shape"]:
    """Round values to this many decimal digits below a unit; values without a positive unit stay as they are."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factor = 10.0 ** (digits - np.floor(np.log10(unit)))
        return np.where(np.isfinite(factor), np.round(values * factor) / factor, values)
