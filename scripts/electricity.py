"""Conversion of UCI's raw electricity file (dataset 321, ElectricityLoadDiagrams20112014) to an hourly CSV table.

    scripts/convert_electricity LD2011_2014.txt data/electricity.csv

The raw file has one column per client, 370 clients in Portugal, from 2011 to 2014. It has one reading in kW every 15
minutes, dated at the end of the quarter of an hour. A client's readings are zero before its contract began.

In the table each hour is dated at its beginning and holds the mean of its four readings, which is the energy of that
hour in kWh. The table has the clients with a reading other than zero by the end of the first day. The last column is
named OT, as in the table that papers use.

Dates are local times. The hour that daylight saving time skips in March is zero, and the hour that it repeats in
October holds the energy of two hours.
"""

import argparse
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd

from forecast.data.files.cell_numbers import read_numbers
from forecast.data.files.cells import Cells, quote
from forecast.data.files.dates import read_dates
from forecast.data.files.read_options import ReadOptions
from forecast.system.errors import ConfigError, DataError, ForecastError
from forecast.system.files import atomic_file
from forecast.system.progress import bar

_QUARTER = np.timedelta64(15, "m")
_OPTIONS = ReadOptions(separator=";", decimal=",", date_format="%Y-%m-%d %H:%M:%S")
_CHUNK_ROWS = 4 * 24 * 28  # whole hours


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="convert_electricity", description="Convert UCI's LD2011_2014.txt to an hourly CSV table."
    )
    parser.add_argument("source", type=Path, help="LD2011_2014.txt, or the downloaded .zip")
    parser.add_argument("target", type=Path, help="the CSV file to write, such as data/electricity.csv")
    parser.add_argument(
        "--start", default="2012-01-01", help="first day; clients whose readings begin later are left out"
    )
    parser.add_argument("--quarters", action="store_true", help="write readings in kW every 15 minutes")
    parser.add_argument("--overwrite", action="store_true", help="replace the target file")
    given = parser.parse_args(arguments)
    try:
        rows, columns = convert(
            given.source, given.target, start=given.start, quarters=given.quarters, overwrite=given.overwrite
        )
    except (ForecastError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{given.target}: {rows:,} rows of {columns} clients")
    return 0


def convert(
    source: Path, target: Path, *, start: str = "2012-01-01", quarters: bool = False, overwrite: bool = False
) -> tuple[int, int]:
    """Convert `source` and write the CSV file `target`, which appears only when it is complete.

    Returns the number of rows and of clients. Raises DataError if `source` is not the raw file, ConfigError if `start`
    is not a day of it, or if `target` exists without `overwrite`.
    """
    if target.exists() and not overwrite:
        raise ConfigError(f"{target} exists: choose another file, or replace it with --overwrite")
    try:
        first = np.datetime64(start, "D").astype("datetime64[s]")
    except ValueError:
        raise ConfigError(f"--start {start} is not a day such as 2012-01-01") from None
    clients = _find_clients(source, first)
    rows = 0
    with atomic_file(target) as temporary, temporary.open("x", encoding="utf-8", newline="") as file:
        for ends, readings in _read(source, "Writing"):
            after = ends > first
            if not after.any():
                continue
            begins = ends[after] - _QUARTER
            values = np.stack([readings[name][after] for name in clients], axis=1)
            if not quarters:
                begins, values = begins[::4], values.reshape(-1, 4, len(clients)).mean(axis=1)
            chunk = pd.DataFrame(values, index=pd.DatetimeIndex(begins), columns=[*clients[:-1], "OT"])
            chunk.to_csv(
                file,
                header=rows == 0,
                index_label="date",
                date_format="%Y-%m-%d %H:%M:%S",
                float_format="%.10g",
                lineterminator="\n",
            )
            rows += len(chunk)
    return rows, len(clients)


def _find_clients(source: Path, first: np.datetime64) -> list[str]:
    """Return the clients with a reading other than zero by the end of the day `first`."""
    day_end = first + np.timedelta64(1, "D")
    used: dict[str, bool] = {}
    begin = end = None
    for ends, readings in _read(source, "Finding clients"):
        begin, end = begin or ends[0] - _QUARTER, ends[-1]
        for name, values in readings.items():
            used[name] = used.get(name, False) or bool((values[ends <= day_end] != 0).any())
        if end >= day_end:
            break
    if begin is None or end is None or not begin <= first < day_end <= end:
        raise ConfigError(f"--start {first} is not a day of {source}, which reaches from {begin} to {end}")
    clients = [name for name, ever in used.items() if ever]
    if not clients:
        raise DataError(f"{source}: every client is zero until {day_end}: choose a later --start")
    return clients


def _read(source: Path, task: str) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Yield the raw file in chunks of whole hours: the ends of the quarters, and each client's readings in kW."""
    line, follows = 2, None
    with _open(source) as (file, size), bar(size, task, "B") as shown:
        chunks = pd.read_csv(
            file, sep=";", decimal=",", chunksize=_CHUNK_ROWS, low_memory=False, dtype={"Unnamed: 0": str}
        )
        for chunk in chunks:
            if chunk.columns[0] != "Unnamed: 0" or chunk.shape[1] < 2:
                raise DataError(
                    f"{source}, line 1: begins with {quote(chunk.columns[0])}, where UCI's raw file has an empty "
                    "name and its clients, separated by semicolons"
                )
            cells = Cells(source, chunk.set_axis(["date", *chunk.columns[1:]], axis=1), line)
            ends = read_dates(cells, "date", _OPTIONS)[0].to_numpy().astype("datetime64[s]")
            if follows is None:
                follows = ends[0].astype("datetime64[h]") + _QUARTER
            due = follows + _QUARTER * np.arange(len(ends))
            if (ends != due).any():
                row = int((ends != due).argmax())
                raise cells.error(f"{ends[row]}, where {due[row]} is due: download the file again", row=row)
            if len(ends) % 4:
                raise cells.error("the file ends within an hour: download it again", row=len(ends) - 1)
            shown.update(file.tell() - shown.n)
            yield ends, {name: _readings(cells, name) for name in cells.frame.columns[1:]}
            line, follows = line + len(chunk), due[-1] + _QUARTER


def _readings(cells: Cells, name: str) -> np.ndarray:
    values = read_numbers(cells, name, _OPTIONS)
    if not np.isfinite(values).all():
        row = int(np.isfinite(values).argmin())
        raise cells.error("no number: download the file again", row=row, column=name)
    return values


@contextmanager
def _open(source: Path) -> Iterator[tuple[IO[bytes], int]]:
    """Open the raw text, in the archive if `source` is one; also yield its size in bytes."""
    with ExitStack() as stack:
        try:
            if source.suffix == ".zip":
                archive = stack.enter_context(zipfile.ZipFile(source))
                member = archive.getinfo("LD2011_2014.txt")
                file, size = stack.enter_context(archive.open(member)), member.file_size
            else:
                file, size = stack.enter_context(source.open("rb")), source.stat().st_size
            yield file, size
        except (KeyError, EOFError, UnicodeDecodeError, zipfile.BadZipFile, zlib.error) as error:
            raise DataError(
                f"{source}: not UCI's raw file, or damaged: {' '.join(str(error).split())}"
            ) from None
        except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
            raise DataError(f"{source}: not UCI's raw file: {' '.join(str(error).split())}") from None
