"""The figure of a benchmark: time and peak memory against the length."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from forecast.reports.colours import attention_colour
from forecast.reports.figures import style_axis, subplots
from forecast.reports.line_labels import label_ends
from forecast.tools.benchmark.measurement import REFERENCE
from forecast.tools.benchmark.workloads import NO_MIXING


def growth_figure(rows: pd.DataFrame, title: str) -> Figure:
    """Draw time and peak memory for one sequence, forward and backward, against its length, with logarithmic axes."""
    rows = rows[rows["backward"]].assign(
        n=lambda r: r["length"].astype(str).str.split("/").str[0].astype(int)
    )
    measured = {
        c: unit for c, unit in {"median": "seconds", "peak_mib": "MiB"}.items() if np.any(rows[c] > 0)
    }
    figure, grid = subplots(1, len(measured), figsize=(5.5 * len(measured), 4.4), squeeze=False)
    axes = grid[0]
    for axis, (column, unit) in zip(axes, measured.items(), strict=True):
        types, ends = list(map(str, rows["attention"].unique())), {}
        for attention, points in rows.groupby("attention", sort=False):
            style = {
                "color": attention_colour(str(attention), types),
                "linewidth": 2.2 if attention == REFERENCE else 1.6,
            }
            style |= {"linestyle": ":", "color": "#888888"} if attention == NO_MIXING else {}
            values = points[column] / points["batch"]
            ends[str(attention)] = float(values.iloc[-1]), style["color"]
            axis.plot(points["n"], values, marker="o", markersize=3.5, label=attention, **style)
            if column == "median":
                low, high = points["fastest"] / points["batch"], points["slowest"] / points["batch"]
                axis.fill_between(points["n"], low, high, color=style["color"], alpha=0.15, linewidth=0)
        axis.set(xscale="log", yscale="log", xlabel="length", ylabel=f"{unit} a sequence")
        axis.set_xticks(sorted(rows["n"].unique()), sorted(rows["n"].unique()), minor=False)
        axis.minorticks_off()
        style_axis(axis, which="both")
        label_ends(axis, ends)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    return figure
