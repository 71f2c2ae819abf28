import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from electricity import convert, main
from forecast.data import downloaded_data, read_table
from forecast.system.errors import DataError
from tests.support.uci_file import raw_readings, write_raw


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


def test_nothing_is_left_of_a_bad_raw_file(raw: Path, tmp_path: Path):
    source = tmp_path / "raw.txt"
    source.write_bytes(raw.read_bytes()[: raw.stat().st_size // 2])
    with pytest.raises(DataError):
        convert(source, tmp_path / "out.csv")
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
