"""Dates that are regular in the calendar and lie on no grid of equal lengths or of beginnings and ends of months."""

from pathlib import Path

import pandas as pd
import pytest

from forecast.data import Panel, read_frame, read_table
from forecast.system.errors import DataError

KINDS = {  # kind: (given dates, next dates, step, season)
    "days 1, 15": ("2024-01-01 01-15 02-01 02-15 03-01", "2024-03-15 04-01", "SMS-15", 24),
    "days 1, 16": ("2024-01-01 01-16 02-01 02-16 03-01", "2024-03-16 04-01", "SMS-16", 24),
    "15 and month end": ("2024-01-15 01-31 02-15 02-29 03-15", "2024-03-31 04-15", "SME-15", 24),
    "ISO weeks": ("2015-W51 2015-W52 2015-W53 2016-W01", "2016-01-11 01-18", "W-MON", 52),
    "four weeks": ("2024-01-03 01-31 02-28 03-27 04-24", "2024-05-22 06-19", "4W-WED", 13),
    "fiscal years": ("2018-06-30 2019-06-30 2020-06-30 2021-06-30", "2022-06-30 2023-06-30", "YE-JUN", 1),
    "last business days": ("2024-01-31 02-29 03-29 04-30 05-31 06-28", "2024-07-31 08-30", "BME", 12),
    "third Fridays": ("2024-01-19 02-16 03-15 04-19 05-17", "2024-06-21 07-19", "WOM-3FRI", 12),
    "third Fridays of quarters": (
        "2006-12-15 2007-03-16 06-15 09-21 12-21",
        "2008-03-21 06-20",
        "3WOM-3FRI",
        4,
    ),
    "last Fridays": ("2024-01-26 02-23 03-29 04-26 05-31", "2024-06-28 07-26", "LWOM-FRI", 12),
}


def texts(dates: str) -> list[str]:
    """The dates of a row of the table, in which a date without a year has that of the date before it."""
    found: list[str] = []
    for date in dates.split():
        found.append(date if date[:2] in ("18", "19", "20") and len(date) > 5 else f"{found[-1][:4]}-{date}")
    return found


def read(folder: Path, dates: list[str], how: str, **options: object) -> Panel:
    frame = pd.DataFrame({"date": dates, "load": [float(n % 3) for n in range(len(dates))]})
    if how == "frame":
        return read_frame(frame, **options)
    if how == "parquet":
        frame.to_parquet(folder / "load.parquet")
        return read_table(folder / "load.parquet", **options)
    frame.to_csv(folder / "load.csv", index=False)
    return read_table(folder / "load.csv", **options)


@pytest.mark.parametrize("kind", KINDS)
def test_dates_go_on_as_a_person_would_write_them(tmp_path: Path, kind: str) -> None:
    """Also where a row is missing, which is a missing value."""
    given, after, freq, season = KINDS[kind]
    for how in ("csv", "parquet", "frame"):
        panel = read(tmp_path, texts(given), how)
        expected = texts(after)
        dates = panel.with_dates_after_ends(len(expected)).grid.strftime("%Y-%m-%d")
        assert [*dates[-len(expected) :]] == expected
        assert (panel.freq, panel.season, panel.n_rows) == (freq, season, len(texts(given)))
    whole = [*texts(given), *texts(after)]
    panel = read(tmp_path, whole[:-2] + whole[-1:], "csv")
    assert (panel.freq, panel.missing.tolist()) == (freq, [1])
    assert panel.grid.equals(read(tmp_path, whole, "csv").grid)


def test_other_days_of_months_are_refused_or_read_as_months(tmp_path: Path) -> None:
    dates = texts("2024-01-15 02-15 03-15 04-15 05-15")
    with pytest.raises(DataError, match=r"data\.date_format=%Y-%m-15"):
        read(tmp_path, dates, "csv")
    panel = read(tmp_path, dates, "csv", date_format="%Y-%m-15")
    assert (panel.freq, str(panel.last_date)) == ("MS", "2024-05-01 00:00:00")
    for how in ({}, {"steps": "rows"}):
        with pytest.raises(DataError):
            read(tmp_path, texts("2024-01-01 01-11 01-21 02-01 02-11 02-21 03-01"), "csv", **how)
