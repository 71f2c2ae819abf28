"""Files and reading options that are refused or doubted, with the text of each message."""

import warnings
from pathlib import Path

import pandas as pd
import pytest

from forecast.data import csv_data
from forecast.data.files.sources import LongSource, read_table
from forecast.data.panel import Panel
from forecast.system.errors import ConfigError, DataError
from tests.support.csv_files import write
from tests.support.refusals import Refusal, describe_options

HOURS = [f"2021-03-01 {hour:02}:00" for hour in range(5)]
HEADER = "date,load,price"
ROWS = [f"{hour},{n},{n * 0.5}" for n, hour in enumerate(HOURS)]
SIZES = {"name": "load", "seq_len": 12, "pred_len": 4, "split": [0.7, 0.1, 0.2], "batch_size": 8}
BUSINESS_DAYS = pd.bdate_range("2023-10-02", periods=125)


def lines(*rows: str, header: str = HEADER) -> str:
    return "\n".join([header, *rows]) + "\n"


def changed(row: int, text: str) -> str:
    """The good file with another row."""
    return lines(*ROWS[:row], text, *ROWS[row + 1 :])


GOOD = lines(*ROWS)
ZONES = ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "\0"]
DAYS = "date,x\n01/02/2021,1\n02/02/2021,1\n03/02/2021,1\n"


WIDE = "country,lat,1/28/21,1/29/21,2/1/21,2/2/21,2/3/21,2/4/21\nMali,17.5,1,2,5,6,7,\nChad,15.4,2,3,,7,8,9\n"
TWINS = WIDE.replace("Mali,17.5", "Chad,15.4")
"""One series per row, with and without a column that names them."""


def bad(what: str, text: str | bytes, says: str, **options) -> Refusal:
    return Refusal(what, says, DataError, lambda folder: read_table(write(folder, text), **options))


def option(says: str, kind: type[Exception] = ConfigError, **options) -> Refusal:
    """Options with which the good file is refused."""
    return Refusal(
        describe_options(options), says, kind, lambda folder: read_table(write(folder, GOOD), **options)
    )


def sessions(says: str, kind: type[Exception] = ConfigError, **options) -> Refusal:
    """Options with which a file of business days is refused."""
    what = "business days, " + describe_options(options)
    rows = [f"{date:%Y-%m-%d},{n}" for n, date in enumerate(BUSINESS_DAYS)]
    text, options = lines(*rows, header="date,price"), {"date_column": "none", **options}
    return Refusal(what, says, kind, lambda folder: read_table(write(folder, text), **options))


def clocks_change(folder: Path) -> None:
    dates = ["2021-10-31 02:00+02:00", "2021-10-31 02:00+01:00", "2021-10-31 03:00+01:00"]
    read_table(write(folder, lines(*(f"{date},1,{n}" for n, date in enumerate(dates)))))


def hourly(dates: pd.DatetimeIndex) -> str:
    return lines(*(f"{date.isoformat()},{n}" for n, date in enumerate(dates)), header="date,load")


def holidays_in_utc(folder: Path) -> None:
    text = hourly(pd.date_range("2024-01-01", periods=400, freq="h", tz="UTC"))
    csv_data(path=write(folder, text), holidays="DE", **SIZES).setup()


def training_had_a_zone(folder: Path) -> None:
    dates = pd.date_range("2024-03-25", periods=400, freq="h", tz="Europe/Berlin")
    trained = csv_data(path=write(folder, hourly(dates), "a.csv"), timezone="Europe/Berlin", **SIZES)
    trained.setup()
    plain = hourly(dates[:100].tz_localize(None))
    new = csv_data(path=write(folder, plain), **{**SIZES, "split": "test"})
    new = new.with_state(trained.state_dict())
    new.setup()


def series_of_other_dates(folder: Path) -> None:
    series = [
        pd.DataFrame({"unique_id": f"s{n}", "ds": BUSINESS_DAYS + pd.Timedelta(hours=n), "y": 1.0})
        for n in range(4)
    ]
    path = write(folder, pd.concat(series).to_csv(index=False))
    LongSource(path=path, steps="rows").read()


def read_departments(folder: Path, duplicates: str) -> Panel:
    """Two departments of a store, which share the temperature and the holidays."""
    text = lines(*(f"2021-01-0{day},{sales},{cold},{closed},{sky}" for day, sales, cold, closed, sky in
                   ((1, 5, 1.5, "TRUE", "fair"), (1, 7, 1.5, "TRUE", "fair"), (2, 6, -2, "FALSE", "snow"), (2, 0, -2, "TRUE", "rain"))),
                 header="date,sales,cold,closed,sky")  # fmt: skip
    roles = {"columns": ["sales"], "past_covariates": ["cold"], "future_covariates": ["closed", "sky"]}
    return read_table(write(folder, text), duplicates=duplicates, freq="D", **roles)


def melted(folder: Path, text: str | bytes, **options: object) -> Panel:
    given = {"id_column": "country", "day_first": False, "drop": ["lat"], **options}
    return LongSource(path=write(folder, text), melt=True, **given).read()  # type: ignore[arg-type]


def melted_days(folder: Path, steps: list[str]) -> Panel:
    """Read a file of one series with numbered steps."""
    text = lines("A," + ",".join("5" * len(steps)), header="id," + ",".join(steps))
    return melted(folder, text, id_column="id", drop=[], day_first=None, start="2010-01-01", freq="D")


FILES = [
    bad("row numbers", lines("1,2,3", "2,2,3", "3,2,3"), "… is not a date that can be read: give the format of the dates (data.date_format), such as %d.%m.%Y, %Y%m%d%H, unix or excel"),
    bad("not the format", GOOD, "table.csv, line 2, column 'date': '2021-03-01 00:00' does not match data.date_format='%d/%m/%Y': give the format …", date_format="%d/%m/%Y"),
    Refusal("a name of series that is not there", "table.csv: no column 'shop'; there are … (data.id_column)", DataError, lambda folder: LongSource(path=write(folder, GOOD), id_column=["shop"], date_column="date", target="load").read()),
    Refusal("two series of one joined id", "table.csv: two series are 'a/b/c' when joined with /: use another sign in their columns", DataError, lambda folder: LongSource(path=write(folder, "date,store,dept,sold\n2021-01-01,a/b,c,1\n2021-01-01,a,b/c,1\n"), id_column=["store", "dept"], date_column="date", target="sold").read()),
    bad("backwards, in a time zone", lines("2021-07-01 02:00+02:00,1,1", "2021-07-01 01:00+02:00,1,1", "2021-07-01 03:00+02:00,1,1"), "table.csv, line 3, column 'date': 2021-07-01 01:00:00+02:00 comes after 2021-07-01 02:00:00+02:00: sort the rows by date, or set data.sort=true"),
    bad("many missing rows", GOOD, "table.csv: only 5 rows for 14,400 steps of s from first to last: correct the dates, give another step (data.freq), or leave out series of few rows (data.ids)", freq="s"),
    bad("no such column", GOOD, "table.csv: no column 'lod'; there are 'load', 'price'; did you mean 'load'? (data.columns)", columns=["lod"]),
    bad("one series per row", lines("H1," + ",".join("5" * 11) + ",", "H2," + ",".join("6" * 12), header=",".join(f"V{n}" for n in range(1, 14))), "table.csv: no column 'date' in line 1 ('V1', …): a file with one series per row needs data=long data.melt=true and data.id_column; numbered steps need data.start and data.freq too"),
    bad("dates in the header", WIDE, "table.csv: no column 'date' in line 1 (…): a file with one series per row needs data=long data.melt=true …"),
    Refusal("no number in a melted row", "table.csv, line 3, column 'y': 'two' is not a number: …", DataError, lambda folder: melted(folder, WIDE.replace("15.4,2", "15.4,two"))),
    Refusal("melted, no id", "data.melt=true needs data=long with data.id_column, and one target (data.target)", ConfigError, lambda folder: melted(folder, WIDE, id_column=None)),
    Refusal("melted, columns without a role", "table.csv, line 1: columns that are no dates: 'lat', 'total': rename them, …", DataError, lambda folder: melted(folder, WIDE.replace("2/4/21", "2/4/21,total").replace("7,\n", "7,,1\n").replace("9\n", "9,1\n"), drop=[])),
    Refusal("melted, a step is missing", "table.csv, line 1: columns that are not numbered as 'd_1' is, up by one: 'd_7': …", DataError, lambda folder: melted_days(folder, [f"d_{n}" for n in range(1, 40) if n != 6])),
    Refusal("melted, Parquet", "data.melt=true is for CSV files and Excel workbooks: turn a Parquet file with pandas", ConfigError, lambda folder: melted(folder, b"PAR1")),
    bad("a time of day beside dates with times", lines(*(f"{hour},{hour[-5:]},1" for hour in HOURS), header="date,clock,load"), "table.csv: 1 column of text beside numbers: 'clock' ('00:00'): correct the cells, set data.drop=[clock], or for times of day set data.date_column=[date,clock]"),
    bad("thousands with dots beside small numbers", lines(*(f"{2000 + n},{n % 999 + 1}" if n % 2 else f"{2000 + n},{n % 60 + 1}.999" for n in range(400)), header="date,load"), "table.csv, line 2, column 'load': '1.999' beside '100': the dot may separate thousands or decimals: set …"),
    bad("a target of text", lines(*(f"{hour},1,NE,2" for hour in HOURS), header="date,load,wind,price"), "table.csv: target 'wind' is text: choose a column of numbers (data.target)", target="wind"),
]  # fmt: skip
OPTIONS = [
    option("data.decimal='::' must be one character", decimal="::"),
    option("data.decimal and data.thousands are both ',': they must differ, as in data.decimal=. data.thousands=,", decimal=",", thousands=","),
    option("data.date_format='%Q': 'Q' is a bad directive in format '%Q'", date_format="%Q"),
    option("data.rows=['2021-03-01']: write two dates, as in data.rows=[2006-01-01,null]", rows=["2021-03-01"]),
    option("data.rows=['soon', None]: write dates as 2006-01-01 or 2006-01-01T06:00", rows=["soon", None]),
    option("data.rows=['2021-03-02', '2021-03-01']: the first date lies after the last one", rows=["2021-03-02", "2021-03-01"]),
    option("table.csv: data.rows=['2022-01-01', None] leaves no row: there are 2021-03-01 00:00:00 to 2021-03-01 04:00:00", DataError, rows=["2022-01-01", None]),
    option("data.rows=['2021-03-01T00:00Z', None]: leave the offset from UTC out: the dates of the data have no UTC offset", rows=["2021-03-01T00:00Z", None]),
    *(option("is not a zone: write one as Europe/Berlin", timezone=zone) for zone in ZONES),
    sessions("data.start=2024-01-02 is no date of data.freq=MS: the next is 2024-02-01 00:00:00", start="2024-01-02", freq="MS"),
    sessions("data.start=2024-01-01 data.freq=2YS: row 125 would lie after 2261", start="2024-01-01", freq="2YS"),
    Refusal("rows as steps, series of other dates", "table.csv: data.steps=rows needs series with the same dates, and these 4 have 500 rows for 1,988 dates: set data.steps=dates, or give one series (data.ids)", DataError, series_of_other_dates),
    Refusal("no zone where training had one", "the dates have no time zone, and the other dates are of Europe/Berlin: give their zone (data.timezone; of a DataFrame tz_localize('Europe/Berlin'))", DataError, training_had_a_zone),
]  # fmt: skip
WARNINGS = [
    Refusal("a date twice, merged", "table.csv: merged 1 row with the row before, of the same date (data.duplicates=mean: mean of load, price)", UserWarning, lambda folder: read_table(write(folder, changed(3, f"{HOURS[2]},3,1")), duplicates="mean")),
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


@pytest.mark.parametrize("refusal", [*FILES, *OPTIONS, *WARNINGS], ids=lambda refusal: refusal.what[:60])
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)


@pytest.mark.parametrize(("day", "warned"), [("%d.%m.%Y", 1), ("%Y-%m-%d", 0)])
def test_dots_of_three_digits_beside_dates_with_dots_are_doubted(
    day: str, warned: int, tmp_path: Path
) -> None:
    dates = pd.date_range("2023-12-01", periods=150).strftime(day)
    path = write(
        tmp_path, lines(*(f"{date},{11 + n % 3}.{n:03}" for n, date in enumerate(dates)), header="date,load")
    )
    with warnings.catch_warnings(record=True, action="always") as caught:
        assert int(read_table(path).values[0, 0]) == 11
    assert sum("dots are read as decimal points" in str(one.message) for one in caught) == warned
    with warnings.catch_warnings(action="error"):
        assert read_table(path, decimal=",", thousands=".").values[0, 0] == 11_000
