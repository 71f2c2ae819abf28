"""How numbers are written."""

import math
from collections.abc import Iterable


def decimals(size: float) -> int:
    """Of a number of about this size: three digits or four that tell something."""
    return 0 if size >= 1000 else 1 if size >= 10 else 3 if size >= 0.1 else 4


def alike(values: Iterable[float]) -> list[str]:
    """The numbers of a column, all with the decimals that the smallest asks for."""
    values = list(values)
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    places = decimals(min(sizes, default=1.0))
    return [f"{value:,.{places}f}" for value in values]


def plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
