"""The base class of data sources, from which `forecast.data.module` reads its panel."""

from collections.abc import Set
from typing import TypeVar

from forecast.data.panel import Panel
from forecast.system.location import Location

AnySource = TypeVar("AnySource", bound="Source")


class Source:
    """The origin of a panel: a file, a folder, a DataFrame or a simulation.

    Attributes:
        path: the file or folder; None for generated data and DataFrames.
        absent: the columns of `with_optional` that the last `read` did not find.
        without_role: the columns of a table that the last `read` left out because no option names them.
    """

    path: Location | None
    absent: frozenset[str] = frozenset()
    without_role: tuple[str, ...] = ()

    def prepare(self) -> None:
        """Download what is missing, in one process; nothing by default."""

    def read(self) -> Panel:
        """The panel, in original units."""
        raise NotImplementedError

    def with_optional(self: AnySource, columns: Set[str]) -> AnySource:
        """The same source, in which these columns may be absent; by default no column may."""
        return self
