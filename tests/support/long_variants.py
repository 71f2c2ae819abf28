"""Selection of the parameters that every run of the tests uses; the others are marked `long`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def every_nth(values: Iterable[Any], n: int) -> list[Any]:
    """Mark all values as long except the first one and every n-th one after it."""
    return select(values, lambda number, _: number % n == 0)


def select(values: Iterable[Any], is_chosen: Callable[[int, Any], bool]) -> list[Any]:
    """Mark the values as long for which `is_chosen(number, value)` is false.

    A tuple holds several arguments, and so does a `pytest.param`, which keeps its id and its marks.
    """
    return [value if is_chosen(number, value) else _long(value) for number, value in enumerate(values)]


def _long(value: Any) -> Any:
    if isinstance(value, type(pytest.param())):
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, pytest.mark.long])
    arguments = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    return pytest.param(*arguments, marks=pytest.mark.long)
