"""Make the hourly electricity table from UCI's raw file (dataset 321, ElectricityLoadDiagrams20112014).

    python -m forecast.data.electricity LD2011_2014.txt data/electricity.csv

The raw file has 370 clients in Portugal, 2011 to 2014, one reading in kW every 15 minutes, dated at the end
of its quarter of an hour; before a client existed its readings are zero. An hour here is dated at its
beginning and holds the mean of its four readings, which is the energy used in it, in kWh. Kept are the
clients that had a reading other than zero by the end of the first day. The last column is named OT, as in the
table that papers use.

The clock is local: in March the hour that it skips is zero, in October the hour that it repeats counts twice.
"""

import argparse
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import wrap_file

from forecast.data.csvfile import Cells, quote, read_numbers
from forecast.data.dates import dates_and_clock
from forecast.errors import ConfigError, DataError, ForecastError

_QUARTER = np.timedelta64(15, "m")
_CHUNK_ROWS = 4 * 24 * 28  # whole hours


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m forecast.data.electricity",
        description="Make the hourly electricity table from UCI's LD2011_2014.txt.",
    )
    parser.add_argument("source", type=Path, help="LD2011_2014.txt, or the .zip as downloaded")
    parser.add_argument("target", type=Path, help="the CSV file to write, such as data/electricity.csv")
    parser.add_argument(
        "--start", default="2012-01-01", help="first day; clients that begin later are left out"
    )
    parser.add_argument("--quarters", action="store_true", help="keep the step of 15 minutes and kW")
    parser.add_argument("--overwrite", action="store_true", help="replace the target if it exists")
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
    """Write the table of `source` to `target`, which appears only when it is complete; returns rows and clients.

    Raises DataError for what is not the raw file, ConfigError for a `start` that is no day of it, or a
    `target` that exists and is not to `overwrite`.
    """
    if target.exists() and not overwrite:
        raise ConfigError(f"{target} exists: --overwrite replaces it")
    try:
        first = np.datetime64(start, "D").astype("datetime64[s]")
    except ValueError:
        raise ConfigError(f"--start {start} is not a day such as 2012-01-01") from None
    clients = _find_clients(source, first)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    rows = 0
    try:
        with part.open("x", encoding="utf-8", newline="") as file:
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
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return rows, len(clients)


def _find_clients(source: Path, first: np.datetime64) -> list[str]:
    """The clients with a reading other than zero by the end of the day `first`."""
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
        raise ConfigError(f"--start {first} is not a day of {source}, which goes from {begin} to {end}")
    clients = [name for name, ever in used.items() if ever]
    if not clients:
        raise DataError(f"{source}: every client is zero until {day_end}: choose a later --start")
    return clients


def _read(source: Path, task: str) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """The raw file in pieces of whole hours: the ends of the quarters, and the readings of each client in kW."""
    line, follows = 2, None
    with _open(source, task) as file:
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
            ends = dates_and_clock(cells, "date", "%Y-%m-%d %H:%M:%S")[0].to_numpy().astype("datetime64[s]")
            if follows is None:
                follows = ends[0].astype("datetime64[h]") + _QUARTER
            due = follows + _QUARTER * np.arange(len(ends))
            if (ends != due).any():
                row = int((ends != due).argmax())
                raise cells.refuse(f"{ends[row]}, where {due[row]} is due: download the file again", row=row)
            if len(ends) % 4:
                raise cells.refuse("the file ends within an hour: download it again", row=len(ends) - 1)
            yield ends, {name: _readings(cells, name) for name in cells.frame.columns[1:]}
            line, follows = line + len(chunk), due[-1] + _QUARTER


def _readings(cells: Cells, name: str) -> np.ndarray:
    values = read_numbers(cells, name, decimal=",")
    if not np.isfinite(values).all():
        row = int(np.isfinite(values).argmin())
        raise cells.refuse("no number: download the file again", row=row, column=name)
    return values


@contextmanager
def _open(source: Path, task: str) -> Iterator[IO[bytes]]:
    """The raw text, out of the zip if that is what it is in, with a progress bar while it is read."""
    with ExitStack() as stack:
        try:
            if source.suffix == ".zip":
                archive = stack.enter_context(zipfile.ZipFile(source))
                member = archive.getinfo("LD2011_2014.txt")
                file, size = stack.enter_context(archive.open(member)), member.file_size
            else:
                file, size = stack.enter_context(source.open("rb")), source.stat().st_size
            bar = wrap_file(
                cast(BinaryIO, file), size, description=task, console=Console(stderr=True), transient=True
            )
            yield stack.enter_context(bar)
        except (KeyError, EOFError, UnicodeDecodeError, zipfile.BadZipFile, zlib.error) as error:
            raise DataError(
                f"{source}: not UCI's raw file, or damaged: {' '.join(str(error).split())}"
            ) from None
        except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
            raise DataError(f"{source}: not UCI's raw file: {' '.join(str(error).split())}") from None


if __name__ == "__main__":
    sys.exit(main())
