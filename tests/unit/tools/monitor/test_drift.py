"""Drift of columns and future covariates with planted shifts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data import csv_data
from forecast.tools.monitor.drift import measure_drift

ROWS = 2000
OPTIONS = {
    "name": "mine",
    "seq_len": 24,
    "pred_len": 6,
    "target": "load",
    "future_covariates": ["wind", "sun"],
}


def write(path: Path, shifts: dict[str, float]) -> Path:
    random = np.random.default_rng(0)
    columns = {name: random.normal(5, 2, ROWS) + shifts.get(name, 0.0) for name in ("load", "wind", "sun")}
    dates = pd.date_range("2024-01-01", periods=ROWS, freq="h", name="date")
    pd.DataFrame(columns, dates).to_csv(path)
    return path


def test_a_covariate_that_has_shifted_comes_first(tmp_path: Path) -> None:
    trained = csv_data(path=write(tmp_path / "old.csv", {}), split=[0.7, 0.1, 0.2], **OPTIONS)
    trained.setup()
    newer = csv_data(path=write(tmp_path / "new.csv", {"sun": 3.0, "load": 1.0}), split="test", **OPTIONS)
    newer.load_state_dict(trained.state_dict())
    newer.setup()
    found = measure_drift(newer)
    assert list(found) == ["sun", "load", "wind"]
    means = [found[name].mean for name in found]
    assert means == pytest.approx([3 / 2, 1 / 2, 0], abs=0.06)
    assert [found[name].standard_deviation for name in found] == pytest.approx([1, 1, 1], abs=0.05)
