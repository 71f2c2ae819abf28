"""A pandas DataFrame as a source of a panel, checked as a file is."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.data.files.cells import Cells
from forecast.data.files.dates import check_order, lay_grid
from forecast.data.files.timezone import without_zone
from forecast.data.panel import Panel
from forecast.system.errors import DataError


class FrameSource:
    """A DataFrame with a DatetimeIndex and one column for each variable."""

    path: Path | None = None

    def __init__(
        self,
        frame: pd.DataFrame | pd.Series,
        *,
        columns: Sequence[str] | None = None,
        freq: str | None = None,
    ) -> None:
        self.frame, self._options = frame, {"columns": columns, "freq": freq}

    def prepare(self) -> None:
        """Nothing to download."""

    def read(self) -> Panel:
        return read_frame(self.frame, **self._options)


def read_frame(
    frame: pd.DataFrame | pd.Series, *, columns: Sequence[str] | None = None, freq: str | None = None
) -> Panel:
    """The columns of a DataFrame, all or some, as a checked panel of one series.

    An index with a time zone keeps its local times, or becomes UTC with a warning where the UTC offset changes.

    Raises:
        DataError: no DatetimeIndex, dates that do not rise evenly, a missing column, text, a missing or infinite
            number. It names the first such row, counted from 0.
    """
    if isinstance(frame, pd.Series):
        frame = frame.to_frame(frame.name if frame.name is not None else "value")
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"a pandas DataFrame or Series is needed, not {type(frame).__name__}")
    if not isinstance(frame.index, pd.DatetimeIndex):
        raise DataError("the DataFrame needs a DatetimeIndex: frame.set_index(pd.to_datetime(frame['date']))")
    frame = frame.rename(columns=str)
    names = list(frame.columns) if columns is None else list(columns)
    if not frame.columns.is_unique:
        raise DataError(
            f"the DataFrame has two columns {frame.columns[frame.columns.duplicated()][0]!r}: rename one"
        )
    for name in names:
        if name not in frame.columns:
            raise DataError(f"the DataFrame has no column {name!r}; it has {', '.join(frame.columns[:20])}")
        if not pd.api.types.is_numeric_dtype(frame[name]):
            raise DataError(f"the DataFrame's column {name!r} is {frame[name].dtype}, not numbers")
    if not names or frame.empty:
        raise DataError("the DataFrame has no rows or no columns: there is nothing to forecast")
    cells = Cells(Path("the DataFrame"), frame, first_line=0, unit="row")
    dates, utc_offset = without_zone("the DataFrame", pd.DatetimeIndex(frame.index))
    values = frame[names].to_numpy(dtype=np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        row, column = divmod(int(bad.argmax()), len(names))
        raise cells.refuse("a missing or infinite number: fill it first", row=row, column=names[column])
    check_order(cells, "index", dates)
    grid, step = lay_grid(cells, "index", dates, freq, complete=False)
    return Panel.of_table(grid, values, names, step, utc_offset=utc_offset)
