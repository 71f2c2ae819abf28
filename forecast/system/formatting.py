"""Formatting of numbers for people."""

import math
from collections.abc import Iterable, Sequence


def decimals(size: float) -> int:
    """Return the number of decimals that show three or four significant digits of a number of this size."""
    return 0 if size >= 1000 else 1 if size >= 10 else 3 if size >= 0.1 else 4


def format_column(values: Iterable[float]) -> list[str]:
    """Format the numbers of a column with the decimals that the smallest one needs."""
    values = list(values)
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    places = decimals(min(sizes, default=1.0))
    return [f"{value:,.{places}f}" for value in values]


def plural(count: int, what: str) -> str:
    """Return the count with the noun in the singular or plural: `1 row`, `2 rows`, `2 series`."""
    return f"{count:,} {what}{'s' * (count != 1 and what != 'series')}"


def shorten(names: Sequence[str], count: int = 8) -> str:
    """List the first `count` names for a message."""
    return ", ".join(names[:count]) + (", ..." if len(names) > count else "")


def format_duration(seconds: float) -> str:
    """Format a duration with the unit that suits it: `8 s`, `12 min`, `3.5 h`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


def format_tokens(role: str, queries: int, keys: int) -> str:
    """Return the number of tokens of an attention layer; of cross-attention, queries × keys."""
    return f"{queries} × {keys}" if role == "cross" else f"{queries}"
