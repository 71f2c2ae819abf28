"""Figures of inputs: their importance as bars, and their contributions to one forecast over its steps."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm
from matplotlib.figure import Figure

from forecast.reports.figures import TRUTH_COLOUR, style_axis, subplots
from forecast.tools.explain.figures import DIFFERENCES, FIRST
from forecast.tools.explain.importance import Importance
from forecast.tools.explain.inputs import InputKind, format_lags
from forecast.tools.explain.time_axis import mark_time
from forecast.tools.explain.timeline import Timeline

MAX_BARS = 12
"""Largest number of bars of a panel, and half of the largest number of rows of a map."""

TITLE_ROWS = 2
"""Height of the title of a panel, in bars."""

TITLES = {
    InputKind.HISTORY: "history: values around the mean of the past",
    InputKind.LEVEL: "level: mean of the past",
    InputKind.COVARIATE: "future covariates",
    InputKind.CALENDAR: "calendar",
    InputKind.STATIC: "static covariates",
}


def importance_figure(found: Sequence[Importance], title: str) -> Figure:
    """Bars of the increase of MSE with its standard deviation: lags on the right, all other inputs on the left."""
    by_kind = {
        name: select_important([one for one in found if one.group.kind == kind])
        for kind, name in TITLES.items()
    }
    lags = [one for one in found if one.group.kind == InputKind.LAGS]
    left = {name: bars for name, bars in by_kind.items() if bars}
    right = {
        f"lags of {name}": [one for one in lags if one.group.name == name]
        for name in dict.fromkeys(one.group.name for one in lags)
    }
    rows = max(sum(len(bars) + TITLE_ROWS for bars in panels.values()) for panels in (left, right))
    figure = Figure(figsize=(10, 0.2 * rows + 1.1), layout="constrained")
    sides = figure.subfigures(1, 2, squeeze=False)[0]
    for side, panels in zip(sides, (left, right), strict=True):
        heights = [len(bars) + TITLE_ROWS for bars in panels.values()]
        spare = rows - sum(heights)  # the bars of both sides are equally high
        axes = side.subplots(
            len(panels) + (spare > 0), 1, squeeze=False, height_ratios=[*heights, *([spare] if spare else [])]
        )[:, 0]  # fmt: skip
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        for axis, (name, bars) in zip(axes, panels.items(), strict=False):
            draw_bars(axis, bars)
            axis.set_title(name, fontsize=9, loc="left", parse_math=False)
            axis.set_xlim(*find_limits([one for bars in panels.values() for one in bars]))
            axis.tick_params(labelbottom=axis is axes[len(panels) - 1])
        axes[len(panels) - 1].set_xlabel("increase of MSE (scaled)", fontsize=9)
    figure.suptitle(title, fontsize=11, parse_math=False)
    return figure


def find_limits(bars: Sequence[Importance]) -> tuple[float, float]:
    """The ends of an axis that holds all bars, their deviations and their numbers."""
    low = min(0.0, *(one.mse - one.mse_std for one in bars))
    high = max(1e-12, *(one.mse + one.mse_std for one in bars))
    return low - 0.02 * (high - low), high + 0.15 * (high - low)


def select_important(bars: Sequence[Importance]) -> list[Importance]:
    """The most important groups of a kind, the most important first."""
    return sorted(bars, key=lambda one: -one.mse)[:MAX_BARS]


def draw_bars(axis: Axes, bars: Sequence[Importance]) -> None:
    """Draw one bar for each group from top to bottom, with its value."""
    places = np.arange(len(bars))
    values = np.array([one.mse for one in bars])
    deviations = np.array([one.mse_std for one in bars])
    axis.barh(places, values, height=0.7, color=FIRST)
    axis.errorbar(values, places, xerr=deviations, fmt="none", ecolor=TRUTH_COLOUR, elinewidth=1, capsize=2)
    for place, value, deviation in zip(places, values, deviations, strict=True):
        axis.annotate(
            f"{value:.2g}", (max(value, 0) + deviation, place), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=7,
        )  # fmt: skip
    names = [one.group.name if one.group.lags is None else format_lags(one.group.lags) for one in bars]
    axis.set_yticks(places, names, fontsize=8, parse_math=False)
    axis.set_ylim(len(bars) - 0.4, -0.6)
    axis.axvline(0, color="#777777", linewidth=0.8)
    style_axis(axis)
    axis.tick_params(axis="x", labelsize=8)


def contribution_figure(
    values: Float64[np.ndarray, "groups pred_len"],
    labels: Sequence[str],
    dates: pd.DatetimeIndex,
    forecast: Float64[np.ndarray, " pred_len"],
    truth: Float64[np.ndarray, " pred_len"],
    title: str,
) -> Figure:
    """The forecast of one column and its truth, and below them the contribution of each group at each step.

    Groups are ordered by their mean absolute contribution, which stands beside their names.
    """
    size = np.abs(values).mean(axis=1)
    shown = np.argsort(-size, kind="stable")[: 2 * MAX_BARS]
    height = 0.2 * len(shown)
    figure, (above, below) = subplots(
        2, 1, figsize=(10, height + 3.4), sharex=True, layout="constrained", height_ratios=[1.6, height + 0.4]
    )
    above.plot(truth, color=TRUTH_COLOUR, linewidth=1.1, label="truth")
    above.plot(forecast, color=FIRST, linewidth=1.8, label="forecast")
    above.legend(
        frameon=False, fontsize=8, ncols=2, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0
    )
    style_axis(above)
    above.tick_params(labelsize=8)
    limit = max(float(np.quantile(np.abs(values[shown]), 0.99)), 1e-12)
    drawn = below.imshow(
        values[shown], cmap=DIFFERENCES, norm=CenteredNorm(0, limit), aspect="auto", interpolation="nearest",
        extent=(-0.5, len(dates) - 0.5, len(shown) - 0.5, -0.5),
    )  # fmt: skip
    rounding = 1e-6 * float(size.max())
    names = [f"{labels[i]}   {size[i] if size[i] > rounding else 0:.2g}" for i in shown]
    below.set_yticks(np.arange(len(shown)), names, fontsize=8, parse_math=False)
    mark_time(below, Timeline(np.arange(len(dates)), dates, seq_len=0), "x")
    bar = figure.colorbar(
        drawn, ax=below, location="bottom", aspect=40, shrink=0.8, pad=0.01, extend="both",
        label="contribution to the forecast, in original units",
    )  # fmt: skip
    bar.ax.tick_params(labelsize=8)
    figure.suptitle(title, fontsize=11, parse_math=False)
    return figure
