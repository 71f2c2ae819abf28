"""Future covariates of a forecast: a check that they are known, and a file in which the user fills in the others."""

import io
import warnings
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int64
from pandas.tseries.api import guess_datetime_format

from forecast.data import Panel
from forecast.data.calendars import UtcOffset
from forecast.data.files.cells import date_name
from forecast.data.files.columns import IdColumn, list_id_columns, split_ids
from forecast.data.files.dates import split_dates
from forecast.data.files.header import read_records
from forecast.data.files.read import find_kind, open_text
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.sources import FileSource
from forecast.data.panel import label_rows, name_series
from forecast.data.scaled_panel import ScaledPanel
from forecast.data.source import Source
from forecast.inference.forecast import dates_from
from forecast.inference.model_data import ModelData, add_future
from forecast.system.errors import DataError
from forecast.system.files import atomic_file
from forecast.system.formatting import plural


class UnknownFuture(DataError):
    """A future covariate that is not known for a step of a forecast.

    Args:
        panel: the rows before the forecasts, and what is known after them.
        rows: the first row to forecast of each series.
        steps: steps of which the future covariates are needed.
        series, step: the first step that lacks a value.
        column: the column of `panel` that lacks it.
    """

    def __init__(
        self,
        panel: Panel,
        rows: Int64[np.ndarray, " series"],
        steps: int,
        series: int,
        step: int,
        column: str,
    ) -> None:
        date = panel.utc_offset.zoned(pd.DatetimeIndex(dates_from(panel, rows, steps)[series, [step]]))[0]
        # from here on, all steps are known
        last = panel.utc_offset.shown(pd.DatetimeIndex(panel.dates(panel.ends[[series]] - steps)))[0]
        self.known = f"start={str(last).replace(' ', 'T')} tries the forecast on known rows"
        super().__init__(
            f"{name_series(panel, series)}{panel.indicators.get(column, column)} is not known for {date}: this "
            f"forecast needs future covariates for {steps} steps after its start (a multiple of pred_len)",
            ": add rows with these covariates and empty targets, or give future=FILE; a model trained with "
            f"data.known_steps needs fewer; {self.known}",
        )
        self.panel, self.rows, self.steps = panel, rows, steps

    def table(self) -> pd.DataFrame:
        """The steps after the end of each series: ids, dates, and future covariates, empty where they are not known.

        A covariate that is text is empty in all rows.
        """
        panel, wanted = self.panel, self.rows[:, None] + np.arange(self.steps)
        series, steps = np.nonzero(wanted >= panel.ends[:, None])
        dates = pd.DatetimeIndex(dates_from(panel, self.rows, self.steps)[series, steps])
        dates = panel.utc_offset.zoned(dates.rename(panel.grid.name or "date"))
        index, columns = label_rows(panel, series, dates)
        known: dict[str, Any] = {}
        for place in panel.ahead_index:
            name = panel.future_columns[place]
            is_text = name in panel.indicators
            known[panel.indicators.get(name, name)] = (
                np.nan if is_text else panel.future[wanted[series, steps], place]  # type: ignore[index]
            )
        return pd.DataFrame({**columns, **known}, index=index)


def check_covariates(
    scaled: ScaledPanel,
    rows: Int64[np.ndarray, " series"],
    steps: int,
    is_read: Bool[np.ndarray, " covariates"],
) -> list[str]:
    """Check that the future covariates which are read are known, and describe those not read over all steps.

    Missing values before the end of a series are completed as in training. There is a warning for a covariate with
    `data.known_steps` that is known for fewer steps than in training.

    Args:
        rows: the first row to forecast of each series.
        is_read: whether the forecast reads each covariate after its origin.

    Raises:
        DataError: a covariate that is read has no value for a step; the message names the first series and date.
    """
    panel, found = scaled.panel, []
    if panel.future is None:
        return []
    wanted = rows[:, None] + np.arange(steps)
    is_known = np.isfinite(panel.future[wanted][..., panel.ahead_index])  # (series, steps, covariates)
    for i, (name, limit) in enumerate(zip(panel.future_covariates, scaled.scales.known_steps, strict=True)):
        column = panel.future_columns[panel.ahead_index[i]]
        if not is_read[i]:
            found.append(f"the future of {panel.indicators.get(name, name)} is not read")
        elif limit is None:
            lacking = np.argwhere(~is_known[..., i] & (wanted >= panel.ends[:, None]))
            if len(lacking):
                s, step = (int(place) for place in lacking[0])
                raise UnknownFuture(panel, rows, steps, s, step, column)
        else:
            counts, limit = is_known[:, :limit, i].sum(axis=1), min(limit, steps)
            low, high = int(counts.min()), int(counts.max())
            if low < limit:
                warnings.warn(
                    f"{name} is known for {plural(low, 'step')}, and was known for {limit} in training: give "
                    f"future=FILE with {limit}",
                    stacklevel=3,
                )
            found.append(f"{name} for {low if low == high else f'{low} to {high}'} of {steps} steps")
    return list(dict.fromkeys(found))


def tabulate(
    panel: Panel,
    frame: pd.DataFrame,
    id_column: IdColumn,
    date_column: str | Sequence[str] | None,
) -> pd.DataFrame:
    """A table as it is written: ids and dates of several columns of the data have the same columns."""
    table = split_ids(frame, list_id_columns(id_column)).reset_index()
    columns = {str(name): table[[name]] for name in table}
    if not isinstance(date_column, str | None) and (joined := date_name(date_column)) in table:
        stamp = panel.utc_offset.stamp
        columns[joined] = split_dates(pd.DatetimeIndex(table[joined]), date_column, stamp=stamp)
    return pd.concat(columns.values(), axis=1)


def write_blank(
    path: Path, unknown: UnknownFuture, model: ModelData, source: Source, given: Mapping[str, Any]
) -> None:
    """Write `unknown.table()` to a CSV file, with the separator and the format of dates of the source.

    Args:
        given: the settings of the data of a command, with which it can read the file.

    Raises:
        ForecastError: the command cannot read the file; then none is written.
    """
    keys = {key: given.get(key) or model.config["data"].get(key) for key in ("id_column", "date_column")}
    date, table = str(unknown.panel.grid.name or "date"), tabulate(unknown.panel, unknown.table(), **keys)
    written: dict[str, Any] = {}
    if isinstance(source, FileSource) and find_kind(source.path) == "text":
        date_format = find_date_format(source, date, unknown.panel.utc_offset) if date in table else None
        if date_format:
            table[date] = table[date].dt.strftime(date_format)
        written = {"sep": source.separator, "encoding": source.encoding, "decimal": source.decimal or "."}
    with atomic_file(path) as temporary:
        table.to_csv(temporary, index=False, **written)
        settings, _ = add_future(model, str(temporary), dict(given))
        with warnings.catch_warnings(action="ignore"):  # of the data, which the first reading gave
            model.read_source(model.open_data(settings))


def find_date_format(source: FileSource, column: str, utc_offset: UtcOffset) -> str | None:
    """The strptime format of the first date of a text file; None if it is not clear, or has a UTC offset."""
    if source.date_format is not None:
        return source.date_format
    raw, header = open_text(source.path, ReadOptions.of_settings(vars(source)))
    records = read_records(io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", newline=""), source.separator)
    first = next(islice(records, 1, None), [])
    if column not in header.names or len(first) <= header.names.index(column):
        return None
    text = first[header.names.index(column)].strip()
    guess = guess_datetime_format(text, dayfirst=bool(utc_offset.day_first))
    return None if guess is None or "%z" in guess else guess
