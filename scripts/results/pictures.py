"""The pictures of docs/results.md. Each contains a digest of its results, so that an outdated picture is detected."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from forecast.evaluation.forecaster_names import LABELS
from forecast.reports.colours import attention_colour
from forecast.reports.figures import BASELINE_LINES, MODEL_COLOUR, TRUTH_COLOUR, subplots
from forecast.system.files import atomic_file
from results.result import Result, score
from results.sections import least_errors
from results.settings import ATTENTION_TYPES

COSTS = {"mse": "test MSE", "seconds": "seconds per run", "peak_memory_mb": "peak MiB"}
DRAWN_FROM = "Description"
"""The key in a PNG file that holds the digest of its results."""


def windows_figure(result: Result) -> Figure:
    """Error, time and memory by window length: one column per data set, one line per attention type."""
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
            for attention in ATTENTION_TYPES:
                values = [group.pick(steps_read=steps, attention=attention).mean(key) for steps in lengths]
                axis.plot(
                    lengths,
                    values,
                    marker="o",
                    markersize=3.5,
                    label=attention,
                    color=attention_colour(attention),
                )
            axis.set(xscale="log", ylabel=label if column == 0 else None)
            if key != "mse":
                axis.set_ylim(bottom=0)
            axis.set_xticks(lengths, [f"{steps:,}" for steps in lengths])
            axis.minorticks_off()
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
        axes[-1, column].set_xlabel("input steps")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure


def recall_figure(result: Result) -> Figure:
    """One bar per window and attention type, one point per seed, and the lowest possible errors."""
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
    axis.barh(places, values, color=MODEL_COLOUR)
    style = {"linestyle": "none", "zorder": 3}
    colour = BASELINE_LINES[LABELS["linear"]]["color"]
    axis.plot(
        linear, places, marker="D", color=colour, markersize=5, label="linear baseline, same window", **style
    )
    each = [(value, place) for place, found in zip(places, seeds, strict=True) for value in found]
    axis.plot(
        *zip(*each, strict=True),
        "o",
        color="white",
        markeredgecolor=TRUTH_COLOUR,
        markersize=4,
        label="one seed",
        **style,
    )
    axis.set_yticks(places, [f"{steps:,} steps, {label.replace('`', '')}" for steps, label in bars])
    axis.invert_yaxis()
    number = {"va": "center", "fontsize": 8, "textcoords": "offset points", "zorder": 4}
    number["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    for place, value, found in zip(places, values, seeds, strict=True):
        axis.annotate(score(value), (max(found, default=0), place), (6, 0), **number)
    for value, name in ((short, "lowest error\nwithout recall"), (long, "lowest error\nwith recall")):
        axis.axvline(value, color=TRUTH_COLOUR, linestyle="--", linewidth=1)
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
"""The tables that have a picture, docs/results/TABLE.png."""


def digest(result: Result) -> str:
    """A digest of the numbers that a picture shows."""
    shown = [
        (cell.name, None if row is None else [row[key] for key in (*COSTS, "linear_mse")])
        for cell, row in result.pairs
    ]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()


def drawn_from(path: Path) -> str | None:
    """The digest in a picture, or None if there is no picture."""
    if not path.exists():
        return None
    with Image.open(path) as picture:
        return str(picture.info.get(DRAWN_FROM))


def save(folder: Path, table: str, result: Result) -> None:
    """Draw docs/results/TABLE.png unless it already shows these results."""
    path, wanted = folder / f"{table}.png", digest(result)
    if drawn_from(path) == wanted:
        return
    with atomic_file(path) as temporary:
        PICTURES[table](result).savefig(temporary, format="png", dpi=110, metadata={DRAWN_FROM: wanted})
