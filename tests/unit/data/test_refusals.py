"""Options and values of tables that are refused, and warnings, with the text of each message."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data import Panel, csv_data, frame_data, read_table
from forecast.data.calendars import find_calendar
from forecast.data.covariates import MAX_INDICATORS
from forecast.data.split import split_panel
from forecast.data.time_features import season_length, time_features
from forecast.system.errors import ConfigError, DataError
from tests.support.csv_files import numbers, write
from tests.support.refusals import Refusal, describe_options

SIZES = {"name": "mine", "seq_len": 20, "pred_len": 6, "split": [0.7, 0.1, 0.2]}
ROLES = {"columns": ["load"], "past_covariates": ["wind"], "future_covariates": ["price"]}
HOURS = pd.date_range("2016-07-01", periods=17_420, freq="h")
BUSINESS_DAYS = pd.bdate_range("2024-01-01", "2024-03-29")


def option(says: str, kind: type[Exception] = ConfigError, **options: Any) -> Refusal:
    """Options with which a file of 500 hours of load, price and wind is refused; its third load is 280.5."""

    def call(folder: Path) -> None:
        frame = numbers(500)
        frame.loc[2, "load"] = 280.5
        csv_data(**{"path": write(folder, frame.to_csv(index=False)), **SIZES, **options}).setup()

    return Refusal(describe_options(options), says, kind, call)


def columns(what: str, says: str, kind: type[Exception], options: dict[str, Any], **cells: Any) -> Refusal:
    """A DataFrame of 500 hours of load, price and wind with these columns."""

    def call(folder: Path) -> None:
        frame = numbers(500).assign(**cells)
        frame = frame.set_index(pd.to_datetime(frame.pop("date")))
        frame_data(frame, **{**SIZES, **options}).setup()

    return Refusal(what, says, kind, call)


def file(what: str, says: str, **cells: Any) -> Refusal:
    """A file of 500 hours of load, price and wind with these columns."""
    text = numbers(500).assign(**cells).to_csv(index=False)
    return Refusal(what, says, DataError, lambda folder: read_table(write(folder, text), **ROLES))


def text_in_trained_numbers(folder: Path) -> None:
    frame = numbers(500).drop(columns="date").set_index(HOURS[:500])
    trained = frame_data(frame, **SIZES, **ROLES)
    trained.setup()
    new = frame_data(frame.assign(price="cheap"), **{**SIZES, "split": "test"}, **ROLES)
    new = new.with_state(trained.state_dict())
    new.setup()


def other_columns_than_trained(folder: Path) -> None:
    path = write(folder, numbers(500).to_csv(index=False))
    trained = csv_data(path=path, **SIZES)
    trained.setup()
    csv_data(path=path, **SIZES, columns=["price", "load"]).with_state(trained.state_dict()).setup()


def split(
    parts: list, says: str, kind: type[Exception] = ConfigError, dates: pd.DatetimeIndex = HOURS
) -> Refusal:
    what = f"split={parts} of {len(dates)} rows, {dates.freqstr}"
    panel = Panel.of_table(dates, np.zeros((len(dates), 1)), ["x"], str(dates.freqstr))
    return Refusal(what, says, kind, lambda folder: split_panel(panel, parts, seq_len=5, season=1))


def calendar(
    what: str, says: str, dates: pd.DatetimeIndex, asked: Any = None, kind: type[Exception] = DataError
) -> Refusal:
    return Refusal(what, says, kind, lambda folder: find_calendar("my.csv", dates, asked))


def without_holidays(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "holidays", None)
        time_features(pd.date_range("2023-01-01", periods=4, freq="h"), "h", "TR")


OPTIONS = [
    option("seq_len=0 must be a whole number of at least 1", seq_len=0),
    option("features=X is not one of M, S, MS", features="X"),
    option("features=S needs data.target, one of: load, price, wind", features="S"),
    option("data.target=price is no column of mine to forecast (load): set data.target to one of them, or add it to data.columns", columns=["load"], target="price"),
    option("mine: the train split needs 351 rows (seq_len=345, pred_len=6), and there are 350: give more rows, shorter windows or another data.split", DataError, seq_len=345),
    option("data.upper=inf is not a finite number: write data.upper=0 or data.upper={COLUMN:0}", upper={"load": np.inf}),
    option("data.lower=5 is not below data.upper=5 (of load)", lower=5, upper=5),
    option("data.transform=log is not one of none, log1p, asinh, or auto for all targets", transform="log"),
    option("table.csv: load is -1.07367 at 2021-03-01 03:00:00, below data.lower=0: correct the value, or lower the bound", DataError, lower=0),
    option("table.csv: load is -1.07367 at 2021-03-01 03:00:00, data.transform=log1p takes values above -1: use asinh, which takes every number", DataError, transform="log1p"),
]  # fmt: skip
SPLITS = [
    split([0.7, 0.3], "data.split=[0.7, 0.3] is not a split: give months of 30 days [12,4,4], fractions of the rows that add up to 1 [0.7,0.1,0.2], or the first dates of validation and test [2017-07-01,2017-11-01]"),
    split(["soon", "later"], "data.split=['soon', 'later']: 'soon' is not a date such as 2017-07-01"),
    split(["2017-07-01", "2017-06-01"], "data.split=['2017-07-01', '2017-06-01'] must rise and lie after the first date of the table and not after the last one, 2016-07-01 00:00:00 and 2018-06-26 19:00:00"),
    split([12, 4, 4], "data.split=[12, 4, 4] needs 14,400 rows (h), and the table has 14,399", DataError, HOURS[:14_399]),
    *(split([12, 4, 4], f"and steps of {freq} do not divide them: give fractions or dates", dates=pd.date_range("2000-01-01", periods=1000, freq=freq)) for freq in ("MS", "W-SUN", "B", "7h", "7D")),
]  # fmt: skip
DATES = [
    Refusal("holidays of months", "data.holidays=TR needs steps of a day or less, and these are of MS", ConfigError, lambda folder: time_features(BUSINESS_DAYS, "MS", "TR")),
    calendar("an unknown calendar", "data.calendar=ZZ is not known: give the code of a country or exchange, such as DE or XNYS", BUSINESS_DAYS, "ZZ", ConfigError),
    calendar("a single week", "my.csv: the last dates, to 2024-01-05 00:00:00, have no weekly pattern, so the dates of a forecast are not known: set data.calendar, such as business, [Mon,Tue,Wed] or XNYS; write dates of months as 2024-01", BUSINESS_DAYS[:5]),
    Refusal("no package holidays", "data.holidays=TR: holidays is not installed: pip install -c constraints.txt -e '.[holidays]'", ConfigError, without_holidays),
    *(Refusal(f"freq={freq!r}", f"'{freq}' is not a step between rows: write one as h, 15min, D, W-SUN or MS", ConfigError, lambda folder, freq=freq: season_length(freq)) for freq in ("", "0h", "15 apples")),
]  # fmt: skip
VALUES = [
    Refusal("other columns than the checkpoint's", "mine: feature columns price, load, where the checkpoint was trained on load, price, wind: choose the same (data, data.columns, data.target, data.past_covariates, features)", DataError, other_columns_than_trained),
    columns("a category after training", "mine: column 'wind' has 'hail' in 4 of 500 rows, not among the categories that training knew: read as unknown", UserWarning, ROLES, wind=["sun", "rain"] * 248 + ["hail"] * 4),
    columns("too many categories", "mine: column 'price' has 200 categories in the training rows: the 100 most frequent are read, all others as unknown", UserWarning, ROLES, price=[f"sku {n % (2 * MAX_INDICATORS)}" for n in range(500)]),
    columns("a constant column", "constant in the training rows, so scaled by 1: wind", UserWarning, {"scaler": "robust"}, wind=3.0),
    columns("too large for float32", "mine: column 'price' has numbers too large for float32 once scaled: rescale it", DataError, {"scaler": "none"}, price=1e39),
    columns("no training value", "no value of wind in the training rows: leave the column out, or give another data.split", DataError, {}, wind=[None] * 400 + [1.0] * 100),
    Refusal("text where the model was trained on numbers", "mine: column 'price' holds text, such as 'cheap', and numbers where the model was trained", DataError, text_in_trained_numbers),
    file("text in a column of numbers", "table.csv, line 3, column 'price': 'x' is text, and other cells are numbers, such as '1.5': correct it, write text in every cell, or name it in data.na_values if it is a missing value", price=["1.5", "x", *["2"] * 498]),
    file("text as a target", "table.csv: 1 column of text beside numbers: 'load' ('much'): set data.drop=[load], or …", load="much"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    "refusal",
    [*OPTIONS, *SPLITS, *DATES, *VALUES],
    ids=lambda refusal: refusal.what[:60],
)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
