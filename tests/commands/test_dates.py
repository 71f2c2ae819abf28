"""Dates of forecasts as in their files: of steps named by their ends (`data.stamp=end`), and of trading sessions."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.data.files.sources import read_table
from tests.support.commands import TINY, only, run_command, run_training

ZONE, PRED = "America/New_York", 5
BEGINS = pd.date_range("2024-02-20", periods=480, freq="h", tz=ZONE)
"""Clocks go forward on 10 March, within the steps that are forecast."""


def table(rows: slice) -> pd.DataFrame:
    """Hours by their local ends, as a supplier writes them, with a temperature that counts the hours."""
    hours = np.arange(len(BEGINS), dtype=float)
    ends = BEGINS.tz_localize(None) + pd.Timedelta(hours=1)
    load = 100 + 30 * np.sin(2 * np.pi * hours / 24)
    return pd.DataFrame({"date": ends, "load": load, "temperature": hours}).iloc[rows]


OPTIONS = ("data.stamp=end", f"data.timezone={ZONE}", "data.future_covariates=[temperature]")
LAST = 457  # rows of the file: the next one begins at 01:00, and the one after it at 03:00, where clocks go forward


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with load.csv, ahead.csv of the next temperatures, and a run trained on the file."""
    folder = tmp_path_factory.mktemp("ends")
    table(slice(0, LAST)).to_csv(folder / "load.csv", index=False)
    table(slice(LAST, LAST + PRED)).drop(columns="load").to_csv(folder / "ahead.csv", index=False)
    base = ("data=csv", "data.path=load.csv", "data.columns=[load]", "logger=[]", "pictures=false")
    assert run_command("train", folder, *TINY, *base, *OPTIONS, "trainer.max_epochs=1") == 0
    only(folder, "runs/*").rename(folder / "run")
    return folder


def read(path: Path) -> pd.DatetimeIndex:
    return read_table(path, timezone=ZONE, stamp="end", columns=["load"], drop=["temperature"]).grid


def test_a_forecast_appended_to_its_file_continues_it(place: Path, tmp_path: Path, capsys) -> None:
    options = ("checkpoint=run", "future=ahead.csv", "levels=[]", f"output={tmp_path}/forecast.csv")
    assert run_command("predict", place, *options) == 0
    assert "dates      ends of the steps, as in the data (data.stamp=end)" in capsys.readouterr().out
    found = pd.read_csv(tmp_path / "forecast.csv")
    ends = (BEGINS[LAST : LAST + PRED].tz_convert("UTC") + pd.Timedelta(hours=1)).tz_convert(ZONE)
    assert found["date"].tolist() == [str(date) for date in ends]
    assert read(place / "load.csv").tolist() == BEGINS[:LAST].tz_convert("UTC").tz_localize(None).tolist()
    both = [pd.read_csv(place / "load.csv", dtype=str), found.assign(temperature=0)]
    pd.concat(both).to_csv(tmp_path / "both.csv", index=False)
    expected = BEGINS[: LAST + PRED].tz_convert("UTC").tz_localize(None)
    assert read(tmp_path / "both.csv").tolist() == expected.tolist()


def test_frames_are_dated_as_the_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    model = forecast.load("run")
    known, ahead = (
        frame.assign(date=frame["date"].dt.tz_localize(ZONE, ambiguous=True, nonexistent="shift_forward"))
        for frame in (table(slice(0, LAST - 26)), table(slice(LAST - 26, LAST - 26 + PRED)))
    )
    found = model.predict(known.set_index("date"), future=ahead.set_index("date"))
    assert found.index.tolist() == ahead["date"].tolist()
    from_file = model.predict(start=str(ahead["date"].iloc[0]))
    np.testing.assert_allclose(found["load"], from_file["load"], rtol=1e-5)


DAYS = pd.bdate_range("2024-01-01", "2024-03-15").drop("2024-01-15")
TIMES = pd.timedelta_range("09:30:00", periods=7, freq="h")
SESSIONS = pd.DatetimeIndex((DAYS.to_numpy()[:, None] + TIMES.to_numpy()).ravel(), name="date")


def test_newer_data_of_two_days_keep_the_calendar_of_training(tmp_path: Path) -> None:
    """Of 53 sessions of 7 rows."""
    values = np.tile(np.arange(7.0), len(DAYS)) + np.random.default_rng(0).normal(size=len(SESSIONS))
    pd.DataFrame({"load": values}, index=SESSIONS).to_csv(tmp_path / "load.csv")
    assert run_training(tmp_path, "trainer.max_epochs=1", "logger=[]", "data.steps=rows") == 0
    newer = pd.read_csv(tmp_path / "load.csv").iloc[-19:-2]  # to Friday, 13:30
    newer.to_csv(tmp_path / "newer.csv", index=False)
    run = only(tmp_path, "runs/*")
    asked = f"checkpoint={run}", f"data.path={tmp_path}/newer.csv", f"output={tmp_path}/next.csv"
    assert run_command("predict", tmp_path, *asked) == 0
    dates = pd.read_csv(tmp_path / "next.csv", parse_dates=["date"])["date"]
    hours = ["15 14:30", "15 15:30", "18 09:30", "18 10:30", "18 11:30"]
    assert [*dates] == [pd.Timestamp(f"2024-03-{hour}") for hour in hours]
    frame = newer.set_index(pd.DatetimeIndex(newer["date"]))[["load"]]
    assert [*forecast.load(run).predict(frame).index] == [*dates]
    asked = *asked, "data.calendar=[Tue,Wed,Thu,Fri]", "overwrite=true"
    assert run_command("predict", tmp_path, *asked) == 0
    dates = pd.read_csv(tmp_path / "next.csv", parse_dates=["date"])["date"]
    assert dates[2] == pd.Timestamp("2024-03-19 09:30")  # type: ignore
