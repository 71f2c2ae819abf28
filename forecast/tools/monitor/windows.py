"""Errors of the forecasts of two periods: the test of a run, and the rows after it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast.data import DataModule, Panel
from forecast.data.row_ranges import RowRanges
from forecast.data.time_features import future_dates
from forecast.evaluation.levels import CONFORMAL, QUANTILE
from forecast.evaluation.significance import sum_losses_by_date
from forecast.inference.model import TrainedModel
from forecast.reports import inputs
from forecast.reports.compare.run_folders import ExcludedRun, read_parquet, read_run_folder
from forecast.system.errors import CheckpointError


@dataclass(frozen=True)
class Period:
    """Errors and coverage of the forecasts of a period, by the date of their first step.

    Attributes:
        dates: first steps, in order (n,).
        mse: errors of the model and of each baseline by name, each (n,).
        overlap: number of consecutive dates whose forecasts share a step.
        coverage: share of the true values within the intervals that `predict` gives, averaged over the levels (n,); NaN
            without true values. None without intervals, or if the run did not save the coverage of windows.
    """

    dates: pd.DatetimeIndex
    mse: dict[str, np.ndarray]
    overlap: int
    coverage: np.ndarray | None = None

    @classmethod
    def empty(cls, like: "Period") -> "Period":
        """A period without forecasts, of the forecasters of another one."""
        return cls(like.dates[:0], {name: losses[:0] for name, losses in like.mse.items()}, like.overlap)

    @property
    def dates_of_a_week(self) -> int:
        """Number of dates of a week, on average over the period; 1 for fewer than two dates."""
        if len(self.dates) < 2:
            return 1
        step = (self.dates[-1] - self.dates[0]) / (len(self.dates) - 1)
        return max(1, round(pd.Timedelta(days=7) / step))

    @classmethod
    def of_windows(cls, table: pd.DataFrame, overlap: int) -> "Period":
        """Sum up a table of `tabulate_windows` by date; series that start on the same date share its shocks."""
        starts = table["forecast_start"].to_numpy()
        names = [column.removesuffix("_mse") for column in table if str(column).endswith("_mse")]
        return cls(
            pd.DatetimeIndex(np.unique(starts)),
            {name: sum_losses_by_date(table[f"{name}_mse"].to_numpy(), starts) for name in names},
            overlap,
            average_coverage(table),
        )


def average_coverage(table: pd.DataFrame) -> np.ndarray | None:
    """`Period.coverage` of a table of `tabulate_windows`: of trained quantiles if there are any, else conformal."""
    for method in (QUANTILE, CONFORMAL):
        covered = table.filter(regex=f"^{method}_coverage_")
        if len(covered.columns):
            return covered.mean(axis=1).groupby(table["forecast_start"]).mean().to_numpy()
    return None


def read_test(model: TrainedModel) -> tuple[Period, pd.DataFrame | None]:
    """The test of a model's run, and the table of the run's inputs; None if the run did not save it.

    Raises CheckpointError if the folder of the model does not hold a finished run.
    """
    run = read_run_folder(model.path.parent.parent)
    if isinstance(run, ExcludedRun):
        raise CheckpointError(
            f"{run.folder}: {run.reason}; give the folder of a finished run, which holds the errors of its test"
        )
    table = run.folder / inputs.FILE
    return Period.of_windows(run.windows, run.overlap), read_parquet(table) if table.exists() else None


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


def find_rows_after(panel: Panel, end: np.datetime64) -> RowRanges:
    """The rows of each series after a date."""
    first = panel.starts + np.clip(
        np.searchsorted(panel.grid.to_numpy(), end, side="right") - panel.grid_starts, 0, panel.lengths
    )
    return RowRanges(first, panel.ends)


def has_newer_window(model: TrainedModel, panel: Panel, end: np.datetime64) -> bool:
    """Whether some series has the rows of a window whose forecast begins after a date."""
    first, stop = find_rows_after(panel, end)
    is_long = panel.lengths >= model.seq_len + model.pred_len
    return bool((is_long & (stop - first >= model.pred_len)).any())


def keep_windows_after(data: DataModule, end: np.datetime64) -> None:
    """Keep the test windows whose forecast begins after a date; there may be none."""
    windows, kept = data.windows["test"], []
    for starts in windows.starts:
        origins = data.panel.dates(np.asarray(starts) + data.seq_len).to_numpy()
        kept.append(starts[int(np.searchsorted(origins, end, side="right")) :])
    data.windows["test"] = windows.with_starts(kept)
    data.n_windows["test"] = len(data.windows["test"])
