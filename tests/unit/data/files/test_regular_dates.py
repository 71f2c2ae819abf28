"""Dates that are regular in the calendar and lie on no grid of equal lengths or of beginnings and ends of months."""

from pathlib import Path

import pandas as pd
import pytest

from forecast.data import Panel, read_frame, read_table
from forecast.system.errors import DataError

KINDS = {  # kind: (given dates, next dates, step, season)
    "the 15th": ("2024-05-15 06-15 07-15 08-15 09-15 10-15 11-15 12-15", "2025-01-15 02-15", "M-15", 12),
    "three 15ths": ("2024-07-15 08-15 09-15", "2024-10-15 11-15", "M-15", 12),  # 31 days apart
    "the 30th": ("2023-11-30 12-30 2024-01-30 02-29 03-30 04-30 05-30", "2024-06-30 07-30", "M-30", 12),
    "the 30th, to January": ("2022-10-30 11-30 12-30 2023-01-30", "2023-02-28 03-30", "M-30", 12),
    "dekads": ("2024-01-01 01-11 01-21 02-01 02-11 02-21 03-01", "2024-03-11 03-21 04-01", "M-1-11-21", 36),
    "ends of dekads": (
        "2024-01-10 01-20 01-31 02-10 02-20 02-29 03-10",
        "2024-03-20 03-31",
        "M-10-20-31",
        36,
    ),
    "days 1, 15": ("2024-01-01 01-15 02-01 02-15 03-01", "2024-03-15 04-01", "SMS-15", 24),
    "days 1, 16": ("2024-01-01 01-16 02-01 02-16 03-01", "2024-03-16 04-01", "SMS-16", 24),
    "15 and month end": ("2024-01-15 01-31 02-15 02-29 03-15", "2024-03-31 04-15", "SME-15", 24),
    "ISO weeks": ("2015-W51 2015-W52 2015-W53 2016-W01", "2016-01-11 01-18", "W-MON", 52),
    "four weeks": ("2024-01-03 01-31 02-28 03-27 04-24", "2024-05-22 06-19", "4W-WED", 13),
    "mid-quarter": ("2023-02-15 05-15 08-15 11-15 2024-02-15", "2024-05-15 08-15", "3M-15", 4),
    "fiscal years": ("2018-06-30 2019-06-30 2020-06-30 2021-06-30", "2022-06-30 2023-06-30", "YE-JUN", 1),
    "tax years": ("2018-04-06 2019-04-06 2020-04-06 2021-04-06", "2022-04-06 2023-04-06", "12M-6", 1),
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


@pytest.mark.parametrize("how", ["csv", "parquet", "frame"])
@pytest.mark.parametrize("kind", KINDS)
def test_dates_go_on_as_a_person_would_write_them(tmp_path: Path, kind: str, how: str) -> None:
    given, after, freq, season = KINDS[kind]
    panel = read(tmp_path, texts(given), how)
    expected = texts(after)
    assert [
        *panel.with_dates_after_ends(len(expected)).grid.strftime("%Y-%m-%d")[-len(expected) :]
    ] == expected
    assert (panel.freq, panel.season, panel.n_rows) == (freq, season, len(texts(given)))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "three 15ths"])
def test_a_missing_row_is_a_missing_value(tmp_path: Path, kind: str) -> None:
    given, after, freq, _ = KINDS[kind]
    dates = [*texts(given), *texts(after)]
    complete = read(tmp_path, dates, "csv").grid
    gap = len(dates) - 2
    panel = read(tmp_path, dates[:gap] + dates[gap + 1 :], "csv")
    assert (panel.freq, panel.missing.tolist()) == (freq, [1])
    assert panel.grid.equals(complete)


@pytest.mark.parametrize(
    "dates",
    [
        "2024-01-03 01-09 01-17 02-02 02-19 03-07 03-28 04-04 05-22",
        "2024-01-01 01-11 02-21 05-01 07-11 09-21 12-11",  # most of the dekads are missing
    ],
)
def test_dates_that_follow_no_calendar_are_refused(tmp_path: Path, dates: str) -> None:
    with pytest.raises(DataError):
        read(tmp_path, texts(dates), "csv")
    with pytest.raises(DataError, match="no weekly or monthly pattern"):
        read(tmp_path, texts(dates), "csv", steps="rows")
