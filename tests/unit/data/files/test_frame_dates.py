"""Where the dates of a DataFrame are."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from forecast.data.files.frame_source import FrameSource, read_frame
from forecast.system.errors import DataError

DATES = pd.date_range("2024-02-01", periods=40, freq="h")
FRAME = pd.DataFrame({"load": np.arange(40.0)}, DATES)


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        (FRAME, "date"),
        (FRAME.rename_axis("hour"), "hour"),
        (FRAME.reset_index(names="time"), "time"),
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


def test_the_future_is_laid_out_as_the_past() -> None:
    whole = FRAME.assign(price=np.arange(40.0)).reset_index(names="time")
    panel = read_frame(
        whole[:30], future=whole.loc[30:, ["time", "price"]], columns=["load"], future_covariates=["price"]
    )
    assert panel.future is not None
    assert panel.future[:, 0].tolist() == list(range(40))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.reset_index(drop=True), "the DataFrame needs a DatetimeIndex: frame.set_index("),
        (
            lambda f: f.reset_index(names="sent").assign(received=DATES),
            "the DataFrame has several columns of dates (sent, received), and needs a DatetimeIndex: frame.set_index(",
        ),
    ],
)
def test_a_frame_without_dates_or_with_several_is_refused(
    change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    with pytest.raises(DataError) as refused:
        FrameSource(change(FRAME))
    assert str(refused.value).startswith(message)
