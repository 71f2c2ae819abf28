"""Files and cells that the scripts refuse, with the text of each message."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from electricity import convert
from forecast.runs.folder import locked
from forecast.system.errors import DataError
from gpu import environment
from results.cells import TABLES
from results.runner import CellFailed, Runner, described_commit, scores
from tests.support.refusals import Refusal
from tests.support.uci_file import FIRST, LAST, raw_readings, write_raw


def raw(what: str, says: str, spoil: Callable[[str], str]) -> Refusal:
    """A changed raw file of electricity."""

    def call(folder: Path) -> None:
        path = write_raw(folder / "raw.txt", raw_readings())
        path.write_bytes(spoil(path.read_bytes().decode()).encode())
        convert(path, folder / "out.csv")

    return Refusal(what, says, DataError, call)


def all_zero(text: str) -> str:
    dates = pd.date_range(FIRST, LAST, freq="15min")
    return '"";"MT_001"\n' + "".join(f'"{date}";0\n' for date in dates)


def no_wheels(folder: Path) -> None:
    (folder / "wheels").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "requirements", lambda: ["torch>=2.6", "lacking-package>=1"])
        environment.python_with_everything(folder / "wheels", folder / "venv")


def no_number(folder: Path) -> None:
    (folder / "metrics.json").write_text('{"test": {"mse": null}}')
    scores(folder)


def stopped(folder: Path) -> None:
    runner = Runner(folder, 1, folder / "runs")
    runner.stop()
    runner(TABLES["ett"][0])


def running(folder: Path) -> None:
    cell = TABLES["ett"][0]
    runs = folder / "runs"
    with locked(runs / "_".join([cell.table, *cell.name.split("/"), described_commit()])):
        Runner(folder, 1, runs)(cell)


REFUSED = [
    raw("text", "raw.txt, line 1058, column 'MT_001': 'x…' is not a number: correct it, or name it in data.na_values if it stands for a missing value", lambda text: text.replace('05 00:15:00";', '05 00:15:00";x', 1)),
    raw("missing row", "raw.txt, line 4034: 2012-02-05T00:30:00, where 2012-02-05T00:15 is due: download the file again", lambda text: text.replace("02-05 00:15:00", "02-05 00:30:00", 1)),
    raw("bad date", "raw.txt, line 1058, column 'date': 'January' does not match data.date_format='%Y-%m-%d %H:%M:%S'", lambda text: text.replace("2012-01-05 00:15:00", "January", 1)),
    raw("cut in a line", "raw.txt, line 4256: the file ends within an hour: download it again", lambda text: text[: len(text) // 2]),
    raw("cut in an hour", "raw.txt, line 4003: the file ends within an hour: download it again", lambda text: "\r\n".join(text.split("\r\n")[:4003])),
    raw("another table", "raw.txt, line 1: begins with 'date,load', where UCI's raw file has an empty name and its clients, separated by semicolons", lambda text: "date,load\n2012-01-01,1\n"),
    raw("empty", "raw.txt: not UCI's raw file: No columns to parse from file", lambda text: ""),
    raw("long line", "raw.txt: not UCI's raw file: …line 10…", lambda text: text.replace("\r\n", ";1\r\n").replace(";1\r\n", "\r\n", 9)),
    raw("all zero", "raw.txt: every client is zero until 2012-01-02T00:00:00: choose a later --start", all_zero),
    Refusal("wheels without a package", "wheels: the packages cannot be installed from this folder (…lacking-package…); on a machine with network and Python … run `pip download -d wheels 'lacking-package>=1'`, bring the folder, and give --wheels …", environment.MissingPackages, no_wheels),
    Refusal("a test error that is no number", "the test MSE is not a number", CellFailed, no_number),
    Refusal("a stopped command", "stopped", CellFailed, stopped),
    Refusal("a cell that runs", "another command runs it", CellFailed, running),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
