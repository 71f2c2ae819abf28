"""Trading sessions, which are no even steps, through training and prediction."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.api import load
from tests.support.commands import answer, only, train_here

DAYS = pd.bdate_range("2024-01-01", "2024-03-15").drop("2024-01-15")
TIMES = pd.timedelta_range("09:30:00", periods=7, freq="h")
SESSIONS = pd.DatetimeIndex((DAYS.to_numpy()[:, None] + TIMES.to_numpy()).ravel(), name="date")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with load.csv, 53 sessions of 7 rows, and a run on it."""
    folder = tmp_path_factory.mktemp("sessions")
    rng = np.random.default_rng(0)
    values = np.tile(np.arange(7.0), len(DAYS)) + rng.normal(size=len(SESSIONS))
    pd.DataFrame({"load": values}, index=SESSIONS).to_csv(folder / "load.csv")
    with pytest.MonkeyPatch.context() as patch:
        assert train_here(patch, folder, "trainer.max_epochs=1", "logger=[]", "data.steps=rows") == 0
    return folder


def test_newer_data_of_two_days_keep_the_calendar_of_training(
    place: Path, monkeypatch, tmp_path: Path
) -> None:
    newer = pd.read_csv(place / "load.csv").iloc[-19:-2]  # to Friday, 13:30
    newer.to_csv(tmp_path / "newer.csv", index=False)
    run = only(place, "runs/*")
    asked = f"checkpoint={run}", f"data.path={tmp_path}/newer.csv", f"output={tmp_path}/next.csv"
    assert answer(monkeypatch, "predict", place, *asked) == 0
    dates = pd.read_csv(tmp_path / "next.csv", parse_dates=["date"])["date"]
    expected = [
        "2024-03-15 14:30",
        "2024-03-15 15:30",
        "2024-03-18 09:30",
        "2024-03-18 10:30",
        "2024-03-18 11:30",
    ]
    assert [*dates] == [pd.Timestamp(date) for date in expected]
    frame = newer.set_index(pd.DatetimeIndex(newer["date"]))[["load"]]
    assert [*load(run).predict(frame).index] == [*dates]
    asked = *asked, "data.calendar=[Tue,Wed,Thu,Fri]", "overwrite=true"
    assert answer(monkeypatch, "predict", place, *asked) == 0
    dates = pd.read_csv(tmp_path / "next.csv", parse_dates=["date"])["date"]
    assert dates[2] == pd.Timestamp("2024-03-19 09:30")  # type: ignore
