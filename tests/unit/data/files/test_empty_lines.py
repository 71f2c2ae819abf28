"""Lines without a value: they are no rows, one warning counts them, and messages name the lines of the file."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from forecast.data.files.sources import read_table
from forecast.system.errors import DataError
from tests.support.csv_files import write

ROWS = [f"2021-03-01 {hour:02}:00,{hour},{hour * 0.5}" for hour in range(10)]


def with_lines(added: dict[int, str], rows: list[str] = ROWS, header: str = "date,load,price") -> str:
    """A file in which these lines, by number, are added."""
    lines = [header, *rows]
    for number, text in sorted(added.items()):
        lines.insert(number - 1, text)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("text", ["", "  ", "\t", ",,", "NA,,", "\r"])
def test_empty_lines_are_skipped_with_one_warning(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, with_lines({4: text, 5: text, 9: text}) + "\n\n")
    with warnings.catch_warnings(record=True, action="always") as said:
        table = read_table(path)
    assert [str(each.message) for each in said] == [
        f"{path}: skipped 3 lines without a value: the first is line 4"
    ]
    plain = read_table(write(tmp_path, with_lines({}), "plain.csv"))
    np.testing.assert_array_equal(table.values, plain.values)
    assert table.grid.equals(plain.grid)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({8: "2021-03-01 05:00,n.a.,1"}, "line 8, column 'load': 'n.a.' is not a number"),
        ({8: ",5,1"}, "line 8, column 'date': no date"),
        ({8: "2021-03-01 02:00,5,1"}, "line 8, column 'date': 2021-03-01 02:00:00 is in line 6 too"),
        ({2: "2021-03-01 00:00,n.a.,1"}, "line 2, column 'load': 'n.a.' is not a number"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*skipped 2 lines without a value")
def test_messages_name_the_lines_of_the_file(bad: dict[int, str], says: str, tmp_path: Path) -> None:
    path = write(tmp_path, with_lines({3: "", 5: "", **bad}))
    with pytest.raises(DataError, match=f"table.csv, {says}"):
        read_table(path)


@pytest.mark.parametrize("header", ["load", "load,price"])
def test_rows_without_dates_are_counted_so_none_is_skipped(header: str, tmp_path: Path) -> None:
    rows = [row.split(",", 1)[1] if "," in header else row.split(",")[1] for row in ROWS]
    path = write(tmp_path, with_lines({4: ""}, rows, header))
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(DataError, match="line 4: a line without a value"),
    ):
        read_table(path, start="2021-03-01", freq="h")
