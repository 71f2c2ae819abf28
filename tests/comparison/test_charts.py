"""What the charts draw: the Pareto front, thinned curves, and the same windows of every run."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.comparison import charts, page, sheets
from forecast.comparison.runs import find, read_all
from forecast.comparison.sheets import interval_heading
from forecast.comparison.tasks import Task, tasks
from tests.comparison.made import configuration, make_run


def compared(root: Path) -> Task:
    (task,) = tasks(read_all(find([str(root)]))[0])
    return task


@pytest.mark.parametrize("seed", range(20))
def test_the_front_holds_those_that_none_beats(seed: int) -> None:
    """Against the definition; few values, so that there are ties."""
    rng = np.random.default_rng(seed)
    costs, errors = (rng.integers(0, 6, size=12).astype(float).tolist() for _ in range(2))
    points = list(zip(costs, errors, strict=True))

    def is_beaten(point: tuple[float, float]) -> bool:
        return any(c <= point[0] and e <= point[1] and (c, e) != point for c, e in points)

    front = [points[i] for i in charts.pareto_front(costs, errors)]
    assert front == sorted({point for point in points if not is_beaten(point)})


def test_long_series_are_thinned_and_keep_their_end() -> None:
    assert charts.thinned(5, 10) == [0, 1, 2, 3, 4]
    kept = charts.thinned(1001, 100)
    assert len(kept) <= 100
    assert kept[-1] == 1000
    assert set(np.diff(kept)) == {11}


def test_numbers_are_rounded_and_what_is_not_finite_is_none() -> None:
    assert charts.rounded([0.123456, 98765.4, math.nan, math.inf]) == [0.1235, 98770.0, None, None]


def test_the_forecasts_are_those_of_the_runs(pair: Path) -> None:
    drawn = charts.data(compared(pair), 1)
    assert [entry["name"] for entry in drawn["entries"]] == [
        "full",
        "linear",
        "linear map",
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


def test_few_values_are_kept_of_many_variants(pair: Path) -> None:
    task = compared(pair)
    entries = [*task.variants, *task.baselines]
    few = charts.forecasts(task, entries, budget=24 * 3 * len(entries))
    assert few is not None
    assert few["variables"] == ["OT"]  # the last


def test_variants_without_forecasts_are_named_and_the_others_drawn(pair: Path) -> None:
    def drawn() -> dict[str, Any] | None:
        task = compared(pair)
        return charts.forecasts(task, [*task.variants, *task.baselines], budget=10**6)

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
    drawn = charts.data(task, 1)["windows"]["windows"]
    for window in drawn:
        assert len(set(window["dates"])) == len(window["dates"])
        assert {len(date) for date in window["dates"]} == {length}
        assert window["dates"][window["history"]] == window["start"]
    facts = page.section(task)["facts"]
    assert f"from {drawn[0]['start']} to {drawn[-1]['start']};" in facts


def test_headings_of_interval_scores() -> None:
    assert interval_heading("coverage_80")[0] == "coverage 80 %"
    assert interval_heading("width_raw_97.5")[0] == "width, units 97.5 %"
    assert interval_heading("crps")[0] == "CRPS"


def test_a_sheet_has_a_cell_for_every_column(pair: Path) -> None:
    task = compared(pair)
    for sheet in (sheets.scores(task), sheets.costs(task), sheets.settings(task), sheets.overview([task])):
        assert {len(cells) for _, cells in sheet.rows} == {len(sheet.columns)}
