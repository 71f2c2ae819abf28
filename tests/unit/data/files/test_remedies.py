"""Settings that errors advise for files of which only the beginning is read to find them."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pytest

from forecast.data import read_table
from forecast.data.files import sources
from forecast.system.errors import DataError

DATES = pd.date_range("2024-01-01", periods=200, freq="h")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (None, "set 'data.separator=;' data.decimal=,"),
        (
            "none at all",
            "with 'data.separator=;' data.decimal=,, the next error is: {path}, line 191, column 'load': 'none at all' "
            "is not a number: correct it",
        ),
    ],
)
def test_the_settings_found_are_tried_on_the_whole_file(
    bad: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_TEXT", 1 << 11)
    cells = [bad if bad and n == 189 else f"{n},5" for n in range(len(DATES))]
    path = tmp_path / "table.csv"
    path.write_text(
        "date;load\n" + "".join(f"{date};{cell}\n" for date, cell in zip(DATES, cells, strict=True))
    )
    with pytest.raises(DataError) as refused:
        read_table(path)
    assert str(refused.value).endswith(says.format(path=path))


CODES = "".join(
    f"{date},{cell}\n" for date, cell in zip(DATES, ["1.5E-05", ".5", "n/k", *"123456"], strict=False)
)
MONTHS = [(1948 + n // 12, n % 12 + 1) for n in range(60)]
STATION = "Heathrow (London Airport)\n   yyyy  mm   tmax     sun\n              degC   hours\n" + "".join(
    f"   {year}  {month:2}    {month + 8.9:4.1f}    {'---' if year < 1950 else month + 30.5:>5}\n"
    for year, month in MONTHS
)
SUNSPOTS = "".join(
    f"{year};{month:02};{year + month / 12:.3f};  96.7; -1.0;  -1;1\n" for year, month in MONTHS
)
MIXED = [*DATES[:30], *pd.date_range(DATES[30], periods=20, freq="15min")]
WEEKS = "".join(f"1997 W{week},{week}\n" for week in range(40, 54))


def rows(*cells: str, dates: Iterable = DATES) -> str:
    """Rows of dates and cells, of which the last one is repeated."""
    return "".join(f"{date},{cell}\n" for date, cell in zip(dates, [*cells, *cells[-1:] * 200], strict=False))


YEARS = "".join(f"{year},{year % 7},{year % 5}\n" for year in range(1880, 1980))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f"date,y\n{CODES}", "set data.na_values=[n/k] if they are missing values"),
        (f"Year,Jan,Feb\n{YEARS}", "set data.date_column=Year"),
        (
            "sep=,\ndate,y\n" + "".join(f"{date},1\n" for date in DATES),
            "which names a separator: set data.skip_rows=1",
        ),
        (
            STATION,
            "the first row seems to be line 4: set data.skip_rows=3 data.header=none 'data.separator= ' "
            "data.date_column=[column_1,column_2] 'data.na_values=[\"---\"]' if they are missing values",
        ),
        (
            "yyyy  mm    x\n1990   1  1.5\n1990   2  1.5\n1990   3  1.5\n",
            "set 'data.separator= ' data.date_column=[yyyy,mm]",
        ),
        (SUNSPOTS, "set 'data.separator=;' data.header=none data.date_column=[column_1,column_2]"),
        (
            "year, month, x\n" + "".join(f"{year}, {month:02}, 1\n" for year, month in MONTHS),
            "set data.date_column=[year,month]",
        ),
        (f"date,y\n{rows('1', dates=MIXED)}", "by the step h: correct the date, or set data.freq=15min"),
        (
            f"date,y\n{rows('1', dates=['2024-01-01', '2024-01-02', '2024-01-03', '2024-01-04 00:17'])}",
            "by the step B: correct the date, or give another step (data.freq)",
        ),
        (
            "date,y\n" + rows('"3,0"', "98%", '"3,0"'),
            "with data.decimal=,, the next error is: {path}, line 3, column 'y': '98%' is not a number: leave the "
            "signs and units out of its cells, or choose the number columns (data.columns)",
        ),
        (
            f"date,y\n{rows('1', '***', '1')}",
            "correct it, or set 'data.na_values=[\"***\"]' if they are missing values",
        ),
        (
            f"date,y\n{WEEKS}",
            "no week of ISO 8601 (of weeks that begin on Sundays, such as those of MMWR, give the dates): correct it",
        ),
    ],
    ids=lambda part: part[:40],
)
def test_settings_that_a_file_needs(content: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(content)
    with pytest.raises(DataError) as refused:
        read_table(path)
    assert str(refused.value).endswith(says.format(path=path))


def test_dots_that_every_large_number_has_are_decimal_points(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    values = [250.0, 100.0, 1.5, 1.25] * 50
    path.write_text(
        "date,y\n" + "".join(f"{date},{value:.3f}\n" for date, value in zip(DATES, values, strict=True))
    )
    assert read_table(path).values.ravel().tolist() == values
