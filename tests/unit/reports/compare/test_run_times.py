"""Runs that ran at the same time have times that cannot be compared."""

import math
from pathlib import Path

import pytest

from forecast.reports.compare.page import draw_costs
from forecast.reports.compare.run_folders import TIMES, find_run_folders, mark_overlapping_runs, read_runs
from forecast.reports.compare.tables import describe_task, describe_times, make_task_table
from forecast.reports.compare.task import Task
from tests.support.synthetic_runs import compare, configuration, make_run, make_variants

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
    (task,) = compare(root)
    return task


def find_bold(task: Task) -> set[str]:
    """The columns with a best value, and the costs with a Pareto front."""
    table, costs = make_task_table(task), draw_costs(task)
    assert costs is not None
    fronts = {heading for heading, traces in costs.choices.items() if traces[-1]["x"]}
    return fronts | {
        column.key
        for _, cells in table.rows
        for column, cell in zip(table.columns, cells, strict=True)
        if cell.style == "leads"
    }


@pytest.mark.parametrize("name", ENDS)
def test_times_of_runs_beside_others_are_neither_bold_nor_in_a_front_nor_an_answer(
    name: str, tmp_path: Path
) -> None:
    task, alone = compare_runs(tmp_path, ENDS[name]), name == "after"
    assert task.count_disturbed_runs("seconds") == (0 if alone else 2)
    assert describe_times(task).startswith("" if alone else "Times of 2 runs cannot be compared")
    times = {"seconds", "ms_per_window", "windows_per_second", "run time (s)", "ms/window"}
    assert find_bold(task) & times == (times if alone else set())
    assert {"n_parameters", "parameters"} <= find_bold(task)
    assert ("ms a window" in " ".join(describe_task(task))) == alone


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
    assert disturbed == {"full": TIMES - {"ms_per_window"}, "linear": frozenset()}


@pytest.mark.parametrize("match", [None, "parameters"])
def test_a_number_of_parameters_that_match_made_equal_has_no_best(match: str | None, tmp_path: Path) -> None:
    for attention, n_parameters in {"full": 1000, "none": 998}.items():
        config = {**configuration(f"attention={attention}"), "match": match}
        make_run(tmp_path / attention, config, mse=0.4, n_parameters=n_parameters)
    (task,) = compare(tmp_path)
    assert ({"n_parameters", "parameters"} & find_bold(task) == set()) == (match == "parameters")


@pytest.mark.parametrize(("memory_of", "compares"), [("device", True), ("process", False)])
def test_the_peak_memory_of_a_process_is_not_compared(memory_of: str, compares: bool, tmp_path: Path) -> None:
    make_variants(tmp_path, {"full": 0.4, "linear": 0.45}, seeds=1, peak_memory_of=memory_of)
    (task,) = compare(tmp_path)
    assert ("peak memory (MiB)" in find_bold(task)) == ("peak_memory_mb" in find_bold(task)) == compares
    assert all(math.isnan(entry.mean("peak_memory_mb")) != compares for entry in task.variants)
