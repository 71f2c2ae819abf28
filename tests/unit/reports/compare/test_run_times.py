"""Runs that ran at the same time have times that cannot be compared."""

import json
import math
from pathlib import Path

import pytest

from forecast.reports.compare.findings import answer, describe_times
from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.page import make_chart_data
from forecast.reports.compare.run_folders import (
    TIMES_OF_TRAINING,
    find_run_folders,
    mark_overlapping_runs,
    read_runs,
)
from forecast.reports.compare.tables import make_cost_table
from forecast.reports.compare.task import COSTS, Task, find_best_mean
from tests.support.synthetic_runs import configuration, make_run

ENDS = {
    "after": ("10:01:00", "10:02:00", "10:03:00", "10:04:00"),
    "beside": ("10:01:00", "10:01:30", "10:03:00", "10:04:00"),
}
"""When four runs of a minute each ended."""


def compare_runs(root: Path, ends: tuple[str, ...]) -> Task:
    jobs = [(kind, seed) for kind in ("full", "linear") for seed in (1, 2)]
    for (kind, seed), end in zip(jobs, ends, strict=True):
        config = {**configuration(f"attention={kind}"), "seed": seed}
        finished = f"2026-11-25T{end}+00:00"
        mse = (0.40 if kind == "full" else 0.41) + 1e-3 * seed
        make_run(root / f"{kind}-{seed}", config, mse=mse, finished=finished)
    (task,) = group_into_tasks(read_runs(find_run_folders([str(root)]))[0])
    return task


def find_bold(task: Task) -> set[str]:
    table = make_cost_table(task)
    return {
        column.key
        for _, cells in table.rows
        for column, cell in zip(table.columns, cells, strict=True)
        if cell.style == "leads"
    }


def test_runs_one_after_another_are_compared_by_time(tmp_path: Path) -> None:
    task = compare_runs(tmp_path, ENDS["after"])
    assert task.count_disturbed_runs("seconds") == 0
    assert describe_times(task) == ""
    assert "seconds" in find_bold(task)
    assert "ms a window" in answer(task)


def test_a_resumed_run_disturbs_others_only_since_it_was_resumed(tmp_path: Path) -> None:
    """The first one ran from 10:00 to 10:30, and again from 12:00 to 12:05; the second from 11:31 to 11:59."""
    times = {
        "full": {"seconds": 2100.0, "seconds_before_resume": 1800.0, "finished": "2026-11-25T12:05:00+00:00"},
        "linear": {"seconds": 1680.0, "finished": "2026-11-25T11:59:00+00:00"},
    }
    for attention, metrics in times.items():
        make_run(tmp_path / attention, configuration(f"attention={attention}"), mse=0.4, **metrics)
    runs, _ = read_runs(find_run_folders([str(tmp_path)]))
    disturbed = {run.folder.name: run.disturbed for run in mark_overlapping_runs(runs)}
    assert disturbed == {"full": TIMES_OF_TRAINING, "linear": frozenset()}


@pytest.mark.parametrize(("of", "compares"), [("process", False), ("device", True)])
def test_memory_is_compared_if_it_is_that_of_a_device(of: str, compares: bool, tmp_path: Path) -> None:
    for attention, memory in (("full", 600.0), ("linear", 500.0)):
        metrics = {"peak_memory_mb": memory, "peak_memory_of": of}
        make_run(tmp_path / attention, configuration(f"attention={attention}"), mse=memory / 1000, **metrics)
    (task,) = group_into_tasks(read_runs(find_run_folders([str(tmp_path)]))[0])
    drawn = {cost["key"] for cost in make_chart_data(task, 1)["costs"]}
    assert ("peak_memory_mb" in drawn) == compares
    assert all(math.isnan(entry.mean("peak_memory_mb")) != compares for entry in task.variants)
    (column,) = (column for column in COSTS if column.key == "peak_memory_mb")
    assert math.isnan(find_best_mean(task, column)) != compares


@pytest.mark.parametrize(
    ("sessions", "are_used"),
    [(["a", "a", "a", "a"], True), (["a", "a", "a", "b"], False), (["a", "a", "a", None], False)],
    ids=["one session", "two sessions", "some runs only"],
)
def test_new_times_are_used_if_they_are_of_one_session(
    sessions: list[str | None], are_used: bool, tmp_path: Path
) -> None:
    compare_runs(tmp_path, ENDS["beside"])
    for number, (session, run) in enumerate(zip(sessions, sorted(tmp_path.iterdir()), strict=True), start=1):
        if session is not None:
            facts = {"session": session, "device": "CPU", "threads": 2}
            times = {"ms_per_window": float(number), "windows_per_second": 10.0 * number}
            (run / "times.json").write_text(json.dumps(facts | times))
    (task,) = group_into_tasks(read_runs(find_run_folders([str(tmp_path)]))[0])
    times = {"ms_per_window", "windows_per_second"}
    assert find_bold(task) & (times | {"seconds"}) == (times if are_used else set())
    front = {cost["key"]: bool(cost["front"]) for cost in make_chart_data(task, 1)["costs"]}
    assert (front["ms_per_window"], front["seconds"]) == (are_used, False)
    assert ("(1.500 ms a window)" in answer(task)) == are_used
    note = describe_times(task)
    assert note.startswith(
        "ms/window and training windows/s were measured again" if are_used else "Times of 2 ru"
    )
    assert "2 runs cannot be compared" in note


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_a_row_of_equal_variants_shows_the_fastest_only_if_times_can_be_compared(
    ends: tuple[str, ...], tmp_path: Path
) -> None:
    jobs = [("nystrom", 3.0), ("linear", 1.0), ("full", 2.0), ("uniform", 1.5)]
    for (kind, time), end in zip(jobs, ends, strict=True):
        finished = f"2026-11-25T{end}+00:00"
        config = configuration(f"attention={kind}")
        make_run(tmp_path / kind, config, mse=0.4, finished=finished, ms_per_window=time)
    (task,) = group_into_tasks(read_runs(find_run_folders([str(tmp_path)]))[0])
    assert task.best.name == "full = linear = nystrom = uniform"
    assert task.best.shown.name == ("linear" if ends == ENDS["after"] else "full")
    assert ("it is the fastest" in answer(task)) == (ends == ENDS["after"])


def test_times_of_runs_beside_others_are_neither_bold_nor_in_a_front_nor_an_answer(tmp_path: Path) -> None:
    task = compare_runs(tmp_path, ENDS["beside"])
    assert task.count_disturbed_runs("seconds") == 2
    assert describe_times(task).startswith("Times of 2 runs cannot be compared")
    assert find_bold(task) & {"seconds", "ms_per_window", "windows_per_second"} == set()
    assert "n_parameters" in find_bold(task)
    costs = {cost["key"]: cost["front"] for cost in make_chart_data(task, 1)["costs"]}
    assert costs["ms_per_window"] == costs["seconds"] == []
    assert costs["n_parameters"] != []
    assert "ms a window" not in answer(task)
