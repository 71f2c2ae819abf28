"""The findings of `forecast.monitor`: lines for the terminal, JSON and a picture."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from forecast.data.utc_offset import UtcOffset, utc_offset_of
from forecast.evaluation.forecaster_names import LABELS, MODEL
from forecast.evaluation.loss_difference import LossDifference
from forecast.inference.model import TrainedModel
from forecast.reports.compare.number_format import format_interval, format_percent
from forecast.reports.figures import BASELINE_LINES, MODEL_COLOUR, format_dates, style_axis, subplots
from forecast.tools.monitor.drift import Drift
from forecast.tools.monitor.verdict import Advice, Verdict
from forecast.tools.monitor.windows import Period

MAX_COLUMNS = 5
"""Number of columns whose drift the terminal shows."""


@dataclass(frozen=True)
class Findings:
    """The findings on newer rows.

    Attributes:
        model: the model.
        test, newer: errors in the test and on the newer rows.
        verdict: the tests of the difference.
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
    def utc_offset(self) -> UtcOffset:
        """That of the dates of both periods, which are shown in the zone of the training data."""
        return utc_offset_of(self.model.data_state)

    def content(self) -> dict[str, Any]:
        """The findings in values that JSON can hold."""
        verdict = self.verdict
        return {
            "checkpoint": str(self.model.path),
            "advice": verdict.advice,
            "baseline": verdict.baseline,
            "periods": {
                name: {
                    "first": str(self.utc_offset.zoned(period.dates[:1])[0]),
                    "last": str(self.utc_offset.zoned(period.dates[-1:])[0]),
                    "origins": len(period.dates),
                    "mse": {each: float(losses.mean()) for each, losses in period.mse.items()},
                }
                for name, period in (("test", self.test), ("newer", self.newer))
            },
            "change_of_mse": describe_change(verdict.error),
            "excess_over_baseline": describe_change(verdict.excess),
            "coverage": {"test": self.model.test.coverage if self.model.test else {}, "newer": self.coverage},
            "drift": {name: drift._asdict() for name, drift in self.drift.items()},
        }


def describe_change(change: LossDifference) -> dict[str, Any]:
    """A change with its 95% interval and p-value; null where there are too few rows."""
    has_test = bool(change.degrees_of_freedom)
    return {
        "mean": change.mean,
        "interval": list(change.interval()) if has_test else None,
        "p": change.p_value if has_test else None,
    }


def describe(findings: Findings) -> list[str]:
    """Lines for the terminal."""
    test, newer, verdict = findings.test, findings.newer, findings.verdict
    baseline = LABELS[verdict.baseline]
    lines = [
        f"test       {span(test, findings.utc_offset)}",
        f"newer      {span(newer, findings.utc_offset)}",
        f"MSE        {newer.mse[MODEL].mean():.3f}, in the test {test.mse[MODEL].mean():.3f}: "
        f"{relative(verdict.error, test.mse[MODEL].mean())}",
        f"           {baseline} forecast: {newer.mse[verdict.baseline].mean():.3f}, in the test "
        f"{test.mse[verdict.baseline].mean():.3f}",
    ]
    for method, levels in findings.coverage.items():
        before = findings.model.test.coverage.get(method, {}) if findings.model.test else {}
        lines += [
            f"coverage   the {level}% interval ({method}) covers {share:.1%}, in the test {before[level]:.1%}"
            for level, share in levels.items()
            if level in before and np.isfinite(share)
        ]
    lines += [f"coverage   {line}" for line in findings.misses.values()]
    lines += describe_drift(findings.drift, findings.model.config["data"]["scaler"])
    return [*lines, f"verdict    {explain(verdict)}"]


def describe_drift(drift: dict[str, Drift], scaler: str) -> list[str]:
    """Lines on the first columns of `drift`, scaled by data.scaler=`scaler`."""
    training = " (training: 0 and 1)" if scaler == "standard" else ""
    return [
        f"{'' if number else 'inputs':<10} {name}: mean {column.mean:+.2f}, "
        f"standard deviation {column.standard_deviation:.2f}{training}"
        for number, (name, column) in enumerate(list(drift.items())[:MAX_COLUMNS])
    ]


def span(period: Period, utc_offset: UtcOffset) -> str:
    """The dates of a period."""
    dates = utc_offset.shown(period.dates)
    return f"{len(dates):,} origins, {dates[0]} to {dates[-1]}"


def relative(change: LossDifference, before: float) -> str:
    """A change relative to the loss before it, with its interval."""
    if not before:
        return f"{change.mean:+.3f}"
    return f"{format_percent(change.mean / before)} {format_interval(change)}"


def explain(verdict: Verdict) -> str:
    """The advice in a sentence."""
    baseline = LABELS[verdict.baseline]
    return {
        Advice.KEEP: "keep the model: its errors have not grown beyond chance",
        Advice.RETRAIN: (
            f"train again: the errors have grown (p {verdict.error.p_value:.2g}), and by more than those of the "
            f"{baseline} forecast (p {verdict.excess.p_value:.2g})"
        ),
        Advice.HARDER: (
            f"keep the model: the errors have grown (p {verdict.error.p_value:.2g}), but no more than those of the "
            f"{baseline} forecast: the newer rows are harder"
        ),
        Advice.UNKNOWN: "too few newer rows to tell: repeat this when there are more",
    }[verdict.advice]


def draw(findings: Findings) -> Figure:
    """Draw the squared errors of the model and the baseline over the test and the newer rows, as running means."""
    figure, axis = subplots(figsize=(9, 3.6))
    names = {MODEL: "model", findings.verdict.baseline: LABELS[findings.verdict.baseline]}
    for period in (findings.test, findings.newer):
        dates = findings.utc_offset.shown(period.dates)
        width = max(1, min(period.overlap, len(period.dates) // 4))
        for name, label in names.items():
            running = np.convolve(period.mse[name], np.full(width, 1 / width), "valid")
            colour = BASELINE_LINES.get(label, {"color": MODEL_COLOUR})["color"]
            middle = dates[width // 2 :][: len(running)]
            style = {"linewidth": 1.2, "zorder": 3} if name == MODEL else {"linewidth": 0.8, "alpha": 0.6}
            axis.plot(
                middle, running, color=colour, label=label if period is findings.test else None, **style
            )  # fmt: skip
            mean = float(period.mse[name].mean())
            axis.hlines(
                mean, dates[0], dates[-1], color=colour,
                linewidth=0.8, linestyle=":",
            )  # fmt: skip
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
