"""The server: requests as rows of a table, the models that it finds, and errors in its workers."""

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data.files.columns import ColumnRoles
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.table_rows import TableRows
from forecast.data.panel import Panel
from forecast.system.errors import CheckpointError, ConfigError, DataError, ForecastError, NotInstalled
from forecast.tools.serve.processes import find_models
from forecast.tools.serve.request import (
    ForecastRequest,
    RequestReader,
    RequestSource,
    read_columns,
    read_request,
    to_columns,
)
from forecast.tools.serve.worker import ServedModel, Unavailable

ROLES = ColumnRoles((), "date", ("load",), past=("weather",))


def read(**columns: list[Any]) -> TableRows:
    """The rows of a request with these columns, to which loads and weather are added."""
    columns = {"load": [1] * len(columns["date"]), "weather": [0.5] * len(columns["date"]), **columns}
    return read_columns("rows", columns, ROLES, ReadOptions())


def read_dates(*texts: Any) -> pd.DatetimeIndex:
    """The dates as answers show them: in the zone that the texts have."""
    rows = read(date=list(texts))
    return rows.utc_offset.zoned(pd.DatetimeIndex(rows.dates))


def test_rows_as_objects_and_as_columns_are_the_same() -> None:
    objects = [{"date": "2026-01-01T00:00", "load": 1}, {"date": "2026-01-01T01:00", "other": 2}]
    found = to_columns("rows", objects, {"date", "load"}, max_rows=2)
    assert found == {"date": ["2026-01-01T00:00", "2026-01-01T01:00"], "load": [1, None], "other": []}
    columns = {"date": found["date"], "load": [1, None]}
    assert to_columns("rows", columns, {"date", "load"}, max_rows=2) == columns
    rows = read(**columns)
    assert rows.dates.tolist() == pd.DatetimeIndex(columns["date"]).as_unit("ns").to_numpy().tolist()
    assert np.isnan(rows.values[:, 0]).tolist() == [False, True]


@pytest.mark.filterwarnings("error::UserWarning", "error::DeprecationWarning", "error::FutureWarning")
def test_dates_at_several_offsets_are_instants_and_midnights_are_days() -> None:
    found = read_dates("2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00")
    assert list(found) == [pd.Timestamp("2026-03-29T00:00Z"), pd.Timestamp("2026-03-29T01:00Z")]
    assert read_dates("2026-05-01T06:00+0200")[0].isoformat() == "2026-05-01T06:00:00+02:00"
    texts = ["2026-03-28T00:00:00+01:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"]
    assert read_dates(*texts).equals(pd.date_range("2026-03-28", periods=3))


def test_ids_of_several_columns_are_given_apart_or_joined() -> None:
    source = RequestSource(id_column=["store", "dept"], date_column="date", target="sold", freq="D")
    reader = RequestReader(source, {"categories": {}})
    values = {"date": ["2026-01-01", "2026-01-02"] * 2, "sold": [1, 2, 3, 4]}
    apart = {"store": [1, 1, 1, 1], "dept": ["a", "a", "b", "b"], **values}
    joined = {"store/dept": ["1/a", "1/a", "1/b", "1/b"], **values}
    objects = [dict(zip(joined, row, strict=True)) for row in zip(*joined.values(), strict=True)]
    for rows in (apart, joined, objects):
        panel = reader.read(ForecastRequest.model_validate({"rows": rows}), max_rows=10)
        assert panel.ids.tolist() == ["1/a", "1/b"]
        assert panel.values[:, 0].tolist() == [1, 2, 3, 4]


def rows_of(dates: pd.DatetimeIndex, form: str = "%Y-%m-%dT%H:%M", **columns: list[Any]) -> dict[str, list[Any]]:
    return {"date": dates.strftime(form).tolist(), "load": [*range(len(dates))], "rain": [0.5] * len(dates), **columns}


HOURS, DAY = pd.date_range("2026-03-01T05:00", periods=4, freq="h"), pd.Timedelta(days=1)
MONDAYS, MONTHS = (pd.date_range("2024-07-01", periods=3, freq=freq) for freq in ("7D", "31D"))


@pytest.mark.parametrize(
    ("rows", "is_repeated", "before"),
    [
        (rows_of(MONDAYS + DAY), False, MONDAYS),  # weeks begin on another day
        (rows_of(MONTHS + DAY), False, MONTHS),  # no months
        (rows_of(HOURS + DAY, rain=[3, 2, 1, 0.25]), True, HOURS),
        (rows_of(HOURS + DAY, "%Y-%m-%d %H:%M:%S"), True, HOURS),
        (rows_of(HOURS, other=["x"] * 4), True, HOURS),  # a column that the model does not read
        (rows_of(HOURS, rain=[3, None, 1, 0]), False, HOURS),
        (rows_of(HOURS, rain=[True, False, True, True]), False, HOURS),
        (rows_of(HOURS, rain=[10**400, 1, 1, 1]), False, HOURS),
        (rows_of(HOURS, rain=[float("inf"), 1, 1, 1]), False, HOURS),  # of 1e999
        (rows_of(HOURS, "%Y-%m-%dT%H:%M+01:00"), False, HOURS),
        (rows_of(HOURS[::-1]), False, HOURS),
        (rows_of(HOURS[[0, 1, 1, 2]]), False, HOURS),
        (rows_of(HOURS[[0, 1, 2]]), False, HOURS),
        (rows_of(pd.date_range("2026-03-01T05:00", periods=4, freq="75min")), False, HOURS),
        (rows_of(HOURS, "2026-02-30T%H:%M"), False, HOURS),
        (rows_of(HOURS, "2262-03-01T%H:%M"), False, HOURS),  # no reading takes this year
    ],
)
@pytest.mark.parametrize("options", [{}, {"stamp": "end"}], ids=["plain", "stamp"])
@pytest.mark.filterwarnings("ignore")
def test_a_second_request_is_read_as_the_first_one(
    rows: dict[str, list[Any]], is_repeated: bool, before: pd.DatetimeIndex, options: dict[str, Any]
) -> None:
    def read_after(*before: dict[str, list[Any]]) -> tuple[Any, Panel | None]:
        reader = RequestReader(
            RequestSource(date_column="date", columns=["load", "rain"], **options), {"categories": {}}
        )
        for each in before:
            with suppress(ConfigError):  # stamp=end is for steps of a day or less
                reader.read(ForecastRequest.model_validate({"rows": each}), 10)
        last = reader.last
        try:
            panel = reader.read(ForecastRequest.model_validate({"rows": rows}), 10)
        except ForecastError as error:
            return str(error), None
        known = [] if last is None else [panel.static is last.static]
        facts = (panel.freq, panel.columns, panel.starts.tolist(), panel.ends.tolist(), panel.utc_offset)
        return (panel.grid, panel.grid.dtype, np.asarray(panel.values).tolist(), *facts), panel if any(known) else None

    (first, _), (second, repeated) = read_after(), read_after(rows_of(before))
    assert str(first) == str(second)
    assert (repeated is not None) == (is_repeated and not options)


def test_few_rows_far_apart_do_not_fill_the_memory() -> None:
    """100 series of two rows each, 10,000 hours apart: a panel would have a million rows."""
    dates = [date.isoformat() for date in pd.date_range("2024-01-01", periods=2, freq="10000h")]
    rows = {"id": [str(n) for n in range(100)] * 2, "date": [date for date in dates for _ in range(100)]}
    reader = RequestReader(RequestSource(id_column="id", date_column="date", target="y", freq="h"), {"categories": {}})
    request = ForecastRequest.model_validate({"rows": {**rows, "y": [1.0] * 200}})
    with pytest.raises(DataError, match="rows: only 200 rows for 1,000,000 steps of h"):
        reader.read(request, max_rows=1_000)


MIXED = {"date": ["2026-01-01"] * 2, "weather": ["sun", 1]}
LEVELS = b'{"rows": [], "levels": 80}'


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: read_dates("2026-01-01", 20260102), "rows, row 1, column date: 20260102 is not a date"),
        (lambda: read_dates("2026-01-01T00:00", "2026-01-01T00:00Z"), "give all of them an offset from UTC"),
        (lambda: read_dates("2026-02-30"), "rows, row 0, column 'date': '2026-02-30' is not a date"),
        (lambda: read(**MIXED), "rows, row 0, column weather: 'sun' is not a number"),
        (lambda: read_columns("rows", {"Hour": [1]}, ROLES, ReadOptions()), "rows: no column 'date': it has the dates"),
        (lambda: read_request(LEVELS), "levels: Input should be a valid list"),
    ],
)
def test_what_is_refused(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(DataError) as caught:
        call()
    assert says in str(caught.value)
    assert "data." not in str(caught.value)  # settings, which a request does not have


def make_run(folder: Path) -> Path:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "best.ckpt").touch()
    return folder


def test_a_link_gives_its_name_and_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = make_run(tmp_path / "v1"), make_run(tmp_path / "v2")
    link = tmp_path / "solar"
    link.symlink_to(first)
    monkeypatch.chdir(tmp_path)
    found = find_models(["solar"])
    assert found == {"solar": link}
    link.unlink()
    link.symlink_to(second)
    assert found["solar"].resolve() == second
    assert find_models([str(tmp_path)]).keys() == {"solar", "v1", "v2"}


SECRET = CheckpointError("daily rows, and /secret/m/best.ckpt reads hours")
DAMAGED = Unavailable("m/best.ckpt is damaged")
MISSING = NotInstalled("data.holidays=DE", "holidays", "holidays")
INTERNAL = "internal error; the log of the server has the traceback"


@pytest.mark.parametrize(
    ("error", "status", "says", "logs"),
    [
        (SECRET, 422, "daily rows, and m/best.ckpt reads hours", []),
        (DAMAGED, 503, "m is unavailable: m/best.ckpt is damaged", []),
        (MISSING, 503, "m is unavailable: data.holidays=DE: holidays is not installed: ", []),
        (RuntimeError("at /secret/place"), 500, INTERNAL, ["a request to m failed"]),
    ],
)
def test_an_error_is_answered_by_its_kind(
    error: Exception, status: int, says: str, logs: list[str], monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    def fail(served: ServedModel) -> bytes:
        raise error

    monkeypatch.setattr(ServedModel, "describe", fail)
    with caplog.at_level(logging.ERROR):
        found, body, unavailable = ServedModel("m", Path("/secret/m"), use_graph=True).answer("describe")
    assert found == status
    assert json.loads(body)["error"].startswith(says)
    assert bool(unavailable) is (status == 503)
    assert [record.getMessage() for record in caplog.records] == logs
    assert all(record.exc_info and record.exc_info[1] is error for record in caplog.records)
