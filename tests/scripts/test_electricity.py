import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from electricity import convert, main
from forecast.data import downloaded_data, read_table
from forecast.system.errors import DataError

FIRST, LAST = "2011-12-25 00:15:00", "2012-03-20 00:00:00"  # more than one chunk
BORN = {"MT_001": FIRST, "MT_002": "2012-01-01 23:45:00", "MT_003": "2012-01-02 00:15:00", "MT_004": FIRST}


def raw_readings() -> pd.DataFrame:
    """kW by the end of each quarter of an hour; zero before a client was born."""
    ends = pd.date_range(FIRST, LAST, freq="15min")
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.uniform(1, 500, size=(len(ends), len(BORN))), index=ends, columns=list(BORN))
    for client, born in BORN.items():
        frame.loc[frame.index < born, client] = 0.0
    return frame


def write_raw(path: Path, frame: pd.DataFrame) -> Path:
    """As UCI has it: semicolons, decimal commas, names and dates in quotes, whole numbers bare."""
    lines = ['"";' + ";".join(f'"{client}"' for client in frame.columns)]
    for end, row in zip(frame.index, frame.to_numpy(), strict=True):
        cells = [f"{value:.15g}".replace(".", ",") for value in row]
        lines.append(f'"{end:%Y-%m-%d %H:%M:%S}";' + ";".join(cells))
    path.write_text("\r\n".join(lines) + "\r\n")
    return path


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_raw(tmp_path_factory.mktemp("uci") / "LD2011_2014.txt", raw_readings())


def expected() -> pd.DataFrame:
    """Computed another way: each hour's mean by its beginning."""
    frame = raw_readings()[["MT_001", "MT_002", "MT_004"]]
    hourly = frame.set_axis(frame.index - pd.Timedelta(minutes=15)).resample("h").mean()
    return hourly["2012-01-01":]


def test_hours_of_the_clients_that_existed(raw: Path, tmp_path: Path):
    target = tmp_path / "new" / "electricity.csv"
    assert convert(raw, target) == (79 * 24, 3)
    table = read_table(target)
    assert table.columns == ("MT_001", "MT_002", "OT")
    assert table.freq == "h"
    assert table.grid.equals(pd.DatetimeIndex(expected().index))
    assert str(table.grid[-1]) == "2012-03-19 23:00:00"
    np.testing.assert_allclose(table.values, expected().to_numpy(), rtol=1e-9)
    assert [file.name for file in target.parent.iterdir()] == ["electricity.csv"]


def test_the_table_is_the_electricity_set(raw: Path, tmp_path: Path):
    convert(raw, tmp_path / "electricity.csv")
    sizes = {"name": "electricity", "seq_len": 96, "pred_len": 24, "split": [0.7, 0.1, 0.2], "features": "MS"}
    data = downloaded_data(root=tmp_path, path="electricity.csv", url=None, hash=None, target="OT", **sizes)
    data.setup()
    assert (data.n_features, data.target_columns) == (3, ("OT",))


def test_quarters_may_be_kept(raw: Path, tmp_path: Path):
    assert convert(raw, tmp_path / "q.csv", quarters=True) == (79 * 96, 3)
    table = read_table(tmp_path / "q.csv")
    assert table.freq == "15min"
    assert str(table.grid[0]) == "2012-01-01 00:00:00"
    readings = raw_readings()["2012-01-01 00:15":]
    np.testing.assert_allclose(table.values[:, 0], readings["MT_001"].to_numpy(), rtol=1e-9)


def test_a_later_start_keeps_more_clients(raw: Path, tmp_path: Path):
    assert convert(raw, tmp_path / "later.csv", start="2012-02-01") == (48 * 24, 4)


def test_the_zip_as_downloaded(raw: Path, tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "LD2011_2014.txt.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(raw, "LD2011_2014.txt")
        archive.writestr("__MACOSX/._LD2011_2014.txt", b"\0\1")
    convert(tmp_path / "LD2011_2014.txt.zip", tmp_path / "a.csv")
    convert(raw, tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_an_existing_table_is_kept_unless_told(raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "electricity.csv"
    target.write_text("mine")
    assert main([str(raw), str(target)]) == 2
    assert (
        capsys.readouterr().err
        == f"error: {target} exists: choose another file, or replace it with --overwrite\n"
    )
    assert target.read_text() == "mine"
    assert main([str(raw), str(target), "--overwrite"]) == 0
    assert capsys.readouterr().out == f"{target}: 1,896 rows of 3 clients\n"
    assert target.read_text().startswith("date,MT_001,MT_002,OT\n")


ALL_ZERO = '"";"MT_001"\n' + "".join(f'"{end}";0\n' for end in pd.date_range(FIRST, LAST, freq="15min"))
BAD = {
    "text": (
        lambda text: text.replace('05 00:15:00";', '05 00:15:00";x', 1),
        "line 1058, column 'MT_001': 'x",
    ),
    "missing row": (
        lambda text: text.replace("02-05 00:15:00", "02-05 00:30:00", 1),
        "line 4034: .*00:15 is due",
    ),
    "bad date": (
        lambda text: text.replace("2012-01-05 00:15:00", "January", 1),
        "line 1058, column 'date': 'January'",
    ),
    "cut in a line": (lambda text: text[: len(text) // 2], "line .*: "),
    "cut in an hour": (
        lambda text: "\r\n".join(text.split("\r\n")[:4003]),
        "line 4003: the file ends within an hour",
    ),
    "another table": (lambda text: "date,load\n2012-01-01,1\n", "line 1: begins with 'date,load'"),
    "empty": (lambda text: "", "not UCI's raw file"),
    "long line": (
        lambda text: text.replace("\r\n", ";1\r\n").replace(";1\r\n", "\r\n", 9),
        "not UCI's raw file",
    ),
    "all zero": (lambda text: ALL_ZERO, "every client is zero"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_raw_file_is_refused_in_one_line(raw: Path, tmp_path: Path, name: str):
    spoil, message = BAD[name]
    source = tmp_path / "raw.txt"
    source.write_bytes(spoil(raw.read_bytes().decode()).encode())
    with pytest.raises(DataError, match=message) as refused:
        convert(source, tmp_path / "out.csv")
    assert "\n" not in str(refused.value)
    assert [file.name for file in tmp_path.iterdir()] == ["raw.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--start", "2013-01-01"], "--start 2013-01-01"),
        (["--start", "2011-12-24"], "--start 2011-12-24"),
        (["--start", "spring"], "--start spring is not a day"),
    ],
)
def test_a_start_outside_the_file_is_refused(
    raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
):
    assert main([str(raw), str(tmp_path / "out.csv"), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.splitlines()[-1].startswith(f"error: {message}")
    assert list(tmp_path.iterdir()) == []


def test_unreadable_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "not.zip").write_bytes(b"text")
    for source in (tmp_path / "none.txt", tmp_path, tmp_path / "not.zip"):
        assert main([str(source), str(tmp_path / "out.csv")]) == 2
        assert capsys.readouterr().err.count("error: ") == 1
