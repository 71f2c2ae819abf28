"""Whether a model should be trained again: tests of its errors, intervals and inputs on newer rows, and their report.

Three tests are combined:

errors     The mean of log(MSE of the model / MSE of the baseline) has grown since the test. Both forecast the same
           dates, so what makes some weeks harder than others, such as holidays, is in both. The logarithm keeps single
           weeks from dominating the mean.
coverage   The mean share of the true values within the intervals has fallen since the test.
inputs     The mean or the standard deviation of a column differs from those in blocks of the run that are as long as
           the newer rows (`compare_with_blocks`), with a Bonferroni correction over the columns.

The first two are one-sided t tests. The variance of the difference of two means over n newer and m tested dates is
V (1/n + 1/m). The long-run variance V is estimated on the test (`forecast.evaluation.significance.diebold_mariano`),
because the null hypothesis is that nothing has changed, and few newer dates, or dates with drift, estimate it badly.
Dates within a week of each other count as dependent, even if their forecasts share no step: days of the week differ,
and a holiday changes the errors of the days after it.

The p-values are adjusted by the method of Holm (1979), A Simple Sequentially Rejective Multiple Test Procedure. If
nothing has changed, the probability of any significant test is at most `SIGNIFICANCE_LEVEL`, however the tests depend
on each other. `scripts/monitor_power` measures this, and the power, on loads with holidays.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float64
from matplotlib.figure import Figure

from forecast.data import DataModule, Panel
from forecast.data.calendars import utc_offset_of
from forecast.data.row_ranges import RowRanges
from forecast.data.time_features import future_dates
from forecast.evaluation.scores import BASELINES, CONFORMAL, LABELS, MODEL, QUANTILE, ReportedScores
from forecast.evaluation.significance import (
    SIGNIFICANCE_LEVEL,
    LossDifference,
    diebold_mariano,
    holm_factors,
    sum_losses,
)
from forecast.inference.forecasters import find_unread_columns, list_forecasters
from forecast.inference.model import TrainedModel, evaluate
from forecast.reports import inputs
from forecast.reports.compare.run_folders import ExcludedRun, read_parquet, read_run_folder
from forecast.reports.figures import BASELINE_LINES, MODEL_COLOUR, format_dates, style_axis, subplots
from forecast.reports.scores import tabulate_windows
from forecast.system.errors import CheckpointError

SMALLEST = 1e-3  # of the mean of a forecaster in the test: smaller errors, such as 0, count as this
MIN_BLOCKS = 4  # of a run, from which newer rows are tested against them
MAX_COLUMNS = 5  # whose drift the terminal shows


@dataclass(frozen=True)
class Period:
    """Errors and coverage of the forecasts of a period, by the date of their first step.

    The coverage is the share of the true values within the intervals that `predict` gives, averaged over the levels:
    NaN without true values, and None without intervals.
    """

    dates: pd.DatetimeIndex  # first steps, in order (n,)
    mse: dict[str, np.ndarray]  # of the model and of each baseline, each (n,)
    overlap: int  # number of consecutive dates whose forecasts share a step
    coverage: np.ndarray | None = None  # (n,)

    @classmethod
    def empty(cls, like: "Period") -> "Period":
        """A period without forecasts, of the forecasters of another one."""
        return cls(like.dates[:0], {name: losses[:0] for name, losses in like.mse.items()}, like.overlap)

    @property
    def dates_of_a_week(self) -> int:
        """Number of dates of a week, on average over the period; 1 for fewer than two dates."""
        if len(self.dates) < 2:
            return 1
        step = (self.dates[-1] - self.dates[0]) / (len(self.dates) - 1)
        return max(1, round(pd.Timedelta(days=7) / step))  # type: ignore[arg-type]

    @classmethod
    def of_windows(cls, table: pd.DataFrame, overlap: int) -> "Period":
        """Sum up a table of `tabulate_windows` by date; series that start on the same date share its shocks."""
        starts = table["forecast_start"].to_numpy()
        names = [column.removesuffix("_mse") for column in table if str(column).endswith("_mse")]
        return cls(
            pd.DatetimeIndex(np.unique(starts)),
            {name: sum_losses(table[f"{name}_mse"].to_numpy(), starts) for name in names},
            overlap,
            average_coverage(table),
        )


def average_coverage(table: pd.DataFrame) -> np.ndarray | None:
    """`Period.coverage` of a table of `tabulate_windows`: of trained quantiles if there are any, else conformal."""
    for method in (QUANTILE, CONFORMAL):
        covered = table.filter(regex=f"^{method}_coverage_")
        if len(covered.columns):
            return covered.mean(axis=1).groupby(table["forecast_start"]).mean().to_numpy()  # type: ignore[attr-defined, return-value]
    return None


def read_test(model: TrainedModel) -> tuple[Period, pd.DataFrame]:
    """The test of a model's run, and the table of the run's inputs. Raises CheckpointError without a finished run."""
    run = read_run_folder(model.path.parent.parent)
    if isinstance(run, ExcludedRun):
        raise CheckpointError(
            f"{run.folder}: {run.reason}; give the folder of a finished run, which holds the errors of its test"
        )
    return Period.of_windows(run.windows, run.overlap), read_parquet(run.folder / inputs.FILE)


def find_end(model: TrainedModel, test: Period, panel: Panel) -> np.datetime64:
    """The last date that the model was tested on, or trained on by a refit on all rows; `panel` has the newer data."""
    end = find_last_step(test.dates[-1:], model.pred_len, panel)
    if model.refitted is None:
        return end
    (last,) = pd.DatetimeIndex([model.refitted["last_date"]])
    return max(end, panel.utc_offset.read(last).to_datetime64())


def find_last_step(start: pd.DatetimeIndex, pred_len: int, panel: Panel) -> np.datetime64:
    """The date of the last step of a forecast, `pred_len` − 1 rows after the date of its first step.

    These are rows of `panel`, which may have gaps such as weekends and nights. If the first step is not one of its
    dates, they are even steps.
    """
    steps = pred_len - 1
    grid = panel.with_dates_after_ends(steps).grid
    place = int(grid.get_indexer(start)[0])
    if place < 0:
        grid, place = start.append(future_dates(start, panel.freq, steps)), 0
    return grid.to_numpy()[place + steps]


def find_rows_after(panel: Panel, end: np.datetime64) -> RowRanges:
    first = panel.starts + np.clip(
        np.searchsorted(panel.grid.to_numpy(), end, side="right") - panel.grid_starts, 0, panel.lengths
    )
    return RowRanges(first, panel.ends)


def has_newer_window(model: TrainedModel, panel: Panel, end: np.datetime64) -> bool:
    """Whether some series has the rows of a window whose forecast begins after a date."""
    first, stop = find_rows_after(panel, end)
    is_long = panel.lengths >= model.seq_len + model.pred_len
    return bool((is_long & (stop - first >= model.pred_len)).any())


def keep_windows_after(data: DataModule, end: np.datetime64) -> None:
    """Keep the test windows whose forecast begins after a date; there may be none."""
    windows, kept = data.windows["test"], []
    for starts in windows.starts:
        origins = data.panel.dates(np.asarray(starts) + data.seq_len).to_numpy()
        kept.append(starts[int(np.searchsorted(origins, end, side="right")) :])
    data.windows["test"] = windows.with_starts(kept)


class Drift(NamedTuple):
    """Mean and standard deviation of a scaled column; with data.scaler=standard, 0 and 1 in the training rows."""

    mean: float
    standard_deviation: float
    p: float = math.nan  # that of `compare_with_blocks`; NaN where the run has too few blocks of this length


def measure_drift(newer: pd.DataFrame, run: pd.DataFrame) -> dict[str, Drift]:
    """The drift of each column and future covariate of newer rows, the largest |mean| + |standard deviation − 1| first.

    With data.scaler=standard, this sum is 0 for a column of numbers that has not changed since training. The other
    scalers do not scale to mean 0 and standard deviation 1, and categories are not scaled: the order says less. `newer`
    and `run` are tables of `reports.inputs.tabulate_inputs`, of the newer rows (one block) and of all rows of the run.
    """
    blocks, found = dict(iter(run.groupby("variable", sort=False))), {}
    for row in newer.itertuples():
        of_newer = summarize(np.array([[row.mean, row.mean_square]]))[0]  # type: ignore[attr-defined]
        p = compare_with_blocks(of_newer, merge_blocks(blocks[row.variable], row.dates))  # type: ignore[attr-defined]
        found[str(row.variable)] = Drift(*of_newer.tolist(), p)  # type: ignore[attr-defined, call-arg]
    size = {name: abs(drift.mean) + abs(drift.standard_deviation - 1) for name, drift in found.items()}
    return {name: found[name] for name in sorted(found, key=lambda name: -size[name])}


def summarize(moments: Float64[np.ndarray, "blocks 2"]) -> Float64[np.ndarray, "blocks 2"]:
    """Mean and standard deviation, from mean and mean square."""
    mean, square = moments.T
    return np.stack([mean, np.sqrt(np.maximum(square - mean**2, 0))], axis=1)


def merge_blocks(table: pd.DataFrame, dates: int) -> Float64[np.ndarray, "blocks 2"]:
    """Mean and standard deviation of a variable in consecutive blocks of at least `dates` dates, the last ones first.

    None are returned if the blocks of `table` are longer: means over more dates vary less.
    """
    length = table["dates"].max()
    if length > dates:  # type: ignore[misc]
        return np.empty((0, 2))
    merged = math.ceil(dates / table["dates"].min())  # type: ignore[arg-type, call-arg]
    blocks = len(table) // merged
    counts = table["count"].to_numpy(dtype=float)
    sums = np.nan_to_num(table[["mean", "mean_square"]].to_numpy()) * counts[:, None]
    kept = slice(len(table) - blocks * merged, None)
    counts = counts[kept].reshape(blocks, merged).sum(1)
    known = counts > 0
    return summarize(sums[kept].reshape(blocks, merged, 2).sum(1)[known] / counts[known, None])


def compare_with_blocks(newer: Float64[np.ndarray, " 2"], blocks: Float64[np.ndarray, "blocks 2"]) -> float:
    """p-value of the test that the mean and the standard deviation of newer rows are those of one more block.

    With the mean m and the standard deviation s of a statistic over k blocks of the same length, (newer − m) / (s √(1 +
    1/k)) has Student's t distribution with k − 1 degrees of freedom: the test of a prediction interval. The blocks hold
    the seasons and slow changes of the run, so a cold month is no drift if the run had cold months. The p-value is the
    smaller one of the two statistics, times 2 (Bonferroni); NaN with fewer than `MIN_BLOCKS` blocks.
    """
    from scipy.special import stdtr

    k = len(blocks)
    if k < MIN_BLOCKS:
        return math.nan
    change, spread = newer - blocks.mean(0), blocks.std(0, ddof=1) * math.sqrt(1 + 1 / k)
    changed = np.abs(change) > 1e-6  # a constant column has no spread
    statistic = np.where(changed, change / np.where(spread > 0, spread, 1e-12), 0.0)
    return min(1.0, 2 * float((2 * stdtr(k - 1, -np.abs(statistic))).min()))


class Advice(StrEnum):
    KEEP = "keep"  # neither errors, coverage nor inputs have changed beyond chance
    RETRAIN = "retrain"  # at least one of them has
    UNKNOWN = "unknown"  # there are too few forecasts to tell


class Verdict(NamedTuple):
    """The changes from the test to the newer rows.

    They are of the log of the error relative to the baseline (`errors`) and of the mean coverage (`coverage`, absent if
    the run has no intervals).
    """

    baseline: str  # of the lowest MSE in the test among those without parameters, which become out of date
    changes: dict[str, LossDifference]
    p_values: dict[str, float]  # adjusted for the number of tests; tests that were not possible are absent

    @property
    def significant(self) -> list[str]:
        return [name for name, p in self.p_values.items() if p < SIGNIFICANCE_LEVEL]

    @property
    def advice(self) -> Advice:
        """The advice. If nothing has changed, the probability of `RETRAIN` is at most `SIGNIFICANCE_LEVEL`."""
        if self.significant:
            return Advice.RETRAIN
        return Advice.KEEP if "errors" in self.p_values else Advice.UNKNOWN


def compare_periods(newer: Period, test: Period, drift: Mapping[str, Drift]) -> Verdict:
    """Test whether errors have grown, coverage has fallen, or inputs have changed; see the module."""
    lasting = [name for name, facts in BASELINES.items() if name in test.mse and not facts.has_parameters]
    baseline = min(lasting, key=lambda name: test.mse[name].mean())
    errors = (log_errors(each, MODEL, test) - log_errors(each, baseline, test) for each in (newer, test))
    changes = {"errors": compare_with_test(*errors, newer.overlap, test)}  # type: ignore[call-arg]
    if newer.coverage is not None and test.coverage is not None:
        changes["coverage"] = compare_with_test(newer.coverage, test.coverage, newer.overlap, test)
    p_values = {}
    for name, change in changes.items():
        if change.degrees_of_freedom:  # one-sided: errors grow, coverage falls
            is_worse = (change.mean > 0) == (name == "errors")
            p_values[name] = change.p_value / 2 if is_worse else 1 - change.p_value / 2
    tested = [one.p for one in drift.values() if not math.isnan(one.p)]
    if tested:
        p_values["inputs"] = min(1.0, len(tested) * min(tested))
    factors = holm_factors(p_values)
    return Verdict(baseline, changes, {name: min(1.0, factors[name] * p) for name, p in p_values.items()})


def log_errors(period: Period, forecaster: str, test: Period) -> Float64[np.ndarray, " n"]:
    """The logarithm of each error; see `SMALLEST`."""
    smallest = SMALLEST * test.mse[forecaster].mean()
    return np.log(np.maximum(period.mse[forecaster], smallest or np.finfo(float).tiny))


def compare_with_test(
    newer: Float64[np.ndarray, " n"], tested: Float64[np.ndarray, " m"], overlap: int, test: Period
) -> LossDifference:
    """The change of a mean, with the long-run variance of the test.

    There is no test with fewer newer dates than two forecasts need that share no step (2 · `overlap`), or fewer than 5.
    """
    newer, tested = newer[~np.isnan(newer)], tested[~np.isnan(tested)]
    if len(newer) < max(2 * overlap, 5) or not len(tested):
        return LossDifference(float(newer.mean() - tested.mean()) if len(newer) else math.nan, math.nan, 0.0)
    span = max(test.overlap, min(test.dates_of_a_week, len(tested) // 2))
    found = diebold_mariano(tested, np.zeros(len(tested)), span)
    variance = found.variance * (1 + len(tested) / len(newer))
    return LossDifference(float(newer.mean() - found.mean), variance, found.degrees_of_freedom)


class Findings(NamedTuple):
    model: TrainedModel
    test: Period
    newer: Period  # which may have no forecasts
    verdict: Verdict
    coverage: dict[str, dict[str, float]]  # of the newer values, by method and level
    drift: dict[str, Drift]  # of each column of the inputs, the largest first

    def content(self) -> dict[str, Any]:
        """The findings in values that JSON can hold."""
        verdict, changes, offset = self.verdict, self.verdict.changes, utc_offset_of(self.model.data_state)
        return {
            "checkpoint": str(self.model.path),
            "verdict": verdict.advice,
            "p_values": verdict.p_values,
            "changed": verdict.significant,
            "baseline": verdict.baseline,
            "periods": {
                name: {
                    "first": str(offset.zoned(period.dates[:1])[0]) if len(period.dates) else None,
                    "last": str(offset.zoned(period.dates[-1:])[0]) if len(period.dates) else None,
                    "origins": len(period.dates),
                    "mse": {each: float(losses.mean()) for each, losses in period.mse.items() if len(losses)},
                }
                for name, period in (("test", self.test), ("newer", self.newer))
            },
            "relative_error": summarize_change(changes["errors"], np.expm1),
            "mean_coverage": summarize_change(changes["coverage"]) if "coverage" in changes else None,
            "coverage": {"test": self.model.test.coverage if self.model.test else {}, "newer": self.coverage},
            "drift": {name: drift._asdict() for name, drift in self.drift.items()},
        }


def examine(model: TrainedModel, data: DataModule | None) -> Findings:
    """Score the forecasts of the rows after the test, and compare them with the test and the inputs of the run.

    `data` are read, but need not be set up; None: there are no rows.
    """
    test, run_inputs = read_test(model)
    end = None if data is None else find_end(model, test, data.source_panel)
    if data is None or end is None or not has_newer_window(model, data.source_panel, end):
        nothing = Period.empty(test)
        return Findings(model, test, nothing, compare_periods(nothing, test, {}), {}, {})
    data = model.data(data, find_unread_columns(list_forecasters(model)))
    keep_windows_after(data, end)
    content, results = evaluate(model, data)
    newer = Period.of_windows(tabulate_windows(data, results), data.windows["test"].overlap)
    if model.refitted is not None:  # the inputs of the run have the scale of the tested model
        data = data.with_state(model.tested().data_state)
    newer_inputs = inputs.tabulate_inputs(data, find_rows_after(data.panel, end), blocks=1)
    drift = measure_drift(newer_inputs, run_inputs)
    verdict = compare_periods(newer, test, drift)
    return Findings(model, test, newer, verdict, ReportedScores.read(content).coverage, drift)


def summarize_change(change: LossDifference, scale: Callable[[float], float] = float) -> dict[str, Any] | None:
    """A change with its 95% interval, null where there are too few rows; `scale` is applied to each."""
    if math.isnan(change.mean):
        return None
    interval = [float(scale(bound)) for bound in change.interval()] if change.degrees_of_freedom else None
    return {"mean": float(scale(change.mean)), "interval": interval}


def describe(findings: Findings) -> list[str]:
    content, model, verdict = findings.content(), findings.model, findings.verdict
    periods, lines = content["periods"], []
    for name, period in periods.items():
        dates = f", {period['first']} to {period['last']}" if period["origins"] else ""
        lines.append(f"{name:<10} {period['origins']:,} origins{dates}")
    advice = f"verdict    {explain(verdict)}"
    if not periods["newer"]["origins"]:
        needed = f"the file needs {model.pred_len} rows after the test and {model.seq_len} before them"
        return [*lines, f"           no forecast can be scored: {needed}", advice]
    labels = {MODEL: "MSE", verdict.baseline: f"MSE of the {LABELS[verdict.baseline]} forecast"}
    newer, test = (periods[name]["mse"] for name in ("newer", "test"))
    means = [f"{label} {newer[name]:.3f}, in the test {test[name]:.3f}" for name, label in labels.items()]
    lines += [
        f"errors     {'; '.join(means)}",
        "           the model's error relative to that forecast has changed since the test by "
        f"{in_percent(content['relative_error'])}",
    ]
    if content["mean_coverage"]:
        lines.append(f"coverage   change of the mean over levels {in_percent(content['mean_coverage'])}")
    lines += [
        f"inputs     {name}: mean {drift.mean:+.2f}, standard deviation {drift.standard_deviation:.2f} (scaled)"
        for name, drift in list(findings.drift.items())[:MAX_COLUMNS]
    ]
    return [*lines, advice]


def in_percent(change: Mapping[str, Any]) -> str:
    if change["interval"] is None:
        return f"{change['mean']:+.1%}"
    low, high = change["interval"]
    return f"{change['mean']:+.1%} [{low:+.1%}, {high:+.1%}]"


def explain(verdict: Verdict) -> str:
    """The advice in a sentence, with the adjusted p-values."""
    if verdict.advice is Advice.UNKNOWN:
        return "unknown: too few newer rows to tell; repeat this when there are more"
    p_values = ", ".join(f"{name} (p {p:.2g})" for name, p in verdict.p_values.items())
    if verdict.advice is Advice.KEEP:
        return f"keep the model: no change beyond chance of {p_values}"
    reasons = {
        "errors": f"the errors have grown relative to those of the {LABELS[verdict.baseline]} forecast",
        "coverage": "the intervals cover less than in the test",
        "inputs": "the inputs differ from those of the run",
    }
    return f"train again: {', and '.join(reasons[name] for name in verdict.significant)}; tested: {p_values}"


def draw(findings: Findings) -> Figure:
    """Draw the squared errors of the model and the baseline over the test and the newer rows, as running means."""
    figure, axis = subplots(figsize=(9, 3.6))
    names = {MODEL: "model", findings.verdict.baseline: LABELS[findings.verdict.baseline]}
    for period in (findings.test, findings.newer):
        if not len(period.dates):
            continue
        dates = utc_offset_of(findings.model.data_state).shown(period.dates)
        width = max(1, min(period.overlap, len(dates) // 4))
        for name, label in names.items():
            running = np.convolve(period.mse[name], np.full(width, 1 / width), "valid")
            colour = BASELINE_LINES.get(label, {"color": MODEL_COLOUR})["color"]
            shown = label if period is findings.test else None
            axis.plot(dates[width // 2 :][: len(running)], running, color=colour, linewidth=1, label=shown)
            mean = float(period.mse[name].mean())
            axis.hlines(mean, dates[0], dates[-1], color=colour, linewidth=0.8, linestyle=":")
        if period is findings.newer:
            axis.axvline(dates[0], color="#999999", linewidth=0.8)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("MSE (scaled)")
    axis.set_title("by the date of the forecast: test, then newer rows; dotted: means", fontsize=10)
    style_axis(axis)
    format_dates(axis, 3, 10)
    axis.legend(frameon=False)
    figure.tight_layout()
    return figure
