import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data import DataModule, Panel, csv_data, frame_data, long_data, read_table, store_data
from forecast.data.calendars import find_calendar
from forecast.data.covariates import MAX_INDICATORS
from forecast.data.files.sources import LongSource
from forecast.data.split import split_panel
from forecast.data.store import check_fits_memory, open_store
from forecast.data.time_features import time_features
from forecast.inference.model_data import known_columns
from forecast.system.errors import ConfigError, DataError
from tests.support.csv_files import lines, numbers, write
from tests.support.long_files import long_frame, long_frame_data
from tests.support.refusals import Refusal, describe_options
from tests.support.stores import write_store
from tests.support.windows import set_up

Change = Callable[[pd.DataFrame], Any]

SIZES = {"name": "mine", "seq_len": 20, "pred_len": 6, "split": [0.7, 0.1, 0.2]}
SHORT = {**SIZES, "seq_len": 6, "pred_len": 3}
ROLES = {"columns": ["load"], "past_covariates": ["wind"], "future_covariates": ["price"]}
HOURS = pd.date_range("2016-07-01", periods=17_420, freq="h")
BUSINESS_DAYS = pd.bdate_range("2023-10-02", periods=125)

# ---- files

DATES = [f"2021-03-01 {hour:02}:00" for hour in range(5)]
ROWS = [f"{date},{n},{n * 0.5}" for n, date in enumerate(DATES)]

GOOD = lines(*ROWS)
WIDE = "country,lat,1/28/21,1/29/21,2/1/21,2/2/21,2/3/21,2/4/21\nMali,17.5,1,2,5,6,7,\nChad,15.4,2,3,,7,8,9\n"
"""One series per row."""


def bad(what: str, text: str | bytes, says: str, **options: Any) -> Refusal:
    return Refusal(what, says, DataError, lambda folder: read_table(write(folder, text), **options))


def reading(says: str, kind: type[Exception] = ConfigError, **options: Any) -> Refusal:
    what = describe_options(options)
    return Refusal(what, says, kind, lambda folder: read_table(write(folder, GOOD), **options))


def numbered(says: str, **options: Any) -> Refusal:
    """A first date and a step with which a file of 125 rows is refused."""
    text = lines(*(str(n) for n in range(125)), header="price")
    return Refusal(
        describe_options(options), says, ConfigError, lambda folder: read_table(write(folder, text), **options)
    )


def melted(what: str, text: str | bytes, says: str, kind: type[Exception] = DataError, **options: Any) -> Refusal:
    given: dict[str, Any] = {"id_column": "country", "day_first": False, "drop": ["lat"], **options}
    return Refusal(what, says, kind, lambda folder: LongSource(path=write(folder, text), melt=True, **given).read())


def joined(what: str, text: str, says: str, id_column: list[str]) -> Refusal:
    options: dict[str, Any] = {"id_column": id_column, "date_column": "date", "target": "load"}
    return Refusal(what, says, DataError, lambda folder: LongSource(path=write(folder, text), **options).read())


def predicted(what: str, says: str, options: dict[str, Any], **columns: Any) -> Refusal:
    """Three days of a load and of other columns, read by a trained model: no setting of training is advised."""
    days = pd.DataFrame({"date": ["2024-01-01", "2024-01-02", "2024-01-03"], "load": 1.5}).assign(**columns)

    def call(folder: Path) -> None:
        with known_columns(Path("runs/a/best.ckpt"), {}):
            read_table(write(folder, days.to_csv(index=False)), **options)

    return Refusal(f"{what}, in prediction", says, DataError, call)


def clocks_change(folder: Path) -> None:
    dates = ["2021-10-31 02:00+02:00", "2021-10-31 02:00+01:00", "2021-10-31 03:00+01:00"]
    read_table(write(folder, lines(*(f"{date},1,{n}" for n, date in enumerate(dates)))))


def hourly(dates: pd.DatetimeIndex) -> str:
    return lines(*(f"{date.isoformat()},{n}" for n, date in enumerate(dates)), header="date,load")


def holidays_in_utc(folder: Path) -> None:
    text = hourly(pd.date_range("2024-01-01", periods=400, freq="h", tz="UTC"))
    csv_data(path=write(folder, text), holidays="DE", **{**SIZES, "name": "load"}).setup()


def training_had_a_zone(folder: Path) -> None:
    dates = pd.date_range("2024-03-25", periods=400, freq="h", tz="Europe/Berlin")
    trained = set_up(csv_data(path=write(folder, hourly(dates), "a.csv"), timezone="Europe/Berlin", **SIZES))
    plain = write(folder, hourly(dates[:100].tz_localize(None)))
    csv_data(path=plain, **{**SIZES, "split": "test"}).with_state(trained.state_dict()).setup()


def series_of_other_dates(folder: Path) -> None:
    days = [BUSINESS_DAYS + pd.Timedelta(hours=n) for n in range(4)]
    series = [pd.DataFrame({"unique_id": f"s{n}", "ds": dates, "y": 1.0}) for n, dates in enumerate(days)]
    LongSource(path=write(folder, pd.concat(series).to_csv(index=False)), steps="rows").read()


def read_departments(folder: Path, duplicates: str) -> Panel:
    """Two departments of a store, which share the temperature and the holidays."""
    text = lines(*(f"2021-01-0{day},{sales},{cold},{closed},{sky}" for day, sales, cold, closed, sky in
                   ((1, 5, 1.5, "TRUE", "fair"), (1, 7, 1.5, "TRUE", "fair"), (2, 6, -2, "FALSE", "snow"), (2, 0, -2, "TRUE", "rain"))),
                 header="date,sales,cold,closed,sky")  # fmt: skip
    roles = {"columns": ["sales"], "past_covariates": ["cold"], "future_covariates": ["closed", "sky"]}
    return read_table(write(folder, text), duplicates=duplicates, freq="D", **roles)


STEPS = [f"d_{n}" for n in range(1, 40) if n != 6]
FILES = [
    bad("not the format", GOOD, "table.csv, line 2, column 'date': '2021-03-01 00:00' does not match data.date_format='%d/%m/%Y': give the format …", date_format="%d/%m/%Y"),
    joined("a name of series that is not there", GOOD, "table.csv: no column 'shop'; there are … (data.id_column)", ["shop"]),
    joined("two series of one joined id", "date,store,dept,load\n2021-01-01,a/b,c,1\n2021-01-01,a,b/c,1\n", "table.csv: two series are 'a/b/c' when joined with /: use another sign in their columns", ["store", "dept"]),
    bad("backwards, in a time zone", lines("2021-07-01 02:00+02:00,1,1", "2021-07-01 01:00+02:00,1,1", "2021-07-01 03:00+02:00,1,1"), "table.csv, line 3, column 'date': 2021-07-01 01:00:00+02:00 comes after 2021-07-01 02:00:00+02:00: sort the rows by date, or set data.sort=true"),
    bad("many missing rows", GOOD, "table.csv: only 5 rows for 14,400 steps of s from first to last: correct the dates, give another step (data.freq), or leave out series of few rows (data.ids)", freq="s"),
    bad("one series per row", lines("H1," + ",".join("5" * 11) + ",", "H2," + ",".join("6" * 12), header=",".join(f"V{n}" for n in range(1, 14))), "table.csv: no column 'date' in line 1 ('V1', …): a file with one series per row needs data=long data.melt=true and data.id_column; numbered steps need data.start and data.freq too"),
    bad("dates in the header", WIDE, "table.csv: no column 'date' in line 1 (…): a file with one series per row needs data=long data.melt=true …"),
    melted("no number in a melted row", WIDE.replace("15.4,2", "15.4,two"), "table.csv, line 3, column 'y': 'two' is not a number: …"),
    melted("melted, no id", WIDE, "data.melt=true needs data=long with data.id_column, and one target (data.target)", ConfigError, id_column=None),
    melted("melted, columns without a role", WIDE.replace("2/4/21", "2/4/21,total").replace("7,\n", "7,,1\n").replace("9\n", "9,1\n"), "table.csv, line 1: columns that are no dates: 'lat', 'total': rename them, …", drop=[]),
    melted("melted, a step is missing", lines("A," + ",".join("5" * len(STEPS)), header="country," + ",".join(STEPS)), "table.csv, line 1: columns that are not numbered as 'd_1' is, up by one: 'd_7': …", drop=[], day_first=None, start="2010-01-01", freq="D"),
    melted("melted, Parquet", b"PAR1", "data.melt=true is for CSV files and Excel workbooks: turn a Parquet file with pandas", ConfigError),
    bad("a time of day beside dates with times", lines(*(f"{date},{date[-5:]},1" for date in DATES), header="date,clock,load"), "table.csv: 1 column of text beside numbers: 'clock' ('00:00'): correct the cells, set data.drop=[clock], or for times of day set data.date_column=[date,clock]"),
    bad("thousands with dots beside small numbers", lines(*(f"{2000 + n},{n % 999 + 1}" if n % 2 else f"{2000 + n},{n % 60 + 1}.999" for n in range(400)), header="date,load"), "table.csv, line 2, column 'load': '1.999' beside '100': the dot may separate thousands or decimals: set …"),
    predicted("no such column", "table.csv: no column 'wind'; there are 'load'; give the columns that runs/a/best.ckpt was trained on", {"columns": ["load", "wind"]}),
    predicted("a column of text", "table.csv: 1 column of text beside numbers: 'text' ('calm'); give the columns that runs/a/best.ckpt was trained on", {}, text="calm"),
    predicted("a static value that changes", "table.csv, line 3, column 'region': 's', and 'n' above: a static column does not change within a series; give the columns that runs/a/best.ckpt was trained on", {"static_covariates": ["region"]}, region=["n", "s", "n"]),
]  # fmt: skip
READING = [
    reading("data.decimal='::' must be one character", decimal="::"),
    reading("data.date_format='%Q': 'Q' is a bad directive in format '%Q'", date_format="%Q"),
    reading("data.rows=['2021-03-01']: write two dates, as in data.rows=[2006-01-01,null]", rows=["2021-03-01"]),
    reading("data.rows=['soon', None]: write dates as 2006-01-01 or 2006-01-01T06:00", rows=["soon", None]),
    reading("data.rows=['2021-03-02', '2021-03-01']: the first date lies after the last one", rows=["2021-03-02", "2021-03-01"]),
    reading("table.csv: data.rows=['2022-01-01', None] leaves no row: there are 2021-03-01 00:00:00 to 2021-03-01 04:00:00", DataError, rows=["2022-01-01", None]),
    reading("data.rows=['2021-03-01T00:00Z', None]: leave the offset from UTC out: the dates of the data have no UTC offset", rows=["2021-03-01T00:00Z", None]),
    *(reading("is not a zone: write one as Europe/Berlin", timezone=zone) for zone in ("Mars/Olympus", "../../etc/passwd", "/etc/localtime", "\0")),
    numbered("data.start=2024-01-02 is no date of data.freq=MS: the next is 2024-02-01 00:00:00", start="2024-01-02", freq="MS"),
    numbered("data.start=2024-01-01 data.freq=2YS: row 125 would lie after 2261", start="2024-01-01", freq="2YS"),
    Refusal("rows as steps, series of other dates", "table.csv: data.steps=rows needs series with the same dates, and these 4 have 500 rows for 1,988 dates: set data.steps=dates, or give one series (data.ids)", DataError, series_of_other_dates),
    Refusal("no zone where training had one", "the dates have no time zone, and the other dates are of Europe/Berlin: give their zone (data.timezone; of a DataFrame tz_localize('Europe/Berlin'))", DataError, training_had_a_zone),
    Refusal("a date twice, merged", "table.csv: merged 1 row with the row before, of the same date (data.duplicates=mean: mean of load, price)", UserWarning, lambda folder: read_table(write(folder, lines(*ROWS[:3], f"{DATES[2]},3,1", ROWS[4])), duplicates="mean")),
    Refusal("dates twice, added up", "table.csv: merged 2 rows with the row before, of the same date (data.duplicates=sum: sum of sales; mean of cold, closed; first of sky)", UserWarning, lambda folder: read_departments(folder, "sum")),
    Refusal("offsets from UTC that change", "table.csv: the offset from UTC changes, so dates are read as UTC; to keep local time, set data.timezone, such as Europe/Berlin", UserWarning, clocks_change),
    Refusal("holidays of dates in UTC", "load: the dates are UTC, so data.holidays=DE marks days of UTC, which begin and end some hours before or after the country's: set data.timezone", UserWarning, holidays_in_utc),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*merged 2 rows:UserWarning")
@pytest.mark.parametrize(("duplicates", "sales"), [("sum", [12, 6]), ("mean", [6, 3])])
def test_only_targets_are_added_up(tmp_path: Path, duplicates: str, sales: list[float]) -> None:
    panel = read_departments(tmp_path, duplicates)
    assert panel.values[:, 0].tolist() == sales
    assert panel.values[:, 1].tolist() == [1.5, -2.0]
    assert panel.future is not None
    assert panel.future.tolist() == [[1.0, 0.0], [0.5, 1.0]]


@pytest.mark.parametrize(("day", "warned"), [("%d.%m.%Y", 1), ("%Y-%m-%d", 0)])
def test_dots_of_three_digits_beside_dates_with_dots_are_doubted(day: str, warned: int, tmp_path: Path) -> None:
    dates = pd.date_range("2023-12-01", periods=150).strftime(day)
    text = lines(*(f"{date},{11 + n % 3}.{n:03}" for n, date in enumerate(dates)), header="date,load")
    path = write(tmp_path, text)
    with warnings.catch_warnings(record=True, action="always") as caught:
        assert int(read_table(path).values[0, 0]) == 11
    assert sum("dots are read as decimal points" in str(one.message) for one in caught) == warned
    with warnings.catch_warnings(action="error"):
        assert read_table(path, decimal=",", thousands=".").values[0, 0] == 11_000


# ---- one table: options, splits, dates and values


def option(says: str, kind: type[Exception] = ConfigError, **options: Any) -> Refusal:
    """Options with which a file of 500 hours of load, price and wind is refused."""

    def call(folder: Path) -> None:
        csv_data(**{"path": write(folder, numbers(500).to_csv(index=False)), **SIZES, **options}).setup()

    return Refusal(describe_options(options), says, kind, call)


def columns(what: str, says: str, kind: type[Exception], options: dict[str, Any], **cells: Any) -> Refusal:
    """A DataFrame of 500 hours of load, price and wind with these columns."""

    def call(folder: Path) -> None:
        frame = numbers(500).assign(**cells)
        frame = frame.set_index(pd.to_datetime(frame.pop("date")))
        frame_data(frame, **{**SIZES, **options}).setup()

    return Refusal(what, says, kind, call)


def text_in_trained_numbers(folder: Path) -> None:
    frame = numbers(500).drop(columns="date").set_index(HOURS[:500])
    trained = set_up(frame_data(frame, **SIZES, **ROLES))
    new = frame_data(frame.assign(price="cheap"), **{**SIZES, "split": "test"}, **ROLES)
    new.with_state(trained.state_dict()).setup()


def split(parts: list, says: str, kind: type[Exception] = ConfigError, dates: pd.DatetimeIndex = HOURS) -> Refusal:
    what = f"split={parts} of {len(dates)} rows, {dates.freqstr}"
    panel = Panel.of_table(dates, np.zeros((len(dates), 1)), ["x"], str(dates.freqstr))
    return Refusal(what, says, kind, lambda folder: split_panel(panel, parts, seq_len=5, season=1))


def without_holidays(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "holidays", None)
        time_features(pd.date_range("2023-01-01", periods=4, freq="h"), "h", "TR")


TABLES = [
    option("seq_len=0 must be a whole number of at least 1", seq_len=0),
    option("features=X is not one of M, S, MS", features="X"),
    option("data.target=price is no column of mine to forecast (load): set data.target to one of them, or add it to data.columns", columns=["load"], target="price"),
    option("data.upper=inf is not a finite number: write data.upper=0 or data.upper={COLUMN:0}", upper={"load": np.inf}),
    option("data.lower=5 is not below data.upper=5 (of load)", lower=5, upper=5),
    option("data.transform=log is not one of none, log1p, asinh, or auto for all targets", transform="log"),
    option("table.csv: load is -1.07367 at 2021-03-01 03:00:00, below data.lower=0: correct the value, or lower the bound", DataError, lower=0),
    option("table.csv: load is -1.07367 at 2021-03-01 03:00:00, data.transform=log1p takes values above -1: use asinh, which takes every number", DataError, transform="log1p"),
    split(["soon", "later"], "data.split=['soon', 'later']: 'soon' is not a date such as 2017-07-01"),
    split([12, 4, 4], "data.split=[12, 4, 4] needs 14,400 rows (h), and the table has 14,399", DataError, HOURS[:14_399]),
    *(split([12, 4, 4], "does not divide: give fractions or dates", dates=pd.date_range("2000-01-01", periods=1000, freq=freq)) for freq in ("MS", "B", "7h")),
    Refusal("holidays of months", "data.holidays=TR needs steps of a day or less, and these are of MS", ConfigError, lambda folder: time_features(BUSINESS_DAYS, "MS", "TR")),
    Refusal("an unknown calendar", "data.calendar=ZZ is not known: give the code of a country or exchange, such as DE or XNYS", ConfigError, lambda folder: find_calendar("my.csv", BUSINESS_DAYS, "ZZ")),
    *(Refusal(f"a calendar of {asked}", "… are not those of data.calendar…", DataError, lambda folder, asked=asked: find_calendar("my.csv", HOURS[:: 24], asked)) for asked in (["Sat", "Sun"], "business")),
    *(Refusal(f"no calendar in {freq}", "… no weekly pattern…", DataError, lambda folder, freq=freq: find_calendar("my.csv", pd.date_range("2020-01-31", periods=60, freq=freq), None)) for freq in ("ME", "11D")),
    Refusal("no package holidays", "data.holidays=TR: holidays is not installed: pip install -c constraints.txt -e '.[holidays]'", ConfigError, without_holidays),
    columns("a category after training", "mine: column 'wind' has 'hail' in 4 of 500 rows, not among the categories that training knew: read as unknown", UserWarning, ROLES, wind=["sun", "rain"] * 248 + ["hail"] * 4),
    columns("too many categories", "mine: column 'price' has 200 categories in the training rows: the 100 most frequent are read, all others as unknown", UserWarning, ROLES, price=[f"sku {n % (2 * MAX_INDICATORS)}" for n in range(500)]),
    columns("a constant column", "constant in the training rows, so scaled by 1: wind", UserWarning, {"scaler": "robust"}, wind=3.0),
    columns("too large for float32", "mine: column 'price' has numbers too large for float32 once scaled: rescale it", DataError, {"scaler": "none"}, price=1e39),
    columns("no training value", "no value of wind in the training rows: leave the column out, or give another data.split", DataError, {}, wind=[None] * 400 + [1.0] * 100),
    Refusal("text where the model was trained on numbers", "mine: column 'price' holds text, such as 'cheap', and numbers where the model was trained", DataError, text_in_trained_numbers),
]  # fmt: skip

# ---- many series


def series(what: str, says: str, kind: type[Exception], change: Change, *, future: int = 0, **options: Any) -> Refusal:
    def call(folder: Path) -> None:
        with warnings.catch_warnings(action="error", category=RuntimeWarning):
            long_frame_data(change(long_frame(future)), **{**SHORT, **options}).setup()

    return Refusal(what, says, kind, call)


def series_option(says: str, **options: Any) -> Refusal:
    return series(describe_options(options), says, ConfigError, lambda frame: frame, **options)


def series_file(what: str, says: str, change: Change) -> Refusal:
    """A changed CSV file, with two rows of future covariates after each series."""

    def call(folder: Path) -> None:
        path = write(folder, change(long_frame(future=2)).to_csv(index=False), "bad.csv")
        long_data(path=path, **SHORT, future_covariates=["price"], static_covariates=["region"]).setup()

    return Refusal(what, says, DataError, call)


def later(what: str, says: str, kind: type[Exception], change: Change, new: Any, **options: Any) -> Refusal:
    def call(folder: Path) -> None:
        trained = set_up(long_frame_data(long_frame(), **SHORT, **options))
        read = long_frame_data(change(long_frame()), **{**SHORT, **options, **new})
        read.with_state(trained.state_dict()).setup()

    return Refusal(what, says, kind, call)


def put(column: str, where: object, value: object) -> Change:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        rows = table["unique_id"] == where if isinstance(where, str) else table.index == where
        return table.assign(**{column: table[column].astype(object).where(~rows, value)})

    return change


def two_files(change: Change, **options: Any) -> Callable[[Path], DataModule]:
    """A file of the past, and one of the future whose rows are changed."""

    def call(folder: Path) -> DataModule:
        table = long_frame(future=2).drop(columns="temperature")
        ahead = table["y"].isna()
        table[~ahead].to_csv(folder / "a.csv", index=False)
        change(table.loc[ahead, ["unique_id", "ds", "price"]]).to_csv(folder / "future.csv", index=False)
        chosen = {"future_covariates": ["price"], "future_path": folder / "future.csv", **options}
        return set_up(long_data(path=folder / "a.csv", **SHORT, **chosen))

    return call


SERIES = [
    series_file("a row twice", "bad.csv, line 212, column 'ds': series '002', 2024-01-09 00:00:00: is in line 47 too: remove one, or set data.duplicates=first, last, mean or sum…", lambda f: pd.concat([f, f[45:46]])),
    Refusal("a new series in the future", "future.csv: 1 series not in …a.csv: 'new': leave them out", DataError, two_files(lambda f: pd.concat([f, f[:2].assign(unique_id="new")]))),
    series_file("a static value that changes", "bad.csv, line 7, column 'region': series 'a', 2024-01-06 00:00:00: 'east', and 'north' above: a static column does not change within a series; name it in data.past_covariates or data.future_covariates", put("region", 5, "east")),
    series_file("a series without a target", "bad.csv: no value of series 'a' of y: choose other columns or series (data.columns, data.ids)", put("y", "a", None)),
    series_option("features=S reads the target alone: leave data.past_covariates out, or set features=MS", features="S", past_covariates=["price"]),
    series_option("data.ids: there is no series '02' in the DataFrame; did you mean 002?", ids=["02"]),
    series_option("data.known_steps names y, which is no future covariate: there are price", future_covariates=["price"], known_steps={"y": 4}),
    *(Refusal(f"{role}_path without columns", f"data.{role}_path needs data.{role}_covariates: the columns to take from it", ConfigError, lambda folder, role=role: long_data(path="x.csv", **SHORT, **{f"{role}_path": "x.csv"})) for role in ("static", "future")),
    later("known for other steps than in training", "mine: future covariates price (horizon: 3 steps), where the checkpoint was trained on price (horizon: 2 steps): choose the same", DataError, lambda f: f, {"known_steps": 3}, future_covariates=["price"], known_steps=2),
    series("a series off the others' grid", "the DataFrame, row 95, column 'ds': series 'c d', 2024-01-11 05:00:00: not on the other series' grid of dates, every day from 2024-01-01 00:00:00: correct the date, or give another step (freq)", DataError, lambda f: f.assign(ds=f["ds"].where(f["unique_id"] != "c d", f["ds"] + pd.Timedelta(hours=5)))),
    Refusal("rows of the future twice", "future.csv: merged 2 rows with the row before, of the same date (data.duplicates=sum: sum of y; mean of price)", UserWarning, two_files(lambda f: pd.concat([f, f[:2]]), duplicates="sum")),
    later("an unknown static category", "mine: column 'region' has 'east' in 4 of 4 series, not among the categories that training knew: read as unknown", UserWarning, lambda f: f.assign(region="east"), {"split": "test"}, static_covariates=["region"]),
    series("a constant column of one series", "constant in the training rows, so scaled by the median scale of the other series: temperature in 1 of 4 series", UserWarning, put("temperature", "a", 0.1), past_covariates=["temperature"]),
    series("a series too short for a window", "mine: of 4 series some have too few rows for a window: 1 train ('a'), 1 val ('a'), 1 test ('a')", UserWarning, lambda f: f[(f["unique_id"] != "a") | (f["ds"] < "2024-01-10")]),
    series("no target in the first rows", "the DataFrame: left out 3 rows before the first value of a target", UserWarning, lambda f: f.assign(y=f["y"].where(~f.index.isin([0, 1, 40])))),
    series("no target in the last rows", "the DataFrame: left out 12 rows after the last value of a target", UserWarning, lambda f: f.assign(temperature=f["temperature"].fillna(7.0)), past_covariates=["temperature"], future=3),
]  # fmt: skip

# ---- stores


def a_store(folder: Path) -> Path:
    """Write a store of 500 hours of load, price and wind, and of a sky in words."""
    sky = ["fair"] * 499 + ["rain"]
    table = read_table(write(folder, numbers(500).assign(sky=sky).to_csv(index=False)), past_covariates=["sky"])
    return write_store(folder / "a.store", table)


def damaged(what: str, says: str, spoil: Callable[[Path], object]) -> Refusal:
    def call(folder: Path) -> None:
        store = a_store(folder)
        spoil(store)
        open_store(store)

    says = f"a.store: {says}: the store is damaged or of another version: convert again"
    return Refusal(what, says, DataError, call)


def described(what: str, change: Callable[[dict], object]) -> Refusal:
    def spoil(store: Path) -> None:
        about = json.loads((store / "store.json").read_text())
        change(about)
        (store / "store.json").write_text(json.dumps(about))

    return damaged(what, "store.json describes no store in version 2 of the format", spoil)


def stored(says: str, kind: type[Exception] = ConfigError, **options: Any) -> Refusal:
    what = "store, " + describe_options(options)
    return Refusal(what, says, kind, lambda folder: store_data(**{"path": a_store(folder), **SIZES, **options}).setup())


def little_memory(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forecast.data.store.available", lambda: 1000)
        check_fits_memory(open_store(a_store(folder)))


BACKWARDS = np.datetime64("2021-03-01", "us") + np.timedelta64(1, "h") * np.arange(500)[::-1]
VALUES = "values.npy is missing, truncated or no array of 500 × 4"
STORES = [
    damaged("truncated values", VALUES, lambda store: (store / "values.npy").write_bytes((store / "values.npy").read_bytes()[:-1])),
    damaged("no dates", "dates.npy is missing, truncated or no array of 500", lambda store: (store / "dates.npy").unlink()),
    damaged("a pickle", VALUES, lambda store: np.save(store / "values.npy", np.full((500, 4), Path()), allow_pickle=True)),
    damaged("shuffled dates", "dates.npy has other dates than store.json", lambda store: np.save(store / "dates.npy", BACKWARDS)),
    described("other version", lambda about: about.update(version=1)),
    described("a name twice", lambda about: about["columns"].__setitem__(0, "wind")),
    described("one series twice", lambda about: about.update(ids=["", ""], lengths=[400, 100], first_dates=about["first_dates"] * 2)),
    damaged("deep JSON", "store.json cannot be read", lambda store: (store / "store.json").write_text("[" * 10**5)),
    Refusal("too large for memory", "this needs the whole table in memory, about 0.0 GiB, and 0.0 GiB are free: give a smaller file", DataError, little_memory),
    stored("data=store needs data.path=FOLDER, which forecast convert makes", path=None),
    stored("nowhere: no such store: make one by forecast convert data.path=FILE", DataError, path="nowhere"),
    stored("a.store: no column 'snow'; there are 'load', 'price', 'wind', 'sky' (data.future_covariates)", DataError, future_covariates=["snow"]),
    stored("data.past_covariates=wind: write a list, as in data.past_covariates=[wind]", past_covariates="wind"),
    stored("a.store: …column 'sky' changes: a static…", DataError, static_covariates=["sky"]),
    stored("a.store: column 'sky' holds text, such as 'fair': leave it out (data.drop), or read it as a covariate (data.past_covariates or future_covariates)", DataError),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("refusal", [*FILES, *READING, *TABLES, *SERIES, *STORES], ids=lambda row: row.what[:60])
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
