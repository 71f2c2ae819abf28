"""Names of lines beside their right ends."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes


def label_ends(axis: Axes, lines: Mapping[str, tuple[float, str]], *, gap: float = 0.06) -> None:
    """Write the names of lines beside their right ends, in their colours, without overlap.

    Args:
        axis: the axes, whose limits are final.
        lines: by name, the last value of the line and its colour.
        gap: least distance of two names, as a fraction of the height.
    """
    to_axes = axis.transData + axis.transAxes.inverted()
    x = axis.get_xlim()[0]
    heights = {name: float(to_axes.transform((x, value))[1]) for name, (value, _) in lines.items()}
    names = sorted(heights, key=heights.__getitem__)
    places = spread_out([heights[name] for name in names], gap)
    for name, place in zip(names, places, strict=True):
        style: Any = {"color": lines[name][1], "fontsize": 9, "va": "center", "transform": axis.transAxes}
        axis.text(1.01, place, name, parse_math=False, **style)


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """Move ascending places at least `gap` apart, with the least sum of squares (pool adjacent violators)."""
    blocks: list[list[float]] = []
    for number, place in enumerate(places):
        blocks.append([place - number * gap])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    means = [float(np.mean(block)) for block in blocks for _ in block]
    return [mean + number * gap for number, mean in enumerate(means)]
