"""Future covariates of a forecast: a check that they are known, and a file in which the user fills in the others."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int64

from forecast.data import Panel
from forecast.data.files.write import FileFormat, read_format
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
    """

    def __init__(
        self, panel: Panel, rows: Int64[np.ndarray, " series"], steps: int, series: int, step: int, column: str
    ) -> None:
        date = panel.utc_offset.zoned(pd.DatetimeIndex(dates_from(panel, rows, steps)[series, [step]]))[0]
        # from here on, all steps are known
        last = panel.utc_offset.shown(pd.DatetimeIndex(panel.dates(panel.ends[[series]] - steps)))[0]
        self.known = f"start={str(last).replace(' ', 'T')} tries the forecast on known rows"
        super().__init__(
            f"{name_series(panel, series)}{panel.indicators.get(column, column)} is not known for {date}: this "
            f"forecast needs future covariates for {steps} steps after its start (a multiple of pred_len)",
            ": add rows with these covariates and empty targets, or give their rows with future=; a model trained with "
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
    scaled: ScaledPanel, rows: Int64[np.ndarray, " series"], steps: int, is_read: Bool[np.ndarray, " covariates"]
) -> list[str]:
    """Check that the future covariates which are read are known, and describe those not read over all steps.

    Missing values before the end of a series are completed as in training. There is a warning for a covariate with
    `data.known_steps` that is known for fewer steps than in training.

    Raises DataError: a covariate that is read has no value for a step; the message names the first series and date.
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


def write_blank(path: Path, unknown: UnknownFuture, model: ModelData, source: Source, given: Mapping[str, Any]) -> None:
    """Write `unknown.table()` to a CSV file, in the format of the source if that is a text file.

    Raises ForecastError: the command cannot read the file; then none is written.
    """
    form = read_format(source) or FileFormat()
    table = form.tabulate(unknown.table(), unknown.panel.utc_offset, **model.key_columns(given))
    with atomic_file(path) as temporary:
        form.write(table, temporary)
        settings, _ = add_future(model, str(temporary), dict(given))
        with warnings.catch_warnings(action="ignore"):  # of the data, which the first reading gave
            model.read_source(model.open_data(settings))
