"""Progress on stderr for work that takes more than two seconds: bars on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

from tqdm import tqdm

from forecast.system import signals

Item = TypeVar("Item", covariant=True)
DELAY = 2.0  # seconds before work that may be short is shown
BETWEEN_LINES = 30.0  # seconds between two lines of one piece of work where there is no terminal
BAR = "{desc}{postfix}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]"
"""A bar on a terminal; what is beyond its width is cut, so that the scores come first."""
LINE = "{desc}: {percentage:.0f}% {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"


class TerminalBar(tqdm):
    """A bar that gives the cursor back at the beginning of a line, also if it is drawn below another one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"bar_format": BAR if settings.get("total") else None, **settings})

    def close(self) -> None:
        was_open = not self.disable
        super().close()
        if was_open and not self.leave:
            self.fp.write("\r")


class ProgressLines(tqdm):
    """Write a line every `BETWEEN_LINES` seconds, and one at the end if `leave`: a log file has no use for a bar."""

    monitor_interval = 0  # the monitor would write further lines

    def __init__(self, **settings: Any) -> None:
        intervals = {"mininterval": BETWEEN_LINES, "delay": BETWEEN_LINES}
        super().__init__(**{"bar_format": LINE if settings.get("total") else None, **settings, **intervals})

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        text = str(self) if msg is None else msg
        if text:
            print(text, file=self.fp)

    def close(self) -> None:
        if self.leave and not self.disable:
            self.display()
        self.disable = True


def bar(
    total: int | None, what: str, unit: str, *, delay: float = DELAY, leave: bool = False, initial: int = 0
) -> tqdm:
    """Create a progress bar that the caller updates with `update(n)` and closes.

    Args:
        total: units of work; None: not known.
        delay: seconds before the bar appears.
        leave: keep the bar's last state when it is closed.
    """
    bar_class = TerminalBar if sys.stderr.isatty() else ProgressLines
    return bar_class(
        total=total, desc=what, unit=unit, unit_scale=(total or 0) > 99_999, delay=delay, initial=initial,
        leave=leave,
        file=sys.stderr, dynamic_ncols=True,
    )  # fmt: skip


@runtime_checkable
class SizedIterable(Sized, Iterable[Item], Protocol[Item]):
    """Items whose number is known."""


def track(items: SizedIterable[Item], what: str) -> Iterator[Item]:
    """Yield the items and show a progress bar. After each item, the run may stop on a signal (`system.signals`)."""
    with bar(len(items), what, "") as shown:
        for item in items:
            yield item
            shown.update()
            signals.exit_if_received()


@contextmanager
def status(what: str) -> Iterator[None]:
    """Show `what` on the terminal until the block ends. Show nothing if stderr is not a terminal."""
    with tqdm(desc=what, bar_format="{desc} ...", leave=False, file=sys.stderr, disable=None):
        yield
