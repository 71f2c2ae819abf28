"""Text of numbers, p-values, dates and lists in a comparison."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from forecast.evaluation.significance import LossDifference
from forecast.system.formatting import decimals

MISSING = "–"
"""Text of a value that is unknown or does not exist."""


def format_number(mean: float, deviation: float = math.nan) -> str:
    """Return a mean with decimals according to its size, and its standard deviation with as many."""
    if math.isnan(mean):
        return MISSING
    size = abs(mean)
    if mean == int(mean) and not deviation > 0:
        return f"{mean:,.0f}".replace("-", "−")
    if 0 < size < 0.001:
        return f"{mean:.2e}".replace("-", "−") + ("" if math.isnan(deviation) else f" ± {deviation:.1e}")
    places = decimals(size)
    text = f"{mean:,.{places}f}".replace("-", "−")
    return text if math.isnan(deviation) else f"{text} ± {deviation:,.{places}f}"


def format_percent(change: float) -> str:
    """Return a relative change with its sign, such as `+1.5 %`."""
    if math.isnan(change):
        return MISSING
    return f"{round(100 * change, 1) + 0.0:+,.1f} %".replace("-", "−")  # + 0.0: no −0.0


def format_interval(difference: LossDifference, *, of_decrease: bool = False) -> str:
    """Return the 95% interval of a relative difference in percent, such as `[−0.2, +3.1]`; or why there is none.

    Every relative interval that the program prints is this text. `of_decrease` shows how much less the loss is.
    """
    ends = difference.relative_interval()
    if not math.isnan(ends[0]):
        ends = (-ends[1], -ends[0]) if of_decrease else ends
        return f"[{', '.join(format_percent(end).removesuffix(' %') for end in ends)}]"
    if math.isnan(difference.independent) or not difference.base > 0:
        return MISSING
    return f"too few independent windows (about {max(1, round(difference.independent)):,})"


def format_p_value(p: float) -> str:
    return MISSING if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def find_date_format(dates: np.ndarray) -> str:
    """Return the strftime format to the minute, or a finer one if the given dates need it to stay distinct."""
    index = pd.DatetimeIndex(dates)
    if (index == index.floor("min")).all():
        return "%Y-%m-%d %H:%M"
    return "%Y-%m-%d %H:%M:%S" if (index == index.floor("s")).all() else "%Y-%m-%d %H:%M:%S.%f"


def join_names(names: Sequence[str]) -> str:
    """Return a list of names: separated by semicolons if a name contains a comma."""
    return ("; " if any("," in name for name in names) else ", ").join(names)
