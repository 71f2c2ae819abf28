"""Progress bars on stderr for work that takes more than two seconds."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from tqdm import tqdm

from forecast.system import signals

Item = TypeVar("Item")


def track(items: Sequence[Item], what: str) -> Iterator[Item]:
    """Yield the items and show a progress bar. After each item, the run may stop on a signal (`system.signals`)."""
    for item in tqdm(items, desc=what, delay=2, leave=False, file=sys.stderr):
        yield item
        signals.leave_if_received()


def bar(total: int | None, what: str, unit: str) -> tqdm:
    """Create a progress bar that the caller updates with `update(n)`."""
    return tqdm(total=total, desc=what, unit=unit, unit_scale=True, delay=2, leave=False, file=sys.stderr)


@contextmanager
def status(what: str) -> Iterator[None]:
    """Show `what` on the terminal until the block ends. Show nothing if stderr is not a terminal."""
    with tqdm(desc=what, bar_format="{desc} ...", leave=False, file=sys.stderr, disable=None):
        yield
