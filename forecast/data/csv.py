"""A user's own CSV file as training data."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forecast.data.module import ForecastData
from forecast.data.table import Table, UnfilledTable, read_table, read_unfilled_table
from forecast.errors import ConfigError


class CsvData(ForecastData):
    """The table in the CSV file `path`; the options are those of `forecast.data.table.read_table`."""

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
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if not path:
            raise ConfigError("data=csv needs data.path=FILE")
        self.path = Path(os.path.expanduser(path))
        self._reading = {
            "date_column": date_column,
            "date_format": date_format,
            "timezone": timezone,
            "separator": separator,
            "decimal": decimal,
            "thousands": thousands,
            "columns": columns,
            "freq": freq,
        }
        self.fill = fill

    def read(self) -> Table:
        return read_table(self.path, **self._reading, fill=self.fill)

    def read_unfilled(self) -> UnfilledTable:
        """The file with what is missing left open, whatever `fill` says."""
        return read_unfilled_table(self.path, **self._reading)
