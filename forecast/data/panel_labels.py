"""Labels of a panel, its series and their rows, in messages, tables and figures; a table has no ids to name."""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int64

from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.system.formatting import plural

ID_COLUMN = "unique_id"
"""The column of ids in the files of a run, whatever its name in the data."""


def describe_panel(panel: Panel) -> str:
    """Describe the size and the dates of a panel in one line."""
    dates = f"{panel.describe_step()}, {panel.first_date} to {panel.last_date}"
    if not panel.has_ids:
        return f"{panel.n_rows:,} rows × {plural(len(panel.columns), 'column')}, {dates}"
    shortest, longest = int(panel.lengths.min()), int(panel.lengths.max())
    rows = f"{shortest:,} to {longest:,}" if shortest < longest else f"{longest:,}"
    return f"{describe_size(panel, f'{panel.n_rows:,} rows', f' ({rows} each)')}, {dates}"


def describe_size(panel: Panel, size: str, of_each: str = "") -> str:
    """Put the number of series before a size: `370 series, 24 steps of each`; for a table, `24 steps`."""
    return f"{len(panel):,} series, {size}{of_each}" if panel.has_ids else size


def of_series(panel: Panel, count: int) -> str:
    """Return ` of 370 series`, to follow a number of windows or origins; empty for a table."""
    return f" of {count:,} series" if panel.has_ids else ""


def name_series(panel: Panel, series: int) -> str:
    """Return `series 'x': `, to begin a message; empty for a table."""
    return f"series {quote(panel.ids[series])}: " if panel.has_ids else ""


def name_some(panel: Panel, chosen: Bool[np.ndarray, " series"], most: int = 4) -> str:
    """Name the first of some series, and count the others: `'a', 'b' and 3 more`."""
    numbers = np.flatnonzero(chosen)
    more = f" and {len(numbers) - most:,} more" if len(numbers) > most else ""
    return ", ".join(quote(panel.ids[number]) for number in numbers[:most]) + more


def name_longest(panel: Panel, title: str) -> str:
    """Return `the longest series of sales.csv`, where `title` is sales.csv; for a single series, the title alone."""
    return f"the longest series of {title}" if len(panel) > 1 else title


def describe_longest(panel: Panel) -> str:
    """Return `the longest of 370 series has 96` (rows); for a single series, `there are 96`."""
    has = f"the longest of {len(panel):,} series has" if len(panel) > 1 else "there are"
    return f"{has} {panel.lengths.max():,}"


def id_columns(panel: Panel, series: Int64[np.ndarray, " rows"]) -> dict[str, pd.Categorical]:
    """The column of ids of a table whose row i belongs to series[i]; empty if the source has no ids."""
    if not panel.has_ids:
        return {}
    return {ID_COLUMN: pd.Categorical.from_codes(series, categories=panel.ids)}  # type: ignore[arg-type]


def series_entry(panel: Panel, value: Any, name: str = "series") -> dict[str, Any]:
    """An entry of a JSON file on the series; empty if the source has no ids."""
    return {name: value} if panel.has_ids else {}


def label_rows(
    panel: Panel, series: Int64[np.ndarray, " rows"], dates: pd.DatetimeIndex
) -> tuple[pd.Index, dict[str, pd.DatetimeIndex]]:
    """The index of a table whose row i belongs to series[i], and its column of dates.

    The index is the id; without ids, it is the date, and there is no column.
    """
    if not panel.has_ids:
        return dates, {}
    return panel.ids[series], {str(dates.name): dates}
