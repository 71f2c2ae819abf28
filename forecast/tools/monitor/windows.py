"""Errors of the forecasts of two periods: the test of a run, and the rows after it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast.data import DataModule
from forecast.data.time_features import parse_frequency
from forecast.evaluation.significance import sum_losses_by_date
from forecast.inference.model import TrainedModel
from forecast.system.errors import CheckpointError, DataError

WINDOWS_FILE = "errors_by_window.parquet"


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
    def of_windows(cls, table: pd.DataFrame, pred_len: int, freq: str) -> "Period":
        """Sum up a table of `tabulate_windows` by date; series that start on the same date share its shocks."""
        starts = table["forecast_start"].to_numpy()
        dates = pd.DatetimeIndex(np.unique(starts))
        names = [column.removesuffix("_mse") for column in table if str(column).endswith("_mse")]
        end = dates[0] + pred_len * parse_frequency(freq)
        return cls(
            dates,
            {name: sum_losses_by_date(table[f"{name}_mse"].to_numpy(), starts) for name in names},
            max(1, int(np.searchsorted(dates, end))),
        )


def read_test(model: TrainedModel) -> Period:
    """The errors of the test of a model's run. Raises CheckpointError if the run folder does not hold them."""
    file = model.path.parent.parent / WINDOWS_FILE
    if model.test is None or not file.is_file():
        raise CheckpointError(
            f"{file}: no such file; give the folder of a finished run, which holds the errors of its test"
        )
    return Period.of_windows(pd.read_parquet(file), model.pred_len, model.freq)


def find_end(model: TrainedModel, test: Period) -> np.datetime64:
    """The last date that the model was tested on, or trained on by a refit on all rows."""
    last = pd.Timestamp(test.dates.to_numpy()[-1]) + (model.pred_len - 1) * parse_frequency(model.freq)
    end = np.datetime64(str(last))
    return end if model.refitted is None else max(end, np.datetime64(model.refitted["last_date"]))


def keep_windows_after(data: DataModule, end: np.datetime64) -> None:
    """Keep the test windows whose forecast begins after a date. Raises DataError if there are none."""
    windows, kept = data.windows["test"], []
    for starts in windows.starts:
        origins = data.panel.dates(np.asarray(starts) + data.seq_len).to_numpy()
        kept.append(starts[int(np.searchsorted(origins, end, side="right")) :])
    data.windows["test"] = windows.with_starts(kept)
    data.n_windows["test"] = len(data.windows["test"])
    if not data.n_windows["test"]:
        date = pd.Timestamp(end)
        raise DataError(
            f"{data.title}: fewer than {data.pred_len} rows follow {date}, the last date of the test: give newer rows"
        )
