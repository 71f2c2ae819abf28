"""The windows on which the variants disagree most."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.page import render_page
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.reports.compare.tables import find_disagreements, make_disagreement_table
from forecast.reports.compare.task import Task
from tests.support.synthetic_runs import configuration, make_run


def compare(root: Path, offsets: dict[str, dict[int, float]], ids: str = "") -> Task:
    """Three variants with errors of one but for these windows; the windows of each series follow one another."""
    config = configuration()
    for name, added in {"full": {}, "linear": {}, "none": {}, **offsets}.items():
        folder = make_run(root / name, configuration(f"attention={name}"), mse=1.0, windows=300)
        table = pd.read_parquet(folder / "errors_by_window.parquet")
        if ids:
            half = len(table) // len(ids)
            table["forecast_start"] = np.resize(table["forecast_start"].to_numpy()[:half], len(table))
            table.insert(0, "unique_id", np.repeat(list(ids), half))
        table["model_mse"] = 1.0
        for window, change in added.items():
            table.loc[window, "model_mse"] += change
        table.to_parquet(folder / "errors_by_window.parquet")
    assert config["pred_len"] == 24
    (task,) = group_into_tasks(read_runs(find_run_folders([str(root)]))[0])
    return task


def test_windows_of_the_largest_ranges_without_common_steps(tmp_path: Path) -> None:
    offsets = {
        "linear": {100: 3.0, 101: 2.9, 123: 2.8, 124: 2.0, 200: 0.4},
        "none": {124: -0.5, 200: -0.2, 250: 0.1},
    }
    task = compare(tmp_path, offsets)
    assert find_disagreements(task) == [100, 124, 200]
    table = make_disagreement_table(task)
    assert table is not None
    texts = [[cell.text for cell in cells] for _, cells in table.rows]
    assert texts[1][:4] == ["124", "2024-01-09 04:00", "none: 0.500", "linear: 3"]
    assert "Where the variants disagree" in render_page("x", [task], [])


def test_a_series_is_named(tmp_path: Path) -> None:
    task = compare(tmp_path, {"linear": {10: 1.0, 165: 3.0, 290: 0.5}}, ids="ab")
    table = make_disagreement_table(task)
    assert table is not None
    assert [(cells[0].text, cells[2].text) for _, cells in table.rows] == [("165", "b"), ("290", "b")]


@pytest.mark.parametrize("n_variants", [1, 3])
def test_no_table_without_a_difference(n_variants: int, tmp_path: Path) -> None:
    compare(tmp_path, {})
    runs = read_runs(find_run_folders([str(tmp_path)]))[0][:n_variants]
    (task,) = group_into_tasks(runs)
    assert make_disagreement_table(task) is None
