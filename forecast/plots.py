"""The pictures of a run: forecasts against truth, and error along the horizon."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.dates as mdates
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from forecast.files import whole_file

MODEL = "#0b6e99"
BASELINES = {"linear": "#c2571a", "seasonal naive": "#7a7a7a", "naive": "#4b8b3b"}
TRUTH = "#222222"


def forecast_figure(
    dates: Sequence[pd.DatetimeIndex],
    truth: Sequence[np.ndarray],
    forecasts: Mapping[str, Sequence[np.ndarray]],
    variables: Sequence[str],
    pred_len: int,
    title: str,
) -> Figure:
    """A grid, a row a variable and a column a window.

    dates[w]: (shown + pred_len,) timestamps; truth[w]: (shown + pred_len, variables) in data units;
    forecasts[name][w]: (pred_len, variables).
    """
    figure, axes = plt.subplots(
        len(variables), len(dates), figsize=(4.6 * len(dates), 2.3 * len(variables) + 0.9), squeeze=False
    )
    for w, when in enumerate(dates):
        for v, variable in enumerate(variables):
            axis = axes[v, w]
            axis.plot(when, truth[w][:, v], color=TRUTH, linewidth=1.1, label="truth")
            for name, windows in forecasts.items():
                axis.plot(
                    when[-pred_len:], windows[w][:, v], color=BASELINES.get(name, MODEL), linewidth=1.6, label=name,
                    linestyle="--" if name in BASELINES else "-",
                )  # fmt: skip
            axis.axvline(when[-pred_len - 1], color="#999999", linewidth=0.8, linestyle=":")
            ticks = mdates.AutoDateLocator(minticks=2, maxticks=8)
            axis.xaxis.set_major_locator(ticks)
            axis.xaxis.set_major_formatter(mdates.ConciseDateFormatter(ticks))
            axis.tick_params(axis="x", labelsize=8)
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
            if w == 0:
                axis.set_ylabel(variable, parse_math=False)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.suptitle(title, fontsize=11, parse_math=False)
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.09 if len(variables) < 3 else 0.05, 1, 1))
    return figure


def step_figure(errors: Mapping[str, np.ndarray], title: str) -> Figure:
    """Scaled MSE at each step of the horizon, a line for the model and each baseline: errors[name] (pred_len,)."""
    figure, axis = plt.subplots(figsize=(7, 3.6))
    for name, values in errors.items():
        axis.plot(
            np.arange(1, len(values) + 1), values, color=BASELINES.get(name, MODEL), label=name,
            linewidth=1.3 if name in BASELINES else 2,
        )  # fmt: skip
    axis.set(xlabel="step of the horizon", ylabel="MSE (scaled)")
    axis.set_title(title, parse_math=False)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.tight_layout()
    return figure


def growth_figure(rows: pd.DataFrame, title: str) -> Figure:
    """Time and peak memory of one sequence, forward and backward, against its length, both axes logarithmic."""
    rows = rows[rows["backward"]].assign(
        n=lambda r: r["length"].astype(str).str.split("/").str[0].astype(int)
    )
    measured = {
        c: unit for c, unit in {"median": "seconds", "peak_mib": "MiB"}.items() if np.any(rows[c] > 0)
    }
    figure, grid = plt.subplots(1, len(measured), figsize=(5.5 * len(measured), 4.4), squeeze=False)
    axes = grid[0]
    for axis, (column, unit) in zip(axes, measured.items(), strict=True):
        for number, (kind, points) in enumerate(rows.groupby("kind", sort=False)):
            style = (
                {"color": TRUTH, "linewidth": 2.2}
                if kind == "full"
                else {"color": f"C{number}", "linewidth": 1.6}
            )
            style |= {"linestyle": ":", "color": "#888888"} if kind == "no mixing" else {}
            values = points[column] / points["batch"]
            axis.plot(points["n"], values, marker="o", markersize=3.5, label=kind, **style)
            if column == "median":
                low, high = points["fastest"] / points["batch"], points["slowest"] / points["batch"]
                axis.fill_between(points["n"], low, high, color=style["color"], alpha=0.15, linewidth=0)
        axis.set(xscale="log", yscale="log", xlabel="length", ylabel=f"{unit} a sequence")
        axis.grid(alpha=0.25, which="both")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    return figure


def save(figure: Figure, path: Path) -> None:
    with whole_file(path) as temporary:
        figure.savefig(temporary, dpi=110)
    plt.close(figure)
