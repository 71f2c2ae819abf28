"""Date ticks on an axis of positions."""

from typing import Literal

import matplotlib.dates as mdates
import numpy as np
from matplotlib.axes import Axes

from forecast.tools.explain.timeline import Timeline

MAX_NAMES = 20


def mark_time(axis: Axes, when: Timeline, which: Literal["x", "y"]) -> None:
    """Label an axis with dates; draw a dashed line at the origin and solid lines between stretches."""
    places, labels = time_ticks(when)
    side = axis.xaxis if which == "x" else axis.yaxis
    side.set_ticks(places, labels, parse_math=False)
    axis.tick_params(axis=which, labelsize=8)
    line = axis.axvline if which == "x" else axis.axhline
    if when.origin is not None:
        line(when.origin, color="black", linewidth=1, linestyle="--")
    for stretch in when.stretches[1:]:
        line(stretch.start - 0.5, color="black", linewidth=1)


def time_ticks(when: Timeline, most: int = 7) -> tuple[np.ndarray, list[str]]:
    """Positions of round dates and their labels; for joint variables, the middle of each variable and its name."""
    if names := when.names:
        every = slice(None, None, -(-len(names) // MAX_NAMES))
        middles = [(stretch.start + stretch.stop - 1) / 2 for stretch in when.stretches]
        return np.array(middles[every]), names[every]
    dates = mdates.date2num(when.when.to_numpy())
    locator = mdates.AutoDateLocator(minticks=1, maxticks=max(most // len(when.stretches), 2))
    formatter = mdates.ConciseDateFormatter(
        locator,
        formats=["%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%S"],
        zero_formats=["%Y", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M"],
        show_offset=False,
    )
    places, found = [], []
    for stretch in when.stretches:
        inside = dates[stretch.start : stretch.stop]
        first, last = mdates.num2date(inside[0]), mdates.num2date(inside[-1])
        ticks = np.asarray(locator.tick_values(first, last)) if len(stretch) > 1 else inside
        ticks = ticks[(ticks >= inside[0]) & (ticks <= inside[-1])]
        places += (stretch.start + np.interp(ticks, inside, np.arange(len(stretch)))).tolist()
        found += ticks.tolist()
    if len(found) == 1:  # one tick does not tell the formatter how fine its dates are
        return np.asarray(places), [f"{mdates.num2date(found[0]):%d %b %H:%M}"]
    return np.asarray(places), formatter.format_ticks(found)


def format_span(when: Timeline) -> str:
    """The first and the last date."""
    return f"{when.when.min():%Y-%m-%d %H:%M} to {when.when.max():%Y-%m-%d %H:%M}"
