"""The test windows on which the errors of the variants differ most."""

import numpy as np
import pandas as pd

from forecast.reports.compare.html_tables import Cell, HtmlTable
from forecast.reports.compare.number_format import find_date_format, format_number
from forecast.reports.compare.task import Column, Entry, Task

MAX_WINDOWS = 3


def find_disagreements(task: Task) -> list[int]:
    """Return the numbers of the test windows with the largest ranges of the variants' losses, at most `MAX_WINDOWS`.

    Windows of which one has steps in common with a chosen one are left out, in every series.
    """
    losses = np.array([entry.losses for entry in task.variants])
    ranges = np.ptp(losses, axis=0)
    places = np.searchsorted(task.dates, task.first_run.windows["forecast_start"].to_numpy())
    chosen: list[int] = []
    is_free = ranges > 0
    while is_free.any() and len(chosen) < MAX_WINDOWS:
        window = int(np.where(is_free, ranges, -1).argmax())
        chosen.append(window)
        is_free &= np.abs(places - places[window]) >= task.overlap
    return chosen


def make_disagreement_table(task: Task) -> HtmlTable | None:
    """Return the windows on which the variants disagree most; None if their errors are the same in every window."""
    table, error = task.first_run.windows, task.score_label
    columns = [
        Column("window", "window", "number of the window in the test split", "neither"),
        Column("start", "forecast from", "date of the first forecast step", "neither"),
        *([Column("series", "series", "id of the series", "neither")] if task.first_run.ids else []),
        Column("lowest", "lowest error", f"variant with the lowest {error} in this window", "neither"),
        Column("highest", "highest error", f"variant with the highest {error} in this window", "neither"),
        Column("baseline", task.best_baseline.name, f"{error} of the best baseline", "neither"),
    ]
    rows = []
    for window in find_disagreements(task):
        low, *_, high = sorted(task.variants, key=lambda entry: entry.losses[window])
        start = pd.Timestamp(table["forecast_start"].iloc[window])
        cells = [
            Cell(str(window), float(window)),
            Cell.from_text(start.strftime(find_date_format(task.dates))),
            *([Cell.from_text(str(table["unique_id"].iloc[window]))] if task.first_run.ids else []),
            *(describe_error(entry, window) for entry in (low, high)),
            Cell.from_number(float(task.best_baseline.losses[window])),
        ]
        rows.append(("", cells))
    title = f"Windows on which the {error} of the variants differs most"
    return HtmlTable(title, columns, rows) if rows else None


def describe_error(entry: Entry, window: int) -> Cell:
    """Return the cell of a variant and its error in a window."""
    error = float(entry.losses[window])
    return Cell(f"{entry.name}: {format_number(error)}", error)
