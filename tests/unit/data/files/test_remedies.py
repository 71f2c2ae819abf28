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
