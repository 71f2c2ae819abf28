"""Options and values of tables that are refused, and warnings, with the text of each message."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import Panel, WindowLoader, csv_data, frame_data, read_table
from forecast.data.calendars import find_calendar
from forecast.data.covariates import MAX_INDICATORS
from forecast.data.scaler import fit_scaler
from forecast.data.split import split_panel
from forecast.data.time_features import infer_frequency, season_length, time_features
from forecast.system.errors import ConfigError, DataError
from tests.support.csv_files import numbers, write
from tests.support.refusals import Refusal, describe_options
from tests.support.windows import windows_over

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


def state(what: str, says: str, trained: dict[str, Any], **options: Any) -> Refusal:
    """A file that is read with other options than those of the checkpoint."""

    def call(folder: Path) -> None:
        path = write(folder, numbers(500).to_csv(index=False))
        data = csv_data(path=path, **SIZES, **trained)
        data.setup()
        new = csv_data(path=path, **SIZES, **options)
        new.setup()
        new.load_state_dict(data.state_dict())

    return Refusal(what, says, DataError, call)


def text_in_trained_numbers(folder: Path) -> None:
    frame = numbers(500).drop(columns="date").set_index(HOURS[:500])
    trained = frame_data(frame, **SIZES, **ROLES)
    trained.setup()
    new = frame_data(frame.assign(price="cheap"), **{**SIZES, "split": "test"}, **ROLES)
    new.load_state_dict(trained.state_dict())
    new.setup()


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


def holidays(country: str, freq: str, says: str) -> Refusal:
    dates = pd.date_range("2023-01-01", periods=4, freq=freq)
    return Refusal(
        f"holidays={country} freq={freq}",
        says,
        ConfigError,
        lambda folder: time_features(dates, freq, country),
    )


def without_holidays(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "holidays", None)
        time_features(pd.date_range("2023-01-01", periods=4, freq="h"), "h", "TR")


def months_of_rows(folder: Path) -> None:
    text = "date,x\n" + "".join(f"{date:%Y-%m-%d},1\n" for date in BUSINESS_DAYS)
    split_panel(read_table(write(folder, text), steps="rows"), [2, 1, 1], seq_len=5, season=5)


def step(what: str, says: str, *dates: str) -> Refusal:
    return Refusal(what, says, DataError, lambda folder: infer_frequency(pd.DatetimeIndex(dates)))


def loader(batch_size: int, count: int = 31, **options: Any) -> WindowLoader:
    windows = windows_over(
        torch.zeros(50, 1),
        torch.zeros(50, 1),
        starts=[range(4, 4 + count)],
        seq_len=4,
        pred_len=2,
        target_index=[0],
    )
    return WindowLoader(windows, batch_size, shuffle=True, **options)


def resumed(what: str, other: WindowLoader) -> Refusal:
    """Batches that are resumed from the state of batches of 8."""
    says = "resume with the same data, batch size and seed"
    return Refusal(what, says, ConfigError, lambda folder: other.load_state_dict(loader(8).state_dict()))


def constant(kind: str) -> Refusal:
    values = np.random.default_rng(0).normal(size=(400, 3)) * [1, 0, 1]
    says = "constant in the training rows, so scaled by 1: b"
    return Refusal(
        f"a constant column, {kind}",
        says,
        UserWarning,
        lambda folder: fit_scaler(values, ("a", "b", "c"), np.array([0]), np.array([400]), kind=kind),
    )


OPTIONS = [
    option("seq_len=0 must be a whole number of at least 1", seq_len=0),
    option("pred_len=-3 must be a whole number of at least 1", pred_len=-3),
    option("seed=-1 must be a whole number of at least 0", seed=-1),
    option("features=X is not one of M, S, MS", features="X"),
    option("data.scaler=log is not one of standard, minmax, robust, none", scaler="log"),
    option("data.path=null: data=csv and data=long need a file (data.path=FILE)", path=None),
    option("features=S needs data.target, one of: load, price, wind", features="S"),
    option("data.target=price is no column of mine to forecast (load): set data.target to one of them, or add it to data.columns", columns=["load"], target="price"),
    option("mine: the train split needs 351 rows (seq_len=345, pred_len=6), and there are 350: give more rows, shorter windows or another data.split", DataError, seq_len=345),
    option("mine: the test split needs 26 rows (seq_len=20, pred_len=26), and there are 25: give more rows, shorter windows or another data.split", DataError, split=[0.8, 0.15, 0.05], pred_len=26),
    option("data.upper=inf is not a finite number: write data.upper=0 or data.upper={COLUMN:0}", upper={"load": np.inf}),
    option("data.lower=5 is not below data.upper=5 (of load)", lower=5, upper=5),
    option("data.lower names wind, which is no target here: there are load, price", lower={"wind": 0}, columns=["load", "price"]),
    option("data.transform=log is not one of none, log1p, asinh, or auto for all targets", transform="log"),
    option("data.transform names snow, which is no column here: there are load, price, wind", transform={"snow": "log1p"}),
    option("table.csv: load is -1.07367 at 2021-03-01 03:00:00, below data.lower=0: correct the value, or lower the bound", DataError, lower=0),
    option("table.csv: load is 280.5 at 2021-03-01 02:00:00, above data.upper=100: correct the value, or raise the bound", DataError, upper={"load": 100}),
    option("table.csv: load is -1.07367 at 2021-03-01 03:00:00, data.transform=log1p takes values above -1: use asinh, which takes every number", DataError, transform="log1p"),
    option("data.fill names snow, which is no column here: there are load, price, wind", fill={"snow": "zero"}),
    state("other columns than the checkpoint's", "mine: feature columns price, load, where the checkpoint was trained on load, price, wind: choose the same (data.columns, data.target, data.past_covariates, features)", {}, columns=["price", "load"]),
]  # fmt: skip
SPLITS = [
    split([0.7, 0.3], "data.split=[0.7, 0.3] is not a split: give months of 30 days [12,4,4], fractions of the rows that add up to 1 [0.7,0.1,0.2], or the first dates of validation and test [2017-07-01,2017-11-01]"),
    split([1, 2], "data.split=[1, 2] is not a split: give months of 30 days [12,4,4], fractions of the rows that add up to 1 [0.7,0.1,0.2], or the first dates of validation and test [2017-07-01,2017-11-01]"),
    split(["soon", "later"], "data.split=['soon', 'later']: 'soon' is not a date such as 2017-07-01"),
    split(["2017-07-01", "2017-06-01"], "data.split=['2017-07-01', '2017-06-01'] must rise and lie after the first date of the table and not after the last one, 2016-07-01 00:00:00 and 2018-06-26 19:00:00"),
    split(["2017-07-01T00:00Z", "2017-08-01T00:00Z"], "data.split=['2017-07-01T00:00Z', '2017-08-01T00:00Z']: leave the offset from UTC out: the dates of the data have no UTC offset"),
    split([12, 4, 4], "data.split=[12, 4, 4] needs 14,400 rows (h), and the table has 14,399", DataError, HOURS[:14_399]),
    *(split([12, 4, 4], f"and steps of {freq} do not divide them: give fractions or dates", dates=pd.date_range("2000-01-01", periods=1000, freq=freq)) for freq in ("MS", "W-SUN", "B", "7h", "7D")),
    Refusal("months of rows that are steps", "data.split=[2, 1, 1] counts months of 30 days, and steps of B do not divide them: give fractions or dates", ConfigError, months_of_rows),
]  # fmt: skip
DATES = [
    calendar("an unknown calendar", "data.calendar=ZZ is not known: give the code of a country or exchange, such as DE or XNYS", BUSINESS_DAYS, "ZZ", ConfigError),
    calendar("a single week", "my.csv: the last dates, to 2024-01-05 00:00:00, have no weekly pattern, so the dates of a forecast are not known: set data.calendar, such as business, [Mon,Tue,Wed] or XNYS; write dates of months as 2024-01", BUSINESS_DAYS[:5]),
    holidays("XX", "h", "data.holidays=XX is not known: give a country's ISO code, such as TR, DE or DE-BY"),
    holidays("TR", "MS", "data.holidays=TR needs steps of a day or less, and these are of MS"),
    Refusal("no package holidays", "data.holidays=TR: holidays is not installed: pip install -c constraints.txt -e '.[holidays]'", ConfigError, without_holidays),
    step("uneven dates", "the dates are not evenly spaced", "2020-01-01", "2020-01-02", "2020-01-04"),
    step("two dates", "2 dates are too few to tell the step between rows: give it (data.freq)", "2020-01-01", "2020-01-02"),
    *(Refusal(f"freq={freq!r}", f"'{freq}' is not a step between rows: write one as h, 15min, D, W-SUN or MS", ConfigError, lambda folder, freq=freq: season_length(freq)) for freq in ("hourly", "", "-1h", "0h", "15 apples")),
]  # fmt: skip
VALUES = [
    columns("too large for float32", "mine: column 'price' has numbers too large for float32 once scaled: rescale it", DataError, {"scaler": "none"}, price=1e39),
    columns("no training value", "no value of wind in the training rows: leave the column out, or give another data.split", DataError, {}, wind=[None] * 400 + [1.0] * 100),
    Refusal("text where the model was trained on numbers", "mine: column 'price' holds text, such as 'cheap', and numbers where the model was trained", DataError, text_in_trained_numbers),
    file("text in a column of numbers", "table.csv, line 3, column 'price': 'x' is text, and other cells are numbers, such as '1.5': correct it, write text in every cell, or name it in data.na_values if it is a missing value", price=["1.5", "x", *["2"] * 498]),
    file("per cent", "table.csv, line 2, column 'price': '98%' is not a number: correct it, or name it in data.na_values if it is a missing value", price="98%"),
    file("text as a target", "table.csv: 1 column of text beside numbers: 'load' ('much'): set data.drop=[load], or …", load="much"),
]  # fmt: skip
LOADERS = [
    Refusal("fewer windows than processes", "1 window cannot be shared between 2 processes: use fewer processes", ConfigError, lambda folder: loader(4, count=1, world_size=2)),
    Refusal("a batch that processes cannot share", "data.batch_size=9 must divide by the number of processes, 2", ConfigError, lambda folder: loader(9, world_size=2)),
    resumed("other batch size", loader(4)),
]  # fmt: skip
WARNINGS = [
    constant("standard"),
    constant("robust"),
    columns("a category after training", "mine: column 'wind' has 'hail' in 4 of 500 rows, not among the categories that training knew: read as unknown", UserWarning, ROLES, wind=["sun", "rain"] * 248 + ["hail"] * 4),
    columns("too many categories", "mine: column 'price' has 200 categories in the training rows: the 100 most frequent are read, all others as unknown", UserWarning, ROLES, price=[f"sku {n % (2 * MAX_INDICATORS)}" for n in range(500)]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    "refusal",
    [*OPTIONS, *SPLITS, *DATES, *VALUES, *LOADERS, *WARNINGS],
    ids=lambda refusal: refusal.what[:60],
)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
