"""The findings of `forecast.monitor`: lines for the terminal, JSON and a picture."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from forecast.data.calendars import UtcOffset, utc_offset_of
from forecast.evaluation.scores import LABELS, MODEL
from forecast.evaluation.significance import LossDifference
from forecast.inference.model import TrainedModel
from forecast.reports.figures import BASELINE_LINES, MODEL_COLOUR, format_dates, style_axis, subplots
from forecast.tools.monitor.verdict import Advice, Drift, Period, Verdict

MAX_COLUMNS = 5
"""Number of columns whose drift the terminal shows."""


@dataclass(frozen=True)
class Findings:
    """The findings on newer rows.

    Attributes:
        model: the model.
        test, newer: errors in the test and on the newer rows, which may have no forecasts.
        verdict: the tests of the changes.
        coverage: fraction of the newer values in each interval, by method and level.
        misses: why a coverage of the newer values misses its level, by method.
        drift: drift of each column of the inputs, the largest first.
    """

    model: TrainedModel
    test: Period
    newer: Period
    verdict: Verdict
    coverage: dict[str, dict[str, float]]
    misses: dict[str, str]
    drift: dict[str, Drift]

    @property
    def periods(self) -> dict[str, Period]:
        """Both periods by name."""
        return {"test": self.test, "newer": self.newer}

    @property
    def utc_offset(self) -> UtcOffset:
        """That of the dates of both periods, which are shown in the zone of the training data."""
        return utc_offset_of(self.model.data_state)

    def content(self) -> dict[str, Any]:
        """The findings in values that JSON can hold."""
        verdict = self.verdict
        return {
            "checkpoint": str(self.model.path),
            "verdict": verdict.advice,
            "p_values": verdict.p_values,
            "changed": verdict.significant,
            "baseline": verdict.baseline,
            "periods": {
                name: {
                    "first": str(self.utc_offset.zoned(period.dates[:1])[0]) if len(period.dates) else None,
                    "last": str(self.utc_offset.zoned(period.dates[-1:])[0]) if len(period.dates) else None,
                    "origins": len(period.dates),
                    "mse": {each: float(losses.mean()) for each, losses in period.mse.items() if len(losses)},
                }
                for name, period in self.periods.items()
            },
            "relative_error": describe_change(verdict.changes["errors"], np.expm1),
            "mean_coverage": describe_change(verdict.changes["coverage"])
            if "coverage" in verdict.changes
            else None,
            "coverage": {"test": self.model.test.coverage if self.model.test else {}, "newer": self.coverage},
            "drift": {name: drift._asdict() for name, drift in self.drift.items()},
        }


def describe_change(change: LossDifference, scale: Callable[[float], float] = float) -> dict[str, Any] | None:
    """A change with its 95% interval, null where there are too few rows; `scale` is applied to each."""
    if math.isnan(change.mean):
        return None
    interval = [float(scale(bound)) for bound in change.interval()] if change.degrees_of_freedom else None
    return {"mean": float(scale(change.mean)), "interval": interval}


def describe(findings: Findings) -> list[str]:
    """Lines for the terminal."""
    test, newer, verdict = findings.test, findings.newer, findings.verdict
    lines = [f"{name:<10} {span(period, findings.utc_offset)}" for name, period in findings.periods.items()]
    if len(newer.dates):
        names = {MODEL: "MSE", verdict.baseline: f"MSE of the {LABELS[verdict.baseline]} forecast"}
        means = [
            f"{label} {newer.mse[name].mean():.3f}, in the test {test.mse[name].mean():.3f}"
            for name, label in names.items()
        ]
        lines += [
            f"errors     {'; '.join(means)}",
            "           the model's error relative to that forecast has changed since the test by "
            f"{in_percent(verdict.changes['errors'])}{with_p(verdict, 'errors')}",
        ]
        lines += describe_coverage(findings)
        lines += [f"coverage   {line}" for line in findings.misses.values()]
        lines += describe_drift(findings.drift, findings.model.config["data"]["scaler"])
    else:
        seq_len, pred_len = findings.model.seq_len, findings.model.pred_len
        lines.append(
            f"           no forecast can be scored: the file needs {pred_len} rows after the test and {seq_len} before "
            "them"
        )
    return [*lines, f"verdict    {explain(verdict)}"]


def describe_coverage(findings: Findings) -> list[str]:
    """Lines on the coverage of each interval, and on the change of their mean."""
    before = findings.model.test.coverage if findings.model.test else {}
    lines = [
        f"the {level}% interval ({method}) covers {share:.1%}, in the test {before[method][level]:.1%}"
        for method, levels in findings.coverage.items()
        for level, share in levels.items()
        if level in before.get(method, {}) and np.isfinite(share)
    ]
    if lines and (change := findings.verdict.changes.get("coverage")):
        lines[-1] += (
            f"; change of the mean over levels {change.mean:+.1%}{with_p(findings.verdict, 'coverage')}"
        )
    return [f"{'' if number else 'coverage':<10} {line}" for number, line in enumerate(lines)]


def describe_drift(drift: dict[str, Drift], scaler: str) -> list[str]:
    """Lines on the first columns of `drift`, scaled by data.scaler=`scaler`."""
    tested = sum(not math.isnan(column.p) for column in drift.values())
    training = " (training: 0 and 1)" if scaler == "standard" else ""
    return [
        f"{'' if number else 'inputs':<10} {name}: mean {column.mean:+.2f}, "
        f"standard deviation {column.standard_deviation:.2f}{training}"
        + ("" if math.isnan(column.p) else f"; p {min(1.0, tested * column.p):.2g}")
        for number, (name, column) in enumerate(list(drift.items())[:MAX_COLUMNS])
    ]


def span(period: Period, utc_offset: UtcOffset) -> str:
    """The dates of a period."""
    if not len(period.dates):
        return "0 origins"
    dates = utc_offset.shown(period.dates)
    return f"{len(dates):,} origins, {dates[0]} to {dates[-1]}"


def in_percent(change: LossDifference) -> str:
    """A change of a logarithm as a relative change, with its 95% interval."""
    if not change.degrees_of_freedom:
        return f"{np.expm1(change.mean):+.1%}"
    low, high = np.expm1(change.interval())
    return f"{np.expm1(change.mean):+.1%} [{low:+.1%}, {high:+.1%}]"


def with_p(verdict: Verdict, test: str) -> str:
    """The adjusted p-value of a test in parentheses; nothing if it was not possible."""
    return f" (p {verdict.p_values[test]:.2g})" if test in verdict.p_values else ""


def explain(verdict: Verdict) -> str:
    """The advice in a sentence."""
    if verdict.advice is Advice.UNKNOWN:
        return "unknown: too few newer rows to tell; repeat this when there are more"
    reasons = {
        "errors": f"the errors have grown relative to those of the {LABELS[verdict.baseline]} forecast",
        "coverage": "the intervals cover less than in the test",
        "inputs": "the inputs differ from those of the run",
    }
    if verdict.advice is Advice.RETRAIN:
        return "train again: " + ", and ".join(
            f"{reasons[name]} (p {verdict.p_values[name]:.2g})" for name in verdict.significant
        )
    missing = [name for name in reasons if name not in verdict.p_values]
    note = f"; {' and '.join(missing)} could not be tested" if missing else ""
    return f"keep the model: no change beyond chance of {', '.join(verdict.p_values)}{note}"


def draw(findings: Findings) -> Figure:
    """Draw the squared errors of the model and the baseline over the test and the newer rows, as running means."""
    figure, axis = subplots(figsize=(9, 3.6))
    names = {MODEL: "model", findings.verdict.baseline: LABELS[findings.verdict.baseline]}
    for period in findings.periods.values():
        if not len(period.dates):
            continue
        dates = findings.utc_offset.shown(period.dates)
        width = max(1, min(period.overlap, len(period.dates) // 4))
        for name, label in names.items():
            running = np.convolve(period.mse[name], np.full(width, 1 / width), "valid")
            colour = BASELINE_LINES.get(label, {"color": MODEL_COLOUR})["color"]
            middle = dates[width // 2 :][: len(running)]
            style = {"linewidth": 1.2, "zorder": 3} if name == MODEL else {"linewidth": 0.8, "alpha": 0.6}
            axis.plot(
                middle, running, color=colour, label=label if period is findings.test else None, **style
            )
            mean = float(period.mse[name].mean())
            axis.hlines(mean, dates[0], dates[-1], color=colour, linewidth=0.8, linestyle=":")
    if len(findings.newer.dates):
        axis.axvline(findings.utc_offset.shown(findings.newer.dates)[0], color="#999999", linewidth=0.8)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("MSE (scaled)")
    axis.set_title(
        "squared error by the date of the forecast: test, and newer rows after the line; dotted: means",
        fontsize=10,
    )
    style_axis(axis)
    format_dates(axis, 3, 10)
    axis.legend(frameon=False)
    figure.tight_layout()
    return figure
