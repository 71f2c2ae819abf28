"""Any bytes and any settings: a table or one line that says why not, and never another exception.

A few examples by default; `pytest -m long tests/commands/test_fuzz.py` tries thousands.
"""

import csv
import gzip
import io
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import jaxtyping
import numpy as np
import pandas as pd
import pytest
from hydra.utils import instantiate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from forecast.cli.compose import compose_command, compose_config
from forecast.cli.main import is_users_mistake, one_line
from forecast.cli.overrides import list_settings, quote
from forecast.data.files.sources import read_table
from forecast.system.errors import ForecastError
from forecast.training.create_model import create_model
from malformed import files
from tests.support.commands import TINY

SECONDS = 120  # by which an example has hung

Fuzz = Callable[..., Callable]


def fuzz(few: int, many: int, strategy: st.SearchStrategy) -> Fuzz:
    """Two tests of one property: a few examples, and, marked `long`, many."""

    def decorate(property: Callable) -> Callable:
        @pytest.mark.parametrize(
            "examples", [few, pytest.param(many, marks=pytest.mark.long)], ids=["few", "many"]
        )
        def test(examples: int, tmp_path: Path) -> None:
            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]
            )
            @given(strategy)
            def run(example) -> None:
                with within_time():
                    property(tmp_path, example)

            run()

        return test

    return decorate


@contextmanager
def within_time() -> Iterator[None]:
    def hang(*_) -> None:
        raise AssertionError(f"no answer within {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


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


@fuzz(60, 2_000, st.tuples(st.binary(max_size=400), OPTIONS))
def test_any_bytes(folder: Path, example: tuple[bytes, dict]) -> None:
    content, options = example
    path = folder / "any.csv"
    for head in (b"", b"\x1f\x8b\x08", b"PK\x03\x04", b"\xff\xfe", b"date,load\n2024-01-01,"):
        path.write_bytes(head + content)
        read_or_refused(path, **options)
    path.write_bytes(gzip.compress(content))
    read_or_refused(path, **options)


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


@fuzz(150, 5_000, st.tuples(mutated(), OPTIONS | st.just({})))
def test_a_table_that_was_damaged(folder: Path, example: tuple[bytes, dict]) -> None:
    content, options = example
    (folder / "damaged.csv").write_bytes(content)
    read_or_refused(folder / "damaged.csv", **options)


@st.composite
def dialects(draw: st.DrawFn) -> tuple[pd.DataFrame, bytes, dict]:
    """A table, the bytes that a spreadsheet or a program would write it as, and the options that say how."""
    freq = draw(st.sampled_from(["h", "15min", "D", "MS", "W-SUN", "3h"]))
    rows = draw(st.integers(3, 30))
    names = draw(
        st.lists(
            st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=12),
            min_size=1, max_size=4, unique=True,
        ).filter(lambda names: "date" not in names)
    )  # fmt: skip
    start = draw(st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1)))
    dates = pd.date_range(pd.Timestamp(start).floor("D"), periods=rows, freq=freq)
    numbers = st.floats(-1e12, 1e12, allow_subnormal=False) | st.integers(-(10**9), 10**9).map(float)
    values = [[draw(numbers) for _ in names] for _ in range(rows)]
    separator = draw(st.sampled_from(",;\t|"))
    decimal = draw(st.sampled_from([".", ","]))
    thousands = draw(st.sampled_from([None, "'", "\xa0"]))
    pattern = draw(
        st.sampled_from(["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S+00:00", "%Y%m%dT%H%M%S", "%d.%m.%Y %H:%M"])
    )

    def number(value: float) -> str:
        text = repr(value)
        if thousands is not None and "e" not in text and abs(value) >= 1:
            text = f"{int(value):,}".replace(",", thousands) + text[text.index(".") :]
        return text.replace(".", decimal)

    text = io.StringIO()
    writer = csv.writer(
        text,
        delimiter=separator,
        lineterminator=draw(st.sampled_from(["\n", "\r\n", "\r"])),
        quoting=draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
    )
    writer.writerow(["date", *names])
    writer.writerows(
        [[date.strftime(pattern), *map(number, row)] for date, row in zip(dates, values, strict=True)]
    )
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
    content = text.getvalue().encode(encoding)
    if draw(st.booleans()):
        content = gzip.compress(content)
    options = {"separator": separator, "decimal": decimal, "thousands": thousands, "freq": freq}
    if pattern.startswith("%d"):
        options["date_format"] = pattern
    return pd.DataFrame(values, index=dates, columns=names), content, options


@fuzz(40, 2_000, dialects())
def test_a_table_in_any_dialect_is_read_back_exactly(
    folder: Path, example: tuple[pd.DataFrame, bytes, dict]
) -> None:
    frame, content, options = example
    (folder / "dialect.csv").write_bytes(content)
    table = read_table(folder / "dialect.csv", **options)
    assert table.columns == tuple(frame.columns)
    assert table.grid.equals(pd.DatetimeIndex(frame.index))
    np.testing.assert_array_equal(table.values, frame.to_numpy())


PRIVATE = ("_target_", "_partial_", "_convert_")
KEYS = sorted(key for key, _ in list_settings(compose_config("data=csv")) if not key.endswith(PRIVATE))
OTHERS = ["attention", "model", "data", "logger", "cross", "schedule", "trainer", "nowhere", "a.b.c", ""]
HOSTILE = [
    *(
        "",
        "null",
        "true",
        "nan",
        "inf",
        "-1",
        "0",
        "1",
        "0.5",
        "1e308",
        "1000000000000",
        "9" * 30,
        "abc",
        "é",
    ),
    *("\x1b[31m", "'a\nb'", "[]", "[1]", "[[]]", "{}", "{a: 1}", "${seq_len}", "${nothing}", "???", "*", "~"),
    *(
        "..",
        "/dev/zero",
        "a,b",
        "range(1,3)",
        "${" * 50,
        "[" * 50,
        "'",
        '"',
        "\\",
        "=",
        "2024-01-01",
        "-0",
        "0x10",
    ),
    *("1_000", "%", "{0}", "${oc.env:HOME}"),
]
OVERRIDES = st.builds(
    "{}{}={}".format,
    st.sampled_from(["", "", "", "", "+", "++", "~"]),
    st.sampled_from([*KEYS, *OTHERS]) | st.text(max_size=8),
    st.sampled_from(HOSTILE) | st.text(max_size=12),
)


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


@fuzz(30, 500, st.lists(OVERRIDES, min_size=1, max_size=4))
def test_any_settings(folder: Path, example: list[str]) -> None:
    """Through the check of the command line, composing, and the constructors of data and model; nothing is trained."""
    path = folder / "good.csv"
    path.write_bytes(files.GOOD)
    jaxtyping.config.update("jaxtyping_disable", True)  # types are not checked outside the tests either
    try:
        begin(path, example)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def begin(path: Path, example: list[str]) -> None:
    typed = [quote(text, sweep=False) for text in (*TINY, "data=csv", f"data.path={path}", *example)]
    try:
        compose_command("train", typed)
        config = compose_config(*typed)
        OmegaConf.resolve(config)
        data = instantiate(config.data)
        if data.source.path == path:  # files are the other tests' part
            data.setup()
            create_model(
                config.model, n_features=data.n_features, n_targets=data.n_targets, n_time_features=1
            )
    except Exception as error:
        if not is_users_mistake(error):
            raise
        line = one_line(error)
        assert line.isprintable()
        assert len(line) < 5_000
