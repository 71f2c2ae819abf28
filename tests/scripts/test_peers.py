from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.peer_forecasts import Rows, make_features, read_rows
from experiments.peers import TASKS, Task
from forecast.data import Panel
from forecast.data.split import split_panel

DATES = pd.date_range("2004-01-01", periods=1003, freq="h")
TARGET = np.random.default_rng(0).normal(5, 3, size=1003)


def rows_of(target: np.ndarray, **known: np.ndarray) -> Rows:
    task = Task("", known=tuple(known))
    return Rows(task, DATES, target[:, None], known, (702, 803, 1003))


@pytest.mark.parametrize(("task", "rows", "split"), [("epf-np", 1003, [0.7, 0.1, 0.2]), ("ettm1", 69680, [12, 4, 4])])
def test_the_split_is_that_of_this_project(task: str, rows: int, split: list[float], tmp_path: Path) -> None:
    given = TASKS[task]
    dates = pd.date_range("2016-07-01", periods=rows, freq=f"{given.minutes}min", name="date")
    names = [given.target, *given.known] if given.target else [f"c{i}" for i in range(given.columns)]
    (tmp_path / given.path).parent.mkdir(exist_ok=True)
    pd.DataFrame(0.0, dates, names).assign(**{names[0]: np.arange(rows)}).to_csv(tmp_path / given.path)
    read = read_rows(given, tmp_path)
    panel = Panel.of_table(dates, np.zeros((rows, 1)), ["x"], f"{given.minutes}min")
    for part, inside in split_panel(panel, split, seq_len=given.seq_len, season=1).items():
        steps = read.steps(read.starts(part))
        assert (steps[0, 0], steps[-1, -1]) == (max(inside.first[0], given.seq_len), inside.stop[0] - 1)


def test_features_read_the_covariates_of_the_horizon_but_not_the_target() -> None:
    wind = np.random.default_rng(1).normal(size=1003)
    (first, *_) = starts = rows_of(TARGET).starts("test")[:1]

    def make(target: np.ndarray, wind: np.ndarray) -> np.ndarray:
        return make_features(rows_of(target, wind=wind), target, starts)

    later, features = np.arange(1003) >= first, make(TARGET, wind)
    assert features.shape[0] == 24
    assert np.isfinite(features).all()
    assert (make(np.where(later, 1e3, TARGET), wind) == features).all()
    assert (make(TARGET, np.where(later, 1e3, wind)) != features).any(axis=1).all()
    assert (make(TARGET, np.where(np.arange(1003) >= first + 24, 1e3, wind)) == features).all()
