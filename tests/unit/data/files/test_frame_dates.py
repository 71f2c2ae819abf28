"""Where the dates of a DataFrame are."""

import numpy as np
import pandas as pd
import pytest

from forecast.data.files.sources import FrameSource, read_frame
from forecast.system.errors import DataError

DATES = pd.date_range("2024-02-01", periods=40, freq="h")
FRAME = pd.DataFrame({"load": np.arange(40.0)}, DATES)


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        (FRAME, "date"),
        (FRAME.rename_axis("hour"), "hour"),
        (FRAME.reset_index(names="ds"), "ds"),
        (FRAME.reset_index(names="date").assign(created=DATES), "date"),
        (
            FRAME.reset_index(names="when").assign(when=lambda f: f["when"].dt.strftime("%Y/%m/%d %H:%M")),
            "when",
        ),
        (FRAME.to_period().reset_index(names="hour"), "hour"),
    ],
)
def test_the_dates_are_the_index_or_a_column(frame: pd.DataFrame, name: str) -> None:
    source = FrameSource(frame, columns=["load"])
    panel = source.read()
    assert source.date_column == name
    assert list(panel.columns) == ["load"]
    assert panel.dates(np.arange(40)).equals(DATES)


TWO = FRAME.assign(date=DATES + pd.Timedelta(days=9), time=DATES).reset_index(drop=True)


@pytest.mark.parametrize(
    ("frame", "wanted"),
    [
        (TWO, "time"),
        (TWO.set_index(DATES + pd.Timedelta(days=5)), "time"),
        (TWO.set_index(pd.Index(TWO["date"], name="time")), "time"),
        (TWO.drop(columns="time").set_index(DATES.rename("time")), "time"),
    ],
)
def test_a_named_column_or_index_is_taken(frame: pd.DataFrame, wanted: str) -> None:
    panel = FrameSource(frame, columns=["load"], date_column=wanted).read()
    assert panel.grid.name == wanted
    assert panel.dates(np.arange(40)).equals(DATES)


def test_an_index_and_a_column_of_one_name() -> None:
    frame = FRAME.assign(date=np.arange(40.0)).rename_axis("date")
    panel = read_frame(frame[:30], future=frame[30:], future_covariates=["date"], columns=["load"])
    assert panel.dates(np.arange(40)).equals(DATES)
    assert panel.grid.name == "date_index"
    assert panel.future is not None
    assert panel.future[:, 0].tolist() == list(range(40))


@pytest.mark.parametrize(
    ("frame", "wanted", "advice"),
    [
        (TWO, "Zeit", "name one of the columns of dates (date, time)"),
        (TWO.rename(columns={"date": "made"}), "date", "name one of the columns of dates (made, time)"),
        (FRAME.assign(Zeit=1.0).rename_axis("time"), "Zeit", "give the rows an index of dates"),
    ],
)
def test_a_name_of_no_dates_is_refused(frame: pd.DataFrame, wanted: str, advice: str) -> None:
    with pytest.raises(DataError) as refused:
        read_frame(frame, columns=["load"], date_column=wanted)
    problem = f"the DataFrame: neither the index nor one column {wanted!r} holds dates"
    assert str(refused.value) == f"{problem}: {advice} (date_column)"
