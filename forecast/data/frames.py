"""DataFrames of other libraries, such as Polars, as DataFrames of pandas and back."""

from typing import Any

import narwhals as nw
import pandas as pd
import pyarrow as pa

from forecast.data.files.text import quote
from forecast.system.errors import DataError

Frame = Any
"""A DataFrame or a Series of pandas, or an eager DataFrame of Polars, PyArrow or another library of narwhals."""


def to_pandas(frame: Any, date_column: str | None) -> Any:
    """A frame of another library as one of pandas; frames of pandas are returned as they are.

    Args:
        frame: an eager DataFrame, such as one of Polars or PyArrow.
        date_column: the column that becomes the index, in a table of one series. None: no column does.

    Raises:
        DataError: no library knows the frame, or it lacks the column of dates.
    """
    if isinstance(frame, pd.DataFrame | pd.Series):
        return frame
    try:
        eager = nw.from_native(frame, eager_only=True)
    except TypeError:
        name = f"{type(frame).__module__.partition('.')[0]}.{type(frame).__name__}"
        raise DataError(
            f"a DataFrame of pandas, Polars or PyArrow is needed, not {name}; collect a LazyFrame first"
        ) from None
    table = eager.to_pandas()
    if date_column is None:
        return table
    if date_column not in table:
        raise DataError(f"the DataFrame has no column {quote(date_column)} with the dates (date_column)")
    try:
        dates = pd.DatetimeIndex(pd.to_datetime(table.pop(date_column)), name=date_column)
    except ValueError as error:
        raise DataError(f"the DataFrame, column {quote(date_column)}: {error}") from None
    return table.set_index(dates)


def to_library_of(frame: Any, table: pd.DataFrame) -> Any:
    """A table as a frame of the library of `frame`, with its index as a column; for pandas, the table itself."""
    if frame is None or isinstance(frame, pd.DataFrame | pd.Series):
        return table
    arrow = pa.Table.from_pandas(table.reset_index(), preserve_index=False)
    library = nw.from_native(frame, eager_only=True).implementation
    return nw.from_arrow(arrow, backend=library).to_native()
