"""Trading sessions and days of months, which are no even steps, through training and prediction."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.api import load
from forecast.data import read_table
from forecast.data.store import open_store
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


def test_a_forecast_of_dekads_can_be_appended_and_stored(monkeypatch, tmp_path: Path) -> None:
    months = pd.date_range("2010-01-01", "2018-02-01", freq="MS").to_numpy().astype("datetime64[D]")
    days = pd.DatetimeIndex((months[:, None] + np.array([0, 10, 20])).ravel(), name="date")[:-2]
    load = pd.DataFrame({"load": np.sin(np.arange(len(days)) * np.pi / 18)}, index=days)
    load.drop(days[[50, 51]]).to_csv(tmp_path / "load.csv")
    assert train_here(monkeypatch, tmp_path, "trainer.max_epochs=1", "logger=[]") == 0
    run = f"checkpoint={only(tmp_path, 'runs/*')}"

    def predict(*asked: str) -> list[str]:
        assert answer(monkeypatch, "predict", tmp_path, run, *asked, "output=next.csv", "overwrite=true") == 0
        return pd.read_csv(tmp_path / "next.csv")["date"].tolist()

    assert predict() == ["2018-02-11", "2018-02-21", "2018-03-01", "2018-03-11", "2018-03-21"]
    appended = pd.concat(
        [pd.read_csv(tmp_path / name)[["date", "load"]] for name in ("load.csv", "next.csv")]
    )
    appended.to_csv(tmp_path / "longer.csv", index=False)
    expected = ["2018-04-01", "2018-04-11", "2018-04-21", "2018-05-01", "2018-05-11"]
    assert predict("data.path=longer.csv") == expected
    assert answer(monkeypatch, "convert", tmp_path, "data.path=longer.csv") == 0
    stored, read = open_store(tmp_path / "longer.store"), read_table(tmp_path / "longer.csv")
    assert (stored.freq, stored.season) == ("M-1-11-21", 36)
    assert [*stored.with_dates_after_ends(5).grid] == [*read.grid, *map(pd.Timestamp, expected)]
