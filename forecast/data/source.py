"""The contract of a data source with `forecast.data.module`."""

from typing import Protocol, runtime_checkable

from forecast.data.panel import Panel
from forecast.system.location import Location


@runtime_checkable
class Source(Protocol):
    """Where a panel comes from."""

    @property
    def path(self) -> Location | None:
        """The file or folder; None for generated data and DataFrames."""
        ...

    def prepare(self) -> None:
        """Download what is missing, in one process."""
        ...

    def read(self) -> Panel:
        """The panel, in the units of the data."""
        ...
