"""DataFrames as sources of a panel."""

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import pandas as pd

from forecast.data.files.read import rows_from_frame
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.table_rows import TableRows
from forecast.data.files.table_source import TableSource
from forecast.data.panel import Panel
from forecast.system.errors import ConfigError, DataError


@dataclass
class FrameSource(TableSource):
    """A DataFrame; ids and dates are columns or its index.

    Without `id_column`, the dates are its DatetimeIndex, or the beginnings of its PeriodIndex, whatever `date_column`
    says. The rows of `future`, which is laid out as `frame`, follow those of `frame`.
    """

    frame: pd.DataFrame | pd.Series
    _: KW_ONLY
    future: pd.DataFrame | None = None
    path: Path | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.id_column is None:
            self.date_column = str(getattr(self.frame, "index", pd.Index([])).name or "date")
        super().__post_init__()
        self.frame = self._with_dates(self.frame)

    def _with_dates(self, frame: pd.DataFrame | pd.Series) -> pd.DataFrame:
        """The DataFrame with an index named as the date column, if the dates are the index."""
        if isinstance(frame, pd.Series):
            frame = frame.to_frame(frame.name if frame.name is not None else "value")
        if not isinstance(frame, pd.DataFrame):
            raise DataError(f"a pandas DataFrame or Series is needed, not {type(frame).__name__}")
        if self.id_column is not None:
            return frame
        if not isinstance(frame.index, pd.DatetimeIndex | pd.PeriodIndex):
            raise DataError(
                "the DataFrame needs a DatetimeIndex: frame.set_index(pd.to_datetime(frame.pop('date')))"
            )
        return frame.rename_axis(self.roles.date)

    def read_rows(self) -> TableRows:
        options = ReadOptions(stamp=self.stamp, freq=self.freq)
        rows = self.choose_dates(rows_from_frame(pd.DataFrame(self.frame), self.roles, options))
        if self.future is None:
            return rows
        if not self.roles.future:
            raise ConfigError("future needs data.future_covariates: the columns to take from it")
        future = self._with_dates(self.future)
        options = options.of_rows_after(rows.utc_offset)
        return rows.followed_by(rows_from_frame(future, self.roles.of_future_rows(), options))


def read_frame(frame: pd.DataFrame | pd.Series, **options: object) -> Panel:
    """Read a DataFrame as a panel, with the options of `FrameSource`."""
    return FrameSource(frame, **options).read()  # type: ignore[arg-type]
