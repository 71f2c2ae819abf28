"""Whether the times of compared runs can be compared: none was measured while another compared run ran."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from forecast.reports.compare.run_folders import FinishedRun

ROUNDING = 1.0
"""Seconds by which two runs may overlap, because metrics.json holds whole seconds."""

TIMES = frozenset({"ms_per_window", "seconds", "windows_per_second"})
"""Costs that another process on the same machine changes."""

TIMES_OF_TRAINING = frozenset({"seconds", "windows_per_second"})


def mark_overlapping_runs(runs: Iterable[FinishedRun]) -> list[FinishedRun]:
    """Return the runs; for those that overlapped in time with another one, no time can be compared.

    Runs without the entry `finished` in metrics.json count as run alone. Of a run that was resumed, only the time
    since then is known to be undisturbed, so its times of training cannot be compared.
    """
    runs = list(runs)
    periods = sorted(find_period(run) for run in runs if "finished" in run.metrics)
    overlapping, latest = set(), ("", float("-inf"))
    for start, end, folder in periods:
        if latest[1] - start > ROUNDING:
            overlapping |= {latest[0], folder}
        latest = max(latest, (folder, end), key=lambda period: period[1])
    return [
        replace(
            run, disturbed=TIMES if str(run.folder) in overlapping else run.disturbed | resumed_times(run)
        )
        for run in runs
    ]


def resumed_times(run: FinishedRun) -> frozenset[str]:
    """Return the times that a run measured in several processes."""
    return TIMES_OF_TRAINING if run.metrics.get("seconds_before_resume") else frozenset()


def find_period(run: FinishedRun) -> tuple[float, float, str]:
    """Return the start and the end of a run's last process in seconds since the epoch, and its folder."""
    end = datetime.fromisoformat(run.metrics["finished"]).timestamp()
    seconds = float(run.metrics["seconds"]) - float(run.metrics.get("seconds_before_resume", 0))
    return end - seconds, end, str(run.folder)


def use_new_times(runs: list[FinishedRun]) -> list[FinishedRun]:
    """Return the runs of a task with the times of `retime=true`, if all runs were measured in one session."""
    sessions = {run.new_times.get("session") for run in runs}
    if len(sessions) > 1 or None in sessions:
        return runs
    return [
        replace(run, metrics=run.metrics | run.new_times, disturbed=run.disturbed.difference(run.new_times))
        for run in runs
    ]
