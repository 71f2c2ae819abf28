"""A bar for what takes longer than two seconds, on stderr."""

import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")


def track(items: Sequence[Item], what: str) -> Iterable[Item]:
    return tqdm(items, desc=what, delay=2, leave=False, file=sys.stderr)


def bar(total: int | None, what: str, unit: str) -> tqdm:
    """A bar that is told how far it is."""
    return tqdm(total=total, desc=what, unit=unit, unit_scale=True, delay=2, leave=False, file=sys.stderr)
