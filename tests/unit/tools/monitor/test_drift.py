"""Drift of columns and future covariates with planted shifts, and of seasons without one."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data import DataModule, csv_data
from forecast.data.row_ranges import RowRanges
from forecast.reports.inputs import tabulate_inputs, tabulate_run_inputs
from forecast.tools.monitor import compare_with_blocks, measure_drift, merge_blocks

ROWS = 2000
OPTIONS = {
    "name": "mine",
    "seq_len": 24,
    "pred_len": 6,
    "target": "load",
    "future_covariates": ["wind", "sun"],
}


def write(path: Path, shifts: dict[str, float], rows: int = ROWS) -> Path:
    random = np.random.default_rng(rows)
    columns = {name: random.normal(5, 2, rows) + shifts.get(name, 0.0) for name in ("load", "wind", "sun")}
    dates = pd.date_range("2024-01-01", periods=rows, freq="h", name="date")
    pd.DataFrame(columns, dates).to_csv(path)
    return path


@pytest.fixture
def trained(tmp_path: Path) -> DataModule:
    data = csv_data(path=write(tmp_path / "old.csv", {}), split=[0.7, 0.1, 0.2], **OPTIONS)
    data.setup()
    return data


def test_a_covariate_that_has_shifted_comes_first(tmp_path: Path, trained: DataModule) -> None:
    path = write(tmp_path / "new.csv", {"sun": 3.0, "load": 1.0}, rows=200)
    newer = csv_data(path=path, split="test", **OPTIONS)
    newer = newer.with_state(trained.state_dict())
    newer.setup()
    rows = RowRanges(newer.panel.starts, newer.panel.ends)
    found = measure_drift(tabulate_inputs(newer, rows, blocks=1), tabulate_run_inputs(trained))
    assert list(found) == ["sun", "load", "wind"]
    means = [found[name].mean for name in found]
    assert means == pytest.approx([3 / 2, 1 / 2, 0], abs=0.2)
    assert [found[name].standard_deviation for name in found] == pytest.approx([1, 1, 1], abs=0.15)
    assert [found[name].p < 0.05 for name in found] == [True, True, False]


def test_the_blocks_of_a_run_hold_the_moments_of_their_rows(trained: DataModule) -> None:
    table = tabulate_run_inputs(trained)
    assert table.groupby("variable")["dates"].sum().to_dict() == dict.fromkeys(("load", "wind", "sun"), ROWS)
    merged = merge_blocks(table[table["variable"] == "load"], dates=400)  # type: ignore[arg-type]
    assert len(merged) == 4  # of 58 blocks of 7 or 8 rows each
    values = trained.scaled.values[:][:, 0].double().numpy()
    last = table["dates"].iloc[256 - 58 : 256].sum()
    assert merged[-1] == pytest.approx([values[-last:].mean(), values[-last:].std()], rel=1e-5)


@pytest.mark.parametrize(
    ("newer", "blocks", "significant"),
    [
        ([3.0, 1.0], [[m, 1.0] for m in (-3, 3, -3, 3, -3, 3)], False),  # a season that the run has seen
        ([3.0, 1.0], [[m, 1.0] for m in (-0.3, 0.3, -0.3, 0.3, -0.3, 0.3)], True),
        ([0.0, 0.0], [[0.0, s] for s in (1.0, 1.1, 0.9, 1.0, 1.1, 0.9)], True),  # a sensor that stands still
        ([0.0, 0.0], [[0.0, 0.0]] * 6, False),  # a constant column
        ([1.0, 0.0], [[0.0, 0.0]] * 6, True),
        ([9.0, 0.0], [[0.0, 1.0]] * 3, False),  # too few blocks
    ],
)
def test_newer_rows_are_compared_with_blocks_of_the_run(
    newer: list[float], blocks: list[list[float]], significant: bool
) -> None:
    assert (compare_with_blocks(np.array(newer), np.array(blocks)) < 0.05) == significant
