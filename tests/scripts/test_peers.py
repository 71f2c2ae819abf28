"""Rows, windows, features and scores of the comparison with other libraries, which are not installed here."""

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


def write_load(folder: Path, load: np.ndarray) -> None:
    table = {"Date": DATES.strftime("%Y/%-m/%-d"), "Hour": DATES.hour + 1, "load": load, "T": range(1003)}
    pd.DataFrame(table).to_csv(folder / "GEFCom2014-E.csv", index=False)


def test_rows_begin_with_the_first_value_and_are_scaled_by_the_training_rows(tmp_path: Path) -> None:
    write_load(tmp_path, np.where(np.arange(1003) < 48, np.nan, TARGET))
    rows = read_rows(TASKS["gefcom"], tmp_path)
    assert str(rows.dates[0]) == "2004-01-03 00:00:00"
    known = TARGET[48:][: int(0.7 * 955)]
    assert rows.targets[:, 0] == pytest.approx((TARGET[48:] - known.mean()) / known.std())
    assert rows.known["T"][0] == 48
    assert {name: part[1] for name, part in rows.calendar().items()} == {
        "hour": 1, "weekday": 5, "day of the year": 3,
    }  # fmt: skip
    with pytest.raises(ValueError, match="4 columns to forecast in place of 7"):
        read_rows(Task("GEFCom2014-E.csv", columns=7), tmp_path)


def rows_of(target: np.ndarray, **known: np.ndarray) -> Rows:
    task = Task("", known=tuple(known))
    return Rows(task, DATES, target[:, None], known, (702, 803, 1003))


@pytest.mark.parametrize(
    ("task", "rows", "split"), [("epf-np", 1003, [0.7, 0.1, 0.2]), ("ettm1", 69680, [12, 4, 4])]
)
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
