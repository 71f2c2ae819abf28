import bz2
import gzip
import lzma
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa

from tests.support.malformed.case import WORKS, Case
from tests.support.malformed.tables import DATES, ISO, ROWS, VALUES, german, text

GOOD = text().encode()
TABLE = pd.DataFrame({"date": DATES, "load": VALUES[:, 0], "price": VALUES[:, 1]})
LOCAL = DATES.tz_localize("UTC").tz_convert("Europe/Berlin")
SEMICOLONS = ("data.separator=;", "data.decimal=,")
BERLIN = ("data.timezone=Europe/Berlin",)
FUTURE_OTHER = ("data.columns=[load,price]", "data.future_covariates=[other]")

TRAIN = "train"


def written(**how) -> bytes:
    return text(**how).encode()


def line(number: int, content: str) -> bytes:
    return written(changed={number: content})


def cell(content: str) -> bytes:
    """The good table with this text as the load in line 5."""
    return line(5, f"{ISO[3]},{content},3.25")


SHORT_YEARS = written(dates=[f"{date:%d/%m/%y},{date.hour},sun" for date in DATES], header="date,Hour,sky,load,price")
"""The good table with days such as 28/03/24, a column of the hour and one of texts."""


def thousands(sign: str, separator: str = ",") -> bytes:
    """Numbers around 1,000 with this sign between groups of digits, in one column."""
    numbers = [f"{990 + n:,}".replace(",", sign) for n in range(ROWS)]
    rows = [f'{date}{separator}"{number}"\n' for date, number in zip(ISO, numbers, strict=True)]
    return "".join([f"date{separator}load\n", *rows]).encode()


def dated(content: str) -> bytes:
    """The good table with this date in line 5."""
    return line(5, f"{content},1009.5,3.25")


def beside(content: Callable[[int], str]) -> bytes:
    """The table with one more column, `other`, of these cells, numbered from 0."""
    return "".join(f"{row},{content(i - 1) if i else 'other'}\n" for i, row in enumerate(text().splitlines())).encode()


def every(pattern: str) -> list[str]:
    return [format(date, pattern) for date in DATES]


def local(pattern: str = "%Y-%m-%d %H:%M", start: str = "2024-03-29") -> list[str]:
    dates = pd.date_range(start, periods=len(DATES), freq="h", tz="Europe/Berlin")
    return [date.strftime(pattern) for date in dates]


def packed(path: Path, *members: tuple[str, bytes], flags: int = 0) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    if flags:  # in the local header and in the directory
        raw = bytearray(path.read_bytes())
        raw[6] |= flags
        raw[raw.index(b"PK\x01\x02") + 8] |= flags
        path.write_bytes(raw)


def book(path: Path, sheets: dict[str, pd.DataFrame], above: int = 0) -> None:
    """Write an Excel workbook, with this many rows above each header."""
    with path.open("wb") as file, pd.ExcelWriter(file, engine="openpyxl") as writer:
        for name, sheet in sheets.items():
            sheet.to_excel(writer, sheet_name=name, index=False, startrow=above)


def bomb(block: bytes) -> bytes:
    """10 GB of this block, compressed by gzip to 10 MB."""
    return gzip.compress(block * (100_000_000 // len(block)), 6) * 100


READ = [
    Case("times of day with full stops", WORKS, written(dates=every("%d/%m/%Y,%H.%M.%S"), header="date,time,load,price"), ("data.date_column=[date,time]",)),
    Case("days of two-digit years, hours and texts", WORKS, SHORT_YEARS, ("data.day_first=true", "data.date_column=[date,Hour]", "data.drop=[sky]")),
    Case("byte-order mark", WORKS, b"\xef\xbb\xbf" + GOOD),
    Case("CRLF", WORKS, written(end="\r\n")),
    Case("lone CR", WORKS, written(end="\r")),
    Case("an empty line", WORKS, GOOD.replace(f"\n{ISO[3]}".encode(), f"\n\n{ISO[3]}".encode())),
    Case("UTF-16, little-endian", WORKS, b"\xff\xfe" + text().encode("utf-16-le")),
    Case("UTF-16, big-endian", WORKS, b"\xfe\xff" + text().encode("utf-16-be")),
    Case("gzip", WORKS, gzip.compress(GOOD), name="table.csv.gz"),
    Case("zip", WORKS, lambda path: packed(path, ("a.csv", GOOD)), name="table.zip"),
    Case("bzip2", WORKS, bz2.compress(GOOD), name="table.csv.bz2"),
    Case("xz", WORKS, lzma.compress(GOOD), name="table.csv.xz"),
    Case("zstd", WORKS, pa.compress(GOOD, "zstd", asbytes=True), name="table.csv.zst"),
    Case("Parquet without the suffix", WORKS, lambda path: TABLE.to_parquet(path, index=False)),
    Case("an Excel workbook", WORKS, lambda path: book(path, {"Sheet1": TABLE}), name="table.xlsx"),
    Case("an Excel workbook of two sheets, one chosen", WORKS, lambda path: book(path, {"notes": pd.DataFrame(), "load": TABLE}), ("data.sheet=load",), name="table.xlsx"),
    Case("zip from a Mac", WORKS, lambda path: packed(path, ("a.csv", GOOD), ("__MACOSX/._a.csv", b"\0"))),
    Case("a link", WORKS, lambda path: (path.with_name("t").write_bytes(GOOD), path.symlink_to("t"))),
    Case("trailing commas", WORKS, GOOD.replace(b"\n", b",\n")),
    Case("every cell quoted", WORKS, b"".join(b'"' + row.replace(b",", b'","') + b'"\n' for row in GOOD.splitlines())),
    Case("spaces around cells", WORKS, GOOD.replace(b",", b" , ")),
    Case("a line end within a name", WORKS, written(header='date,"load\n",price')),
    Case("semicolons and decimal commas", WORKS, written(separator=";", number=lambda x: str(x).replace(".", ",")), SEMICOLONS),
    Case("thousands", WORKS, written(number=lambda x: f'"{x:,}"'), ("data.thousands=,",)),
    Case("thousands, as in Germany", WORKS, written(separator=";", number=german), (*SEMICOLONS, "data.thousands=.")),
    Case("one offset from UTC", WORKS, written(dates=every("%Y-%m-%dT%H:%M:%S+02:00"))),
    Case("offsets that change", WORKS, written(dates=[date.isoformat() for date in LOCAL])),
    Case("dates under another name", WORKS, written(header="Time,load,price")),
    Case("clocks go forward, with the name of the time", WORKS, written(dates=[f"{date:%Y-%m-%d %H:%M %Z}" for date in LOCAL]), BERLIN),
    Case("24:00, in a format", WORKS, written(dates=[f"{d:%d/%m/%Y} 24:00" if end.hour == 0 else f"{end:%d/%m/%Y %H:%M}" for d, end in zip(DATES, DATES + pd.Timedelta(hours=1), strict=True)]), ("data.stamp=end", "data.date_format=%d/%m/%Y %H:%M")),
    Case("clocks go forward", WORKS, written(dates=[f"{date:%Y-%m-%d %H:%M}" for date in LOCAL]), BERLIN),
    Case("dates in two columns", WORKS, written(dates=every("%Y-%m-%d,%H:%M"), header="day,time,load,price"), ("data.date_column=[day,time]",)),
    Case("days, months, years", WORKS, written(dates=every("%d/%m/%Y %H:%M"))),
    Case("AM and PM", WORKS, written(dates=every("%m/%d/%Y %I:%M %p"))),
    Case("hours to 12 before the day", WORKS, written(dates=every("%I:%M %p %d %b %Y"))),
    Case("a category as a covariate", WORKS, beside(lambda i: ("sun", "rain", "")[i % 3]), FUTURE_OTHER),
    Case("yes and no as a covariate", WORKS, beside(lambda i: ("Yes", "no")[i % 2]), FUTURE_OTHER),
    Case("seconds since 1970", WORKS, written(dates=[str(int(d.timestamp())) for d in DATES]), ("data.date_format=unix",)),
    Case("Latin-1, said", WORKS, text(header="date,load,price,\xe9t\xe9", end=",1\n").encode("latin-1").replace(b"\xe9,1\n", b"\xe9\n"), ("data.encoding=latin-1", "data.columns=[load,price]")),
    Case("a date twice, the same row", WORKS, GOOD + GOOD.splitlines()[-1] + b"\n", ("data.duplicates=first",)),
    Case("rows in any order", WORKS, b"\n".join([GOOD.splitlines()[0], *GOOD.splitlines()[:0:-1]]), ("data.sort=true",)),
    Case("24:00", WORKS, written(dates=[f"{d:%Y-%m-%d} 24:00" if end.hour == 0 else f"{end:%Y-%m-%d %H:%M}" for d, end in zip(DATES, DATES + pd.Timedelta(hours=1), strict=True)]), ("data.stamp=end",)),
    Case("hours 1 to 24", WORKS, written(dates=[f"{d:%Y/%m/%d},{d.hour + 1}" for d in DATES], header="day,hour,load,price"), ("data.date_column=[day,hour]", "data.stamp=end")),
    Case("hours that end, and clocks that go forward", WORKS, written(dates=[f"{date + pd.Timedelta(hours=1):%Y-%m-%d %H:%M}" if date.hour != 1 else f"{date.replace(tzinfo=None) + pd.Timedelta(hours=1):%Y-%m-%d %H:%M}" for date in LOCAL]), (*BERLIN, "data.stamp=end")),
    Case("no header, the names given", WORKS, b"\n".join(GOOD.splitlines()[1:]) + b"\n", ("data.header=none", "data.names=[date,load,price]")),
    Case("no dates, the first one given", WORKS, b"\n".join(row.split(b",", 1)[1] for row in GOOD.splitlines()) + b"\n", (f"data.start={ISO[0].replace(' ', 'T')}", "data.freq=h")),
    Case("rows as steps on a calendar", WORKS, GOOD, ("data.steps=rows", "data.calendar=[Mon,Tue,Wed,Thu,Fri,Sat,Sun]")),
    Case("days since 1900", WORKS, written(dates=[repr((d - pd.Timestamp("1899-12-30")) / pd.Timedelta(days=1)) for d in DATES]), ("data.date_format=excel",)),
]  # fmt: skip

MISSING = [
    Case("a number that a formula could not compute", WORKS, lambda path: book(path, {"load": TABLE.astype({"load": object}).replace({"load": {1009.5: "#DIV/0!"}})}), name="table.xlsx"),
    Case("a row too short", WORKS, line(5, f"{ISO[3]},1009.5")),
    Case("a cell of #N/A", WORKS, cell("#N/A")),
    Case("a missing row", WORKS, b"\n".join(row for row in GOOD.splitlines() if not row.startswith(ISO[60].encode()))),
    Case("an hour missing", WORKS, written(dates=local())),
    Case("an infinite number that means a missing value", WORKS, cell("-inf"), ("data.na_values=[-inf]",)),
    Case("a code for a missing value", WORKS, cell("-9999"), ("data.na_values=[-9999]",)),
]  # fmt: skip
"""Files that lack a value or a row; they are read, and it stays missing."""

REFUSED = [
    Case("Latin-1", "{path}, line 1: not text in UTF-8: set data.encoding, such as latin-1 or cp1252, or save the file as UTF-8", text(header="date,été,price").encode("latin-1")),
    Case("UTF-16, half a character missing", "{path}: looks like UTF-16, and is not: give another data.encoding", b"\xff\xfe" + text().encode("utf-16-le")[:-1]),
    Case("UTF-32", "{path}, line 1: a zero byte: this is no text in UTF-8: set data.encoding, such as utf-16-le, or save the table as CSV, Parquet or .xlsx", text().encode("utf-32")),
    Case("gzip, cut off", "{path}: cannot be read: Compressed file ended before the end-of-stream marker was reached", gzip.compress(GOOD)[:-200], name="table.csv.gz"),
    Case("gzip, damaged", "{path}: cannot be read: Error -3 while decompressing data: invalid distance too far back", gzip.compress(GOOD)[:100] + b"x" * 99, name="table.csv.gz"),
    Case("gzip bomb of zeros", "{path}: a line of more than 16 MiB: this is no table", lambda path: path.write_bytes(bomb(b"\0")), name="table.csv.gz"),
    Case("gzip bomb of numbers", "{path}: unpacks to over 200 times its size: this is no table", lambda path: path.write_bytes(bomb(b"1,2\n")), name="table.csv.gz"),
    Case("zip bomb", "{path}: unpacks to over 200 times its size: this is no table", lambda path: packed(path, ("a.csv", b"1,2\n" * 30_000_000)), name="table.zip"),
    Case("zip of two files", "{path}: 2 files in the archive, where one is expected", lambda path: packed(path, ("a.csv", GOOD), ("b.csv", GOOD)), name="table.zip"),
    Case("zip, encrypted", "{path}: the archive is encrypted: unpack it first", lambda path: packed(path, ("a.csv", GOOD), flags=1), name="table.zip"),
    Case("zip, damaged", "{path}: cannot be read: File is not a zip file", b"PK\x03\x04" + GOOD, name="table.zip"),
    Case("zstd, damaged", "{path}: cannot be read: …", pa.compress(GOOD, "zstd", asbytes=True)[:20] + b"x" * 99),
    Case("an Excel workbook, damaged", "{path}: cannot be read as an Excel workbook: …", lambda path: packed(path, ("[Content_Types].xml", b"<"), ("xl/a.xml", b"<"))),
    Case("an Excel workbook of two sheets", "{path}: sheets load, notes: set data.sheet to one of them", lambda path: book(path, {"load": TABLE, "notes": TABLE}), name="table.xlsx"),
    Case("an empty sheet", "{path}: empty", lambda path: book(path, {"load": pd.DataFrame()}), name="table.xlsx"),
    Case("a sheet with a title", "{path}: no column 'date' in line 1 ('Unnamed: 0'): the header seems to be line 3: set data.skip_rows=2", lambda path: book(path, {"load": TABLE}, above=2), name="table.xlsx"),
    Case("a Parquet file of other columns", "{path}: no column 'date'; there are 'a' (data.date_column)", lambda path: pd.DataFrame({"a": [1]}).to_parquet(path)),
    Case("a Parquet file, damaged", "{path}: cannot be read as Parquet: …", lambda path: path.write_bytes(b"PAR1" + bytes(100))),
    Case("empty", "{path}: empty", b""),
    Case("a line of 40 MB", "{path}: a line of more than 16 MiB: this is no table", lambda path: path.write_bytes(b"date" + b"x" * 40_000_000)),
    Case("10 million columns", "{path}: 10,000,000 columns; at most 100,000 are read", lambda path: path.write_bytes(b"date" + b"," * 9_999_999 + b"\n")),
    Case("header only", "{path}: a header and no rows", b"date,load\n"),
    Case("one row", "{path}: too few rows to tell the step between them (1): give it (data.freq)", b"date,load\n2024-01-01,1\n"),
    Case("dates only", "{path}: no column beside 'date': there is nothing to forecast", b"date\n2024-01-01\n2024-01-02\n2024-01-03\n"),
    Case("no dates, a first date", "data.start=2024-01-01 needs the step between rows: set data.freq, such as D", GOOD, ("data.start=2024-01-01",)),
    Case("dates, and a first date", "{path}: column 'date' has dates, and data.start=2024-01-01 numbers the rows: leave it out, or set data.drop=[date] and data.date_column=none", GOOD, ("data.start=2024-01-01", "data.freq=h")),
    Case("names beside a header", "data.names names the columns of a file without a header: leave it out, or give data.header=none too", GOOD, ("data.names=[date,load,price]",)),
    Case("too few names", "{path}, line 1: 3 fields, and data.names has 2 names: give one for each", GOOD, ("data.header=none", "data.names=[date,load]")),
    Case("rows as steps, too few weeks", "{path}: the last dates, to 2024-04-01 23:00:00, have no weekly pattern, so the dates of a forecast are not known: set data.calendar, such as business, [Mon,Tue,Wed] or XNYS; write dates of months as 2024-01", GOOD, ("data.steps=rows",)),
    Case("a calendar of even steps", "data.calendar gives the dates of rows that are taken as steps: set data.steps=rows", GOOD, ("data.calendar=[Mon,Thu,Fri,Sat,Sun]",)),
    Case("an unknown calendar", "data.calendar=weekly is no calendar: write business, weekdays as [Mon,Tue,Wed], or the code of a country or exchange as DE or XNYS", GOOD, ("data.steps=rows", "data.calendar=weekly")),
    Case("no header", "{path}: no column 'date' in line 1 ('2024-03-28 00:00', '1000.5', '0.25'): for a file without a header set data.header=none", b"\n".join(GOOD.splitlines()[1:])),
    Case("other separator", "{path}: no column 'date' in line 1 ('date;load;price'): it looks separated by ';': set 'data.separator=;'", GOOD.replace(b",", b";")),
    Case("comments above the header", "{path}: no column 'date' in line 1 ('# exported by a logger'): the header seems to be line 3: set data.skip_rows=2", b"# exported by a logger\n# station 7\n" + GOOD),
    Case("units below the header", "{path}, line 2, column 'date': no date", line(2, ",kW,EUR")),
    Case("duplicate columns", "{path}, line 1: column 'load' appears twice (fields 2 and 3): rename one", written(header="date,load,load")),
    Case("a column without a name", "{path}, line 1: field 3 has values and no name: name or delete it", written(header="date,load,")),
    Case("a row too long", "{path}, line 5: 4 fields, where the lines above have 3: correct it", line(5, f"{ISO[3]},1009.5,3.25,7")),
    Case("a quote never closed", "{path}, line 5: a quote is opened and never closed", cell('"1009.5')),
    Case("a name that moves the cursor", "{path}, line 1: the name of field 2, 'load\\x1b[2J', has characters that cannot be shown: rename it", written(header="date,load\x1b[2J,price")),
    Case("text", "{path}, line 5, column 'load': 'n.a.' is not a number: correct it, or name it in data.na_values if it is a missing value", cell("n.a.")),
    Case("text that moves the cursor", "{path}, line 5, column 'load': '\\x1b]0;owned\\x07\\x1b[2J' is not a number: correct it, or name it in data.na_values if it is a missing value", cell("\x1b]0;owned\x07\x1b[2J")),
    Case("many series", "{path}: 1 column of text beside numbers: 'shop' ('a'); dates repeat, once for each shop: set data=long data.id_column=shop data.date_column=date data.target=sold", b"date,shop,sold\n" + b"".join(f"{date},{shop},{n}\n".encode() for n, date in enumerate(ISO) for shop in "ab")),
    Case("many series, by number", "{path}, line 3, column 'date': 2024-03-28 00:00:00 is in line 2 too; dates repeat, once for each shop: set data=long data.id_column=shop data.date_column=date data.target=sold", b"date,shop,sold\n" + b"".join(f"{date},{shop},{n}.5\n".encode() for n, date in enumerate(ISO) for shop in (7, 8))),
    Case("two columns of dates", "{path}: no column 'date', and several look like dates ('begin', 'end'): set data.date_column to one of them", written(dates=every("%Y-%m-%d %H:%M,%Y-%m-%d"), header="begin,end,load,price")),
    Case("infinite", "{path}, line 5, column 'load': an infinite number: correct it, or set data.na_values=[inf,-inf]", cell("-inf")),
    Case("text among the numbers of a covariate", "{path}, line 5, column 'other': 'x' is text, and other cells are numbers, such as '0': correct it, write text in every cell, or name it in data.na_values if it is a missing value", beside(lambda i: "x" if i == 3 else str(i)), FUTURE_OTHER),
    Case("a covariate of text that is a target too", "column 'other' is named twice (data.past_covariates and data.future_covariates): leave it out of data.future_covariates", beside(lambda i: "sun"), (*FUTURE_OTHER, "data.past_covariates=[other]")),
    Case("a full stop in decimal commas", "{path}, line 2, column 'load': '1.000,50' is not a number: set data.thousands=.", written(separator=";", number=german), SEMICOLONS),
    Case("no date", "{path}, line 5, column 'date': no date", dated("")),
    Case("not a date", "{path}, line 5, column 'date': 'soon' cannot be read as the dates above can: correct it, or delete the line", dated("soon")),
    Case("the year 1024", "{path}, line 5, column 'date': '1024-03-28 03:00' is not a date from 1678 to 2261: correct it, or delete the line", dated("1024-03-28 03:00")),
    Case("day or month first", "{path}, line 3, column 'date': '02/01/2024' may begin with the day or with the month: set data.day_first=true or false", written(dates=[f"{n % 12 + 1:02d}/{n // 12 + 1:02d}/2024" for n in range(120)])),
    Case("a date twice", "{path}, line 5, column 'date': 2024-03-28 02:00:00 is in line 4 too: remove one, or set data.duplicates=first, last, mean or sum; several series need data=long and data.id_column, times of day in a second column both in data.date_column, and clocks that went back data.timezone", dated(ISO[2])),
    Case("a date before", "{path}, line 5, column 'date': 2024-03-27 23:00:00 comes after 2024-03-28 02:00:00: sort the rows by date, or set data.sort=true", dated("2024-03-27 23:00")),
    Case("a date of a line above", "{path}, line 5, column 'date': 2024-03-28 00:00:00 comes after 2024-03-28 02:00:00: sort the rows by date (several series need data=long and data.id_column), or set data.sort=true", dated(ISO[0])),
    Case("a gap", "{path}, line 62, column 'date': 2024-03-30 12:30:00 does not follow 2024-03-30 11:00:00 by the step h: correct the date, or give another step (data.freq)", GOOD.replace(ISO[60].encode(), b"2024-03-30 12:30")),
    Case("an offset here, none there", "{path}, line 5, column 'date': '2024-03-28 03:00+01:00' and the dates above: give all of them an offset from UTC, or none", dated("2024-03-28 03:00+01:00")),
    Case("a zone's name", "{path}, line 2, column 'date': '2024-03-28 00:00 CET' is not a date that can be read: if it ends in the name of a time zone, set data.timezone, such as Europe/Berlin", written(dates=every("%Y-%m-%d %H:%M CET"))),
    Case("an hour twice", "{path}, line 29, column 'date': 2024-10-27 02:00:00 is in line 28 too: remove one, or set data.duplicates=first, last, mean or sum; several series need data=long and data.id_column, times of day in a second column both in data.date_column, and clocks that went back data.timezone", written(dates=local(start="2024-10-26"))),
    Case("an hour twice that no clocks repeat", "{path}, line 5, column 'date': 2024-03-30 02:00:00 is in line 4 too: remove one, or set data.duplicates=first, last, mean or sum; several series need data=long and data.id_column, times of day in a second column both in data.date_column, and clocks that went back data.timezone", written(dates=[f"2024-03-30 {hour:02d}:00" for hour in (0, 1, 2, 2, 3)] + [f"{d:%Y-%m-%d %H:%M}" for d in pd.date_range("2024-03-30 04:00", periods=len(DATES) - 5, freq="h")])),
    Case("an hour that there is not", "{path}, line 76, column 'date': 2024-03-31 02:00:00 does not exist in Europe/Berlin, where clocks go forward: leave data.timezone out if the file keeps one time all year; if dates are the ends of steps, add data.stamp=end", GOOD, BERLIN),
    Case("seconds since 1970, not said", "{path}, line 2, column 'date': '1711584000' is not a date that can be read: give the format of the dates (data.date_format), such as %d.%m.%Y, %Y%m%d%H, unix or excel", written(dates=[str(1_711_584_000 + 3600 * n) for n in range(120)])),
    Case("a file from Turkey", "{path}, line 2, column 'load': '1.000,50' is not a number: set data.thousands=. data.decimal=,", written(dates=every("%d.%m.%Y,%H:%M"), number=lambda x: f'"{german(x)}"', header="date,time,load,price")),
    Case("tabs", "{path}: no column 'date' in line 1 ('date load price'): it looks separated by '\\t': set 'data.separator=\\t'", GOOD.replace(b",", b"\t")),
    Case("thousands with dots", "{path}, line 12, column 'load': '1.000' beside '990': the dot may separate thousands or decimals: set data.thousands=. data.decimal=, or data.decimal=.", thousands(".")),
    Case("thousands with commas", "{path}, line 12, column 'load': '1,000' is not a number: set data.thousands=, or data.decimal=,", thousands(",")),
    Case("thousands with apostrophes", "{path}, line 12, column 'load': \"1'000\" is not a number: set \"data.thousands='\"", thousands("'")),
    Case("days of two-digit years, hours and texts, not said", "{path}, line 2, column 'date': '28/03/24': a year of two digits: set data.day_first=true or false, or give the format of the dates (data.date_format)", SHORT_YEARS),
    Case("decimal commas, not said", "{path}, line 2, column 'load': '1000,5' is not a number: set data.decimal=,", written(separator=";", number=lambda x: str(x).replace(".", ",")), SEMICOLONS[:1]),
    Case("a column of text", "{path}: 1 column of text beside numbers: 'sky' ('sun'): set data.drop=[sky], or read text as covariates (data.future_covariates, past_covariates or static_covariates), or as names of series (data=long, data.id_column)", written(dates=[f"{date},sun" for date in ISO], header="date,sky,load,price"), ("data=csv",), program=TRAIN),
    Case("date and time, not said", "{path}: 1 column of text beside numbers: 'time' ('00:00'): correct the cells, set data.drop=[time], or for times of day set data.date_column=[date,time]", written(dates=every("%Y-%m-%d,%H:%M"), header="date,time,load,price")),
    Case("a folder", "{path}: not a file but a folder: give a CSV file, or a folder of .parquet files", Path.mkdir),
    Case("a device", "{path}: not a file but a device: give a CSV file", lambda path: path.symlink_to("/dev/zero")),
    Case("a pipe that nobody writes to", "{path}: not a file but a device: give a CSV file", os.mkfifo),
    Case("a name too long", "{path}: cannot be read: File name too long", name="x" * 300),
]  # fmt: skip
