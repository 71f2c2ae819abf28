"""Data of the charts: the Pareto front, subsampled curves, and forecasts of the same windows."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.reports.compare import page, tables
from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.page import make_section
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.reports.compare.tables import explain_interval_score
from forecast.reports.compare.task import Task
from tests.support.synthetic_runs import configuration, make_run


def compared(root: Path) -> Task:
    (task,) = group_into_tasks(read_runs(find_run_folders([str(root)]))[0])
    return task


@pytest.mark.parametrize("seed", range(20))
def test_the_pareto_front_agrees_with_its_definition(seed: int) -> None:
    """Few distinct values, so that there are ties."""
    rng = np.random.default_rng(seed)
    costs, errors = (rng.integers(0, 6, size=12).astype(float).tolist() for _ in range(2))
    points = list(zip(costs, errors, strict=True))

    def is_beaten(point: tuple[float, float]) -> bool:
        return any(c <= point[0] and e <= point[1] and (c, e) != point for c, e in points)

    front = [points[i] for i in page.find_pareto_front(costs, errors)]
    assert front == sorted({point for point in points if not is_beaten(point)})


def test_long_series_are_subsampled_and_keep_their_last_value() -> None:
    assert page.subsample(5, 10) == [0, 1, 2, 3, 4]
    kept = page.subsample(1001, 100)
    assert len(kept) <= 100
    assert kept[-1] == 1000
    assert set(np.diff(kept)) == {11}


def test_values_are_rounded_and_nan_and_infinity_become_none() -> None:
    assert page.round_values([0.123456, 98765.4, math.nan, math.inf]) == [0.1235, 98770.0, None, None]


def test_the_forecasts_are_those_of_the_runs(pair: Path) -> None:
    drawn = page.make_chart_data(compared(pair), 1)
    assert [entry["name"] for entry in drawn["entries"]] == [
        "full",
        "linear",
        "linear baseline",
        "seasonal naive",
        "naive",
    ]
    forecast_by = {0: ("full-1", "model"), 1: ("linear-1", "model"), 4: ("full-1", "naive")}
    tables = {name: pd.read_parquet(pair / name / "forecasts.parquet") for name in ("full-1", "linear-1")}
    for number, window in zip((0, 150, 299), drawn["windows"]["windows"], strict=True):
        assert window["dates"][window["history"]] == window["start"]
        for variable in ("HUFL", "OT"):
            shown = window["variables"][variable]
            for place, (run, column) in forecast_by.items():
                table = tables[run]
                part = table[(table["window"] == number) & (table["variable"] == variable)]
                assert window["start"] == str(part["forecast_start"].iloc[0])[:16]
                assert shown["truth"] == pytest.approx(part["truth"].tolist(), rel=1e-3, abs=1e-3)
                ahead = part.loc[part["step"] > 0, column].tolist()
                assert shown["forecasts"][place] == pytest.approx(ahead, rel=1e-3)


def test_variables_are_dropped_to_stay_within_the_budget(pair: Path) -> None:
    task = compared(pair)
    entries = [*task.variants, *task.baselines]
    few = page.make_forecasts(task, entries, budget=24 * 3 * len(entries))
    assert few is not None
    assert few["variables"] == ["OT"]  # the last


def test_variants_without_forecasts_are_listed_as_missing(pair: Path) -> None:
    def drawn() -> dict[str, Any] | None:
        task = compared(pair)
        return page.make_forecasts(task, [*task.variants, *task.baselines], budget=10**6)

    (pair / "full-1" / "forecasts.parquet").unlink()
    whole = drawn()
    assert whole is not None
    assert whole["missing"] == []  # the second seed and the baselines of other runs are there
    (pair / "full-2" / "forecasts.parquet").unlink()
    some = drawn()
    assert some is not None
    assert some["missing"] == ["full"]
    answers = some["windows"][0]["variables"]["OT"]["forecasts"]
    assert [answer is None for answer in answers] == [True, False, False, False, False]
    for seed in (1, 2):
        (pair / f"linear-{seed}" / "forecasts.parquet").unlink()
    assert drawn() is None


@pytest.mark.parametrize(("freq", "length"), [("h", 16), ("30s", 19), ("250ms", 26)])
def test_dates_have_the_seconds_that_their_step_needs(tmp_path: Path, freq: str, length: int) -> None:
    make_run(tmp_path / "runs" / "a", configuration(), mse=0.4, freq=freq)
    task = compared(tmp_path / "runs")
    drawn = page.make_chart_data(task, 1)["windows"]["windows"]
    for window in drawn:
        assert len(set(window["dates"])) == len(window["dates"])
        assert {len(date) for date in window["dates"]} == {length}
        assert window["dates"][window["history"]] == window["start"]
    facts = make_section(task)["facts"]
    assert f"from {drawn[0]['start']} to {drawn[-1]['start']};" in facts


def test_headings_of_interval_scores() -> None:
    assert explain_interval_score("coverage_80")[0] == "80 % coverage"
    assert explain_interval_score("width_raw_97.5")[0] == "97.5 % width (units)"
    assert explain_interval_score("crps")[0] == "CRPS"


def test_a_table_has_a_cell_for_every_column(pair: Path) -> None:
    task = compared(pair)
    for table in (
        tables.make_score_table(task),
        tables.make_cost_table(task),
        tables.make_settings_table(task),
        tables.make_overview_table([task]),
    ):
        assert {len(cells) for _, cells in table.rows} == {len(table.columns)}
