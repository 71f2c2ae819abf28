"""Names of forecasters, scores and levels of intervals, and the scores that are printed with a forecast.

Imports no torch.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from jaxtyping import Float64

from forecast.system.errors import ConfigError

MODEL = "model"
MAX_MISS = 0.1  # a coverage that differs from its level by more is explained
FEW_HORIZONS = 5  # conformal intervals from fewer horizons of validation rows are called rough
Level = int | float  # nominal coverage of an interval, in percent
QUANTILE_LOSS = "quantile"
CONFORMAL, QUANTILE, ADAPTIVE = INTERVAL_METHODS = ("conformal", "quantile", "adaptive")
"""Where the bounds of intervals come from: errors on validation windows, quantiles that the network forecasts, or
conformal bounds that follow the errors on rows after training."""
DECILES = tuple(n / 10 for n in range(1, 10))
MIN_WINDOWS = 3  # fewest validation windows on which an interval is calibrated


class BaselineFacts(NamedTuple):
    """Facts about a baseline for tables and figures."""

    label: str
    colour: str  # of its lines, a grey: colours are those of attention types
    dashes: str  # of its lines, as Matplotlib names them
    depends_on: str | None = None  # the setting or the entry of metrics.json that changes its forecast
    has_parameters: bool = False  # whether it has weights, which later rows can make out of date


BASELINES = {  # the baselines by name, in the order of tables; `forecast.evaluation.baselines` has their classes
    "naive": BaselineFacts("naive", "#8a96a3", ":"),
    "seasonal_naive": BaselineFacts("seasonal naive", "#6b7785", "-.", depends_on="season"),
    "linear": BaselineFacts("linear baseline", "#3d4854", "--", depends_on="seq_len", has_parameters=True),
}

LABELS = {name: facts.label for name, facts in BASELINES.items()}

SAME_ERROR = 5e-4
"""Two forecasters of an origin, a series or a run are equal if their errors differ by less: by 0.0% when printed.

If only the linear model was kept, it can be the linear baseline up to round-off.
"""

LINEAR_ALONE = " (linear model alone)"


def name_tested(attention: str, *, untrained: bool) -> str:
    """Name the model in a row of scores: by its attention type, and whether only its linear model was kept.

    In this case, attention has no part in its scores.
    """
    return attention + LINEAR_ALONE * untrained


def describe_change(change: float) -> str:
    """Describe a difference of two MSEs, relative to the second one: `3.1% less MSE`."""
    return f"{abs(change):.1%} {'less' if change < 0 else 'more'} MSE"


def labels(attention: str, baselines: Iterable[str] = BASELINES) -> dict[str, str]:
    """Labels of the model of this attention type (or `mlp`) and of baselines, in figures.

    With attention=linear it is "model (linear)": a "linear model" is what the linear baseline fits.
    """
    return {MODEL: f"model ({attention})", **{name: LABELS.get(name, name) for name in baselines}}


class Score(NamedTuple):
    """A score of forecasts, of which lower values are better."""

    label: str
    unit: str  # `scaled` or `units`; empty: it has none
    meaning: str
    of: Callable[[Any, Any], Any]  # of the means in `errors.CellErrors` and of the denominators of MASE
    is_ratio: bool = False  # whether it is not defined where its denominator is zero

    def heading(self, form: str) -> str:
        """The label with the unit in a form such as `{} ({})`; the label alone without a unit."""
        return form.format(self.label, self.unit) if self.unit else self.label


def ratio(numerator: Any, denominator: Any) -> Any:
    """Divide tensors, with NaN where the denominator is zero."""
    return (numerator / denominator).where(denominator != 0, math.nan)


SCORES = {  # the scores by name, in the order of metrics.json; see `errors` for their definitions
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

SCALED_SCORES = tuple(name for name, score in SCORES.items() if score.unit == "scaled")
"""Scores of scaled values, which are means over all true values and are also saved for each window."""


@dataclasses.dataclass(frozen=True)
class ReportedScores:
    """Scores of a test that `predict` prints with a forecast."""

    mse: dict[str, float]  # of the model and of each baseline, by name
    coverage: dict[str, dict[str, float]]  # of each interval, by method and level
    misses: dict[str, str] = dataclasses.field(default_factory=dict)  # by method, from `explain_misses`

    @classmethod
    def read(cls, content: dict[str, Any]) -> "ReportedScores":
        """Read what `Results.content` returned; an older version may have had fewer baselines."""
        by_name, intervals = {MODEL: content["test"], **content["baselines"]}, content["intervals"]
        mse = {name: float(scores["mse"]) for name, scores in by_name.items()}
        coverage = {
            method: {level: float(of["coverage"]) for level, of in scores.items() if isinstance(of, dict)}
            for method, scores in intervals.items()
        }
        return cls(mse, coverage, explain_misses(intervals))

    @property
    def best_baseline(self) -> str:
        """The baseline with the lowest MSE."""
        return min((name for name in self.mse if name != MODEL), key=lambda name: self.mse[name])


FACTS_OF_MISS = {  # scores of intervals that show why a coverage misses its level
    "above": "{:.1%} of the values lie above it",
    "below": "{:.1%} below it",
    "error_ratio": "the errors are {:.1f} times those on the validation windows",
    "horizons": "which hold {:.1f} horizons",
}


def explain_misses(intervals: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Explain a coverage that differs from its level by more than `MAX_MISS`; of several of a method, the farthest.

    `intervals` has, by method, what `IntervalSums.compute` returned, or the same from JSON, in which NaN is None.
    """
    found = {}
    for method, scores in intervals.items():
        levels = {level: each for level, each in scores.items() if isinstance(each, Mapping)}
        known = {level: each["coverage"] for level, each in levels.items() if each["coverage"] is not None}
        misses = {level: coverage - float(level) / 100 for level, coverage in known.items()}
        far = {level: miss for level, miss in misses.items() if abs(miss) > MAX_MISS}  # NaN is not
        if far:
            level, miss = max(far.items(), key=lambda item: abs(item[1]))
            of_level = {**scores, **levels[level]}
            known_facts = (key for key in FACTS_OF_MISS if of_level.get(key) is not None)
            facts = [FACTS_OF_MISS[key].format(of_level[key]) for key in known_facts]
            points = f"{100 * abs(miss):.0f} points {'less' if miss < 0 else 'more'}"
            why = f": {', '.join(facts)}" if facts else ""
            found[method] = f"the {level}% interval ({method}) covers {points} than its level{why}"
    return found


def round_values(
    values: Float64[np.ndarray, "*shape"], spread: Float64[np.ndarray, "*#shape"]
) -> Float64[np.ndarray, "*shape"]:
    """The shortest decimal numbers that are these values in float32.

    Where float32 cannot hold a hundred-thousandth of the spread of the data, as with a counter of 1.7e9, values are
    rounded to that fraction. The spread of equal numbers, which is a rounding error, does not count.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
        is_coarse = (np.spacing(np.abs(single)) > 1e-5 * spread) & (spread > 1e-10 * np.abs(values))
    texts = pa.array(single.ravel()).cast(pa.string())  # the shortest ones
    shortest = texts.cast(pa.float64()).to_numpy(zero_copy_only=False).reshape(values.shape)
    rounded = np.where(is_coarse, round_to_unit(values, spread, 5), shortest) if is_coarse.any() else shortest
    return np.where(np.isfinite(rounded), rounded, values)


def round_to_unit(
    values: Float64[np.ndarray, "*shape"], unit: Float64[np.ndarray, "*#shape"], digits: int
) -> Float64[np.ndarray, "*shape"]:
    """Round values to this many decimal digits below a unit; values without a positive unit stay as they are."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factor = 10.0 ** (digits - np.floor(np.log10(unit)))
        return np.where(np.isfinite(factor), np.round(values * factor) / factor, values)


# ---- levels of intervals


def parse_levels(levels: Any) -> tuple[Level, ...]:
    """Sort interval levels, in percent, and remove duplicates. Raises ConfigError for an invalid level."""
    if isinstance(levels, str) or not isinstance(levels, Sequence):
        raise ConfigError(f"levels={levels}: write a list, such as levels=[80,95], or levels=[] for none")
    for level in levels:
        if isinstance(level, bool) or not isinstance(level, int | float) or not 1 <= level < 100:
            raise ConfigError(f"levels={list(levels)}: {level} is not a percentage from 1 to below 100, such as 90")
    return tuple(sorted(set(levels)))


def bounds(level: Level) -> tuple[float, float]:
    """Probabilities of the lower and the upper bound of a central interval: 80 → 0.1 and 0.9."""
    return round(0.5 - level / 200, 6), round(0.5 + level / 200, 6)


def probabilities(levels: Sequence[Level], others: Sequence[float] = DECILES) -> tuple[float, ...]:
    """Sorted probabilities of the median, of the bounds of `levels`, and `others`."""
    return tuple(sorted({0.5, *others, *(p for level in parse_levels(levels) for p in bounds(level))}))


def trained_quantiles(loss: str, levels: Sequence[Level]) -> tuple[float, ...] | None:
    """Return the probabilities of loss=quantile: deciles and the bounds of the levels; None for other losses."""
    return probabilities(levels) if loss == QUANTILE_LOSS else None


def trained_levels(quantiles: Sequence[float], levels: Sequence[Level]) -> tuple[Level, ...]:
    """Return the levels whose bounds are among trained quantiles."""
    return tuple(level for level in levels if set(bounds(level)) <= set(quantiles))


def list_untrained(quantiles: Sequence[float], levels: Sequence[Level]) -> list[str]:
    """List the levels whose bounds are not among trained quantiles, as text."""
    trained = trained_levels(quantiles, levels)
    return [f"{level:g}" for level in levels if level not in trained]


def windows_needed(level: Level, pooled_steps: int) -> int:
    """The fewest windows on which the bounds of an interval of this level, in percent, can be calibrated.

    The tails of the errors of `pooled_steps` steps must hold one error each.
    """
    n_errors = math.ceil(round(200 / (100 - level), 6)) - 1
    return max(MIN_WINDOWS, -(-n_errors // pooled_steps))
