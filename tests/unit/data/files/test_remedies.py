"""Settings that errors advise for files of which only the beginning is read to find them."""

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
    ],
    ids=["numbers are no codes", "a column of years", "a line that names the comma"],
)
def test_settings_that_a_file_needs(content: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(content)
    with pytest.raises(DataError) as refused:
        read_table(path)
    assert str(refused.value).endswith(says)


def test_dots_that_every_large_number_has_are_decimal_points(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    values = [250.0, 100.0, 1.5, 1.25] * 50
    path.write_text(
        "date,y\n" + "".join(f"{date},{value:.3f}\n" for date, value in zip(DATES, values, strict=True))
    )
    assert read_table(path).values.ravel().tolist() == values
