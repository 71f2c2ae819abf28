"""A CSV file with one column for each variable, as a source of a panel."""

import os
from collections.abc import Sequence
from pathlib import Path

from forecast.data.files.unfilled import UnfilledPanel
from forecast.data.files.wide import read_table, read_unfilled_table
from forecast.data.panel import Panel
from forecast.system.errors import ConfigError


class CsvSource:
    """The CSV file `path`; the options are those of `forecast.data.files.wide.read_table`."""

    def __init__(
        self,
        *,
        path: str | Path | None,
        date_column: str | Sequence[str] = "date",
        date_format: str | None = None,
        timezone: str | None = None,
        separator: str = ",",
        decimal: str = ".",
        thousands: str | None = None,
        columns: Sequence[str | int] | None = None,
        freq: str | None = None,
        fill: str | None = None,
    ) -> None:
        if not path:
            raise ConfigError("data=csv needs data.path=FILE")
        self.path = Path(os.path.expanduser(path))
        self.fill = fill
        self._options = {
            "date_column": date_column,
            "date_format": date_format,
            "timezone": timezone,
            "separator": separator,
            "decimal": decimal,
            "thousands": thousands,
            "columns": columns,
            "freq": freq,
        }

    def prepare(self) -> None:
        """Nothing to download."""

    def read(self) -> Panel:
        return read_table(self.path, **self._options, fill=self.fill)

    def read_unfilled(self) -> UnfilledPanel:
        """The file with missing values as NaN, whatever `fill` says."""
        return read_unfilled_table(self.path, **self._options)
