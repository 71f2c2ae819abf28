"""Files with one series a row and the dates in the header: what to do about them."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from forecast.data.files.date_formats import has_short_year, orders_of_short_years
from forecast.data.files.text import quote
from forecast.system.arguments import write_setting
from forecast.system.errors import DataError
from forecast.system.location import Location

MIN_DATES = 4
"""Fewest dates in a header that is taken for one of dates."""


def refuse_series_in_rows(
    path: Location, raw: bytes, separator: str, header: Sequence[str], is_date: Callable[[str], bool]
) -> None:
    """Raise DataError, with the lines of pandas that turn it, for a file whose header ends in dates."""
    first = next((place for place, name in enumerate(header) if is_date(name)), len(header))
    names, dates = list(header[:first]), list(header[first:])
    if len(dates) < MIN_DATES or not all(map(is_date, dates)):
        return
    table: Any = pd.read_csv(io.BytesIO(raw), sep=separator, usecols=range(first), dtype=str)
    ids = [name for name in names if table[name].notna().all() and table[name].is_unique]
    texts = [
        name for name in ids if table[[name]].apply(pd.to_numeric, errors="coerce").isna().any(axis=None)
    ]
    name = next(iter([*texts, *ids]), "id")
    numbered = "" if ids else ".rename_axis('id').reset_index()"
    fixed = names if ids else ["id", *names]
    given = "" if separator == "," else f", sep={separator!r}"
    read = f"pd.read_csv({str(path)!r}{given}){numbered}"
    turn = f"{read}.melt({fixed}, var_name='ds', value_name='y').to_csv('long.csv', index=False)"
    order = orders_of_short_years(pd.Series(dates))[:1] if has_short_year(dates[0]) else []
    settings = ["data=long", "data.path=long.csv", write_setting("data.id_column", name), *order]
    raise DataError(
        f"{path}: one series a row, with dates from {quote(dates[0])} to {quote(dates[-1])} in line 1: write one row "
        f"for each date with pandas, {turn}, then set {' '.join(settings)}"
    )
