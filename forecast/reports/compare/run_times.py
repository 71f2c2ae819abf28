"""Whether the times of compared runs were measured while other compared runs ran."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from forecast.reports.compare.run_folders import FinishedRun

ROUNDING = 1.0
"""Seconds by which two runs may overlap, because metrics.json holds whole seconds."""

TIMES = ("ms_per_window", "seconds", "windows_per_second")
"""Costs that another process on the same machine changes."""


def mark_overlapping_runs(runs: Iterable[FinishedRun]) -> list[FinishedRun]:
    """Return the runs; those that overlapped in time with another one have `timed_alone=False`.

    Runs without the entry `finished` in metrics.json count as timed alone.
    """
    runs = list(runs)
    periods = sorted(find_period(run) for run in runs if "finished" in run.metrics)
    overlapping, latest = set(), ("", float("-inf"))
    for start, end, folder in periods:
        if latest[1] - start > ROUNDING:
            overlapping |= {latest[0], folder}
        latest = max(latest, (folder, end), key=lambda period: period[1])
    return [replace(run, timed_alone=str(run.folder) not in overlapping) for run in runs]


def find_period(run: FinishedRun) -> tuple[float, float, str]:
    """Return the start and the end of a run in seconds since the epoch, and its folder."""
    end = datetime.fromisoformat(run.metrics["finished"]).timestamp()
    return end - float(run.metrics["seconds"]), end, str(run.folder)
