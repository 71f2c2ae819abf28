"""A synthetic data set as a source of a panel."""

from collections.abc import Callable
from pathlib import Path

from forecast.data.panel import Panel
from forecast.data.source import Source


class GeneratedSource(Source):
    """A function that makes a panel, the same at every call; needs no file and no network."""

    path: Path | None = None

    def __init__(self, make: Callable[[], Panel]) -> None:
        self._make = make

    def read(self) -> Panel:
        return self._make()
