"""The pictures of docs/results.md. Each says in its file which cells it was drawn from, so that a stale one shows."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from forecast.files import whole_file
from forecast.plots import BASELINES, MODEL, TRUTH, kind_colour, subplots
from results.cells import KINDS
from results.result import Result, score
from results.sections import least_errors

COSTS = {"mse": "test MSE", "seconds": "seconds a run", "peak_memory_mb": "peak MiB"}
DRAWN_FROM = "Description"
"""The key in a PNG file that holds the digest of its results."""


def windows_figure(result: Result) -> Figure:
    """A column a data set that has run; its error, time and memory by the steps read, a line a kind."""
    sets = [data for data in result.has("data") if result.pick(data=data).rows]
    figure, axes = subplots(len(COSTS), len(sets), figsize=(4.2 * len(sets), 8.0), squeeze=False, sharex=True)
    for column, data in enumerate(sets):
        group = result.pick(data=data)
        lengths, (horizon,) = group.has("steps_read"), group.has("horizon")
        for axis, (key, label) in zip(axes[:, column], COSTS.items(), strict=True):
            if key == "mse":
                linear = [group.pick(steps_read=steps).mean("linear_mse") for steps in lengths]
                axis.plot(lengths, linear, color="#888888", linestyle="--", label="linear baseline")
                axis.set_title(f"{data}, {horizon} steps ahead", fontsize=11)
            for number, kind in enumerate(KINDS):
                values = [group.pick(steps_read=steps, kind=kind).mean(key) for steps in lengths]
                axis.plot(
                    lengths, values, marker="o", markersize=3.5, label=kind, color=kind_colour(kind, number)
                )
            axis.set(xscale="log", ylabel=label if column == 0 else None)
            if key != "mse":
                axis.set_ylim(bottom=0)
            axis.set_xticks(lengths, [f"{steps:,}" for steps in lengths])
            axis.minorticks_off()
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
        axes[-1, column].set_xlabel("steps read")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure


def recall_figure(result: Result) -> Figure:
    """A bar a window and kind, a point a seed, between the least errors with and without what is to be recalled."""
    (horizon,) = result.has("horizon")
    short, long = least_errors(horizon)
    bars = [
        (steps, label) for steps in result.has("steps_read") for label in past(result, steps).has("label")
    ]
    groups = [past(result, steps).pick(label=label) for steps, label in bars]
    values, seeds = [g.mean() for g in groups], [[row["mse"] for row in g.rows] for g in groups]
    linear = [past(result, steps).mean("linear_mse") for steps, _ in bars]
    places = range(len(bars))
    figure, axis = subplots(figsize=(8.4, 0.36 * len(bars) + 1.5))
    axis.barh(places, values, color=MODEL)
    style = {"linestyle": "none", "zorder": 3}
    colour = BASELINES["linear map"]
    axis.plot(
        linear, places, marker="D", color=colour, markersize=5, label="linear map, same window", **style
    )
    each = [(value, place) for place, found in zip(places, seeds, strict=True) for value in found]
    axis.plot(
        *zip(*each, strict=True),
        "o",
        color="white",
        markeredgecolor=TRUTH,
        markersize=4,
        label="a seed",
        **style,
    )
    axis.set_yticks(places, [f"{steps:,} steps, {label.replace('`', '')}" for steps, label in bars])
    axis.invert_yaxis()
    number = {"va": "center", "fontsize": 8, "textcoords": "offset points", "zorder": 4}
    number["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    for place, value, found in zip(places, values, seeds, strict=True):
        axis.annotate(score(value), (max(found, default=0), place), (6, 0), **number)
    for value, name in ((short, "the least error\nwithout recall"), (long, "the least\nwith it")):
        axis.axvline(value, color=TRUTH, linestyle="--", linewidth=1)
        top = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        axis.annotate(name, (value, 1), (0, 3), ha="center", fontsize=8, **top)
    axis.set_xlabel("test MSE")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8, loc="lower right")
    figure.tight_layout()
    return figure


def past(result: Result, steps: int) -> Result:
    return result.pick(steps_read=steps)


PICTURES: dict[str, Callable[[Result], Figure]] = {"windows": windows_figure, "recall": recall_figure}
"""Of the tables that have one: docs/results/TABLE.png."""


def digest(result: Result) -> str:
    """Of the figures that a picture shows."""
    shown = [
        (cell.name, None if row is None else [row[key] for key in (*COSTS, "linear_mse")])
        for cell, row in result.pairs
    ]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()


def drawn_from(path: Path) -> str | None:
    """The digest of the results that a picture was drawn from; None where there is no picture."""
    if not path.exists():
        return None
    with Image.open(path) as picture:
        return str(picture.info.get(DRAWN_FROM))


def save(folder: Path, table: str, result: Result) -> None:
    """docs/results/TABLE.png, where it is not of these results yet."""
    path, wanted = folder / f"{table}.png", digest(result)
    if drawn_from(path) == wanted:
        return
    with whole_file(path) as temporary:
        PICTURES[table](result).savefig(temporary, format="png", dpi=110, metadata={DRAWN_FROM: wanted})
