"""A user's own CSV file as training data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forecast.data.module import ForecastData
from forecast.data.table import Table, read_table
from forecast.errors import ConfigError


class CsvData(ForecastData):
    """The table in the CSV file `path`; the options are those of `forecast.data.table.read_table`."""

    def __init__(
        self,
        *,
        path: str | Path | None,
        date_column: str = "date",
        date_format: str | None = None,
        separator: str = ",",
        decimal: str = ".",
        thousands: str | None = None,
        columns: Sequence[str] | None = None,
        freq: str | None = None,
        fill: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if path is None:
            raise ConfigError("data=csv needs data.path=FILE")
        self.path = Path(path).expanduser()
        self._reading = {
            "date_column": date_column,
            "date_format": date_format,
            "separator": separator,
            "decimal": decimal,
            "thousands": thousands,
            "columns": columns,
            "freq": freq,
            "fill": fill,
        }

    def read(self) -> Table:
        return read_table(self.path, **self._reading)
