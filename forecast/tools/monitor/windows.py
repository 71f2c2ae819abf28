"""Errors of the forecasts of two periods: the test of a run, and the rows after it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast.data import DataModule, Panel
from forecast.data.time_features import future_dates
from forecast.evaluation.significance import sum_losses_by_date
from forecast.inference.model import TrainedModel
from forecast.reports.compare.run_folders import ExcludedRun, read_run_folder
from forecast.system.errors import CheckpointError, DataError


@dataclass(frozen=True)
class Period:
    """Squared errors of the forecasts of a period, by the date of their first step.

    Attributes:
        dates: first steps, in order (n,).
        mse: errors of the model and of each baseline by name, each (n,).
        overlap: number of consecutive dates whose forecasts share a step.
    """

    dates: pd.DatetimeIndex
    mse: dict[str, np.ndarray]
    overlap: int

    @classmethod
    def of_windows(cls, table: pd.DataFrame, overlap: int) -> "Period":
        """Sum up a table of `tabulate_windows` by date; series that start on the same date share its shocks."""
        starts = table["forecast_start"].to_numpy()
        names = [column.removesuffix("_mse") for column in table if str(column).endswith("_mse")]
        return cls(
            pd.DatetimeIndex(np.unique(starts)),
            {name: sum_losses_by_date(table[f"{name}_mse"].to_numpy(), starts) for name in names},
            overlap,
        )


def read_test(model: TrainedModel) -> Period:
    """The errors of the test of a model's run. Raises CheckpointError if its folder does not hold a finished run."""
    run = read_run_folder(model.path.parent.parent)
    if isinstance(run, ExcludedRun):
        raise CheckpointError(
            f"{run.folder}: {run.reason}; give the folder of a finished run, which holds the errors of its test"
        )
    return Period.of_windows(run.windows, run.overlap)


def find_end(model: TrainedModel, test: Period, panel: Panel) -> np.datetime64:
    """The last date that the model was tested on, or trained on by a refit on all rows.

    `panel` holds the newer data, see `find_last_step`.
    """
    end = find_last_step(test.dates[-1:], model.pred_len, panel)
    if model.refitted is None:
        return end
    (last,) = pd.DatetimeIndex([model.refitted["last_date"]])
    return max(end, panel.utc_offset.read(last).to_datetime64())


def find_last_step(start: pd.DatetimeIndex, pred_len: int, panel: Panel) -> np.datetime64:
    """The date of the last step of a forecast, `pred_len` − 1 rows after the date of its first step.

    These are rows of `panel`, which may have gaps such as weekends and nights. If the first step is not one of its
    dates, they are even steps.
    """
    steps = pred_len - 1
    grid = panel.with_dates_after_ends(steps).grid
    place = int(grid.get_indexer(start)[0])
    if place < 0:
        grid, place = start.append(future_dates(start, panel.freq, steps)), 0
    return grid.to_numpy()[place + steps]


def keep_windows_after(data: DataModule, end: np.datetime64) -> None:
    """Keep the test windows whose forecast begins after a date. Raises DataError if there are none."""
    windows, kept = data.windows["test"], []
    for starts in windows.starts:
        origins = data.panel.dates(np.asarray(starts) + data.seq_len).to_numpy()
        kept.append(starts[int(np.searchsorted(origins, end, side="right")) :])
    data.windows["test"] = windows.with_starts(kept)
    data.n_windows["test"] = len(data.windows["test"])
    if not data.n_windows["test"]:
        date = data.panel.utc_offset.describe(str(end), with_offset=False)
        raise DataError(
            f"{data.title}: fewer than {data.pred_len} rows follow {date}, the last date of the test: give newer rows"
        )
