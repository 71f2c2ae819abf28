"""Any bytes: a table or one line that says why not, and never another exception."""

import gzip
import resource
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forecast.cli.main import one_line
from forecast.data.files.sources import read_table
from forecast.system.errors import ForecastError
from tests.support.malformed import files

FEW: dict[str, Any] = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


def read_or_refused(path: Path, **options) -> None:
    """Assert that a file is read, without infinite numbers and with rising dates, or refused in one printable line."""
    try:
        with warnings.catch_warnings(action="ignore"):
            table = read_table(path, **options)
    except ForecastError as error:
        line = one_line(error)
        assert line.isprintable()
        assert len(line) < 5_000
        return
    assert not np.isinf(np.asarray(table.values)).any()
    assert table.grid.is_monotonic_increasing
    assert table.grid.is_unique
    assert all(name.isprintable() for name in table.columns)
    assert table.values.shape == (len(table.grid), len(table.columns))


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "date_column": st.sampled_from(["date", "load", ["date", "load"], ["day", "time"], "", []]),
        "date_format": st.sampled_from(
            ["%d/%m/%Y", "unix", "unix_ms", "excel", "%Y", "%", "%z", "mixed", ""]
        ),
        "timezone": st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "UTC", "", "..", "Nowhere"]),
        "separator": st.sampled_from([*',;\t| :\n"é', ""]),
        "decimal": st.sampled_from([".", ",", "", "-"]),
        "thousands": st.sampled_from([None, ".", ",", "'", " ", "\xa0", "5"]),
        "columns": st.sampled_from([None, [], ["load"], ["load", "price"], "load"]),
        "freq": st.sampled_from([None, "h", "D", "MS", "5", "ns", "W-MON", "QS", "0h", "B", "h h", "-1D"]),
    },
)


INSERTED = [
    *(sign.encode() for sign in ",;\t\"'\n\r\0.-+eE:/ \x1b\x85\u2028é€٣"),
    *(b"\xff", b"NaN", b"inf", b"1e999", b"Z", b"+01:00", b'""', b"#"),
]
SEEDS = [
    content for case in files.READ + files.REFUSED
    if isinstance(content := case.content, bytes) and len(content) < 20_000
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A file of the table of malformed ones, or a good one, changed at a few places and perhaps cut off."""
    content = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(content)))
        match draw(st.sampled_from(["flip", "insert", "cut", "repeat", "drop"])):
            case "flip" if at < len(content):
                content[at] ^= 1 << draw(st.integers(0, 7))
            case "insert":
                content[at:at] = draw(st.sampled_from(INSERTED))
            case "cut":
                del content[max(at, 20) :]
            case "repeat":
                content[at:at] = content[max(0, at - 40) : at]
            case "drop":
                del content[at : at + draw(st.integers(1, 40))]
    return bytes(content)


@settings(max_examples=60, **FEW)
@given(content=mutated() | st.binary(max_size=400), options=OPTIONS | st.just({}))
def test_a_table_that_was_damaged(tmp_path: Path, content: bytes, options: dict) -> None:
    path = tmp_path / "damaged.csv"
    for written in (content, b"\x1f\x8b\x08" + content, b"\xff\xfe" + content, gzip.compress(content)):
        path.write_bytes(written)
        read_or_refused(path, **options)


@pytest.fixture(scope="module", autouse=True)
def bounded_memory() -> Iterator[None]:
    """No example may take 4 GiB more than the tests began with: beyond, an allocation fails and so does the test."""
    if sys.platform != "linux":
        yield
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 4 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
