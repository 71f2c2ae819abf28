"""`scripts/convert_electricity` makes the table of data=electricity from UCI's raw file."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data import downloaded_data, read_table
from forecast.system.errors import DataError
from tests.support.windows import set_up

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


SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "convert_electricity"))
convert, main = SCRIPT["convert"], SCRIPT["main"]


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_raw(tmp_path_factory.mktemp("uci") / "LD2011_2014.txt", raw_readings())


def test_hours_of_the_clients_that_existed(raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "electricity.csv"
    target.write_text("mine")
    assert main([str(raw), str(target)]) == 2
    said = f"error: {target} exists: choose another file, or replace it with --overwrite\n"
    assert (capsys.readouterr().err, target.read_text()) == (said, "mine")
    assert main([str(raw), str(target), "--overwrite"]) == 0
    assert capsys.readouterr().out == f"{target}: 1,896 rows of 3 clients\n"
    table = read_table(target)
    assert (table.columns, table.freq) == (("MT_001", "MT_002", "OT"), "h")
    frame = raw_readings()[["MT_001", "MT_002", "MT_004"]]
    quarters = [frame[k::4]["2012-01-01 00:15":] for k in range(4)]  # computed another way
    assert table.grid.equals(pd.date_range("2012-01-01", "2012-03-19 23:00:00", freq="h"))
    hours = np.mean([each.to_numpy() for each in quarters], axis=0)
    np.testing.assert_allclose(table.values, hours, rtol=1e-9)
    sizes = {"name": "electricity", "seq_len": 96, "pred_len": 24, "split": [0.7, 0.1, 0.2], "features": "MS"}
    data = set_up(downloaded_data(root=tmp_path, path="electricity.csv", url=None, hash=None, target="OT", **sizes))
    assert (data.n_features, data.target_columns) == (3, ("OT",))


@pytest.mark.parametrize("damaged", ['05 00:15:00";x', "05 00:30:00"], ids=["text", "missing row"])
def test_a_damaged_file_is_refused(raw: Path, tmp_path: Path, damaged: str) -> None:
    text = raw.read_bytes().decode().replace('05 00:15:00";' if ";" in damaged else "05 00:15:00", damaged, 1)
    (tmp_path / "raw.txt").write_bytes(text.encode())
    with pytest.raises(DataError, match=r"raw\.txt: not UCI's raw file, or damaged: .*download it again"):
        convert(tmp_path / "raw.txt")
