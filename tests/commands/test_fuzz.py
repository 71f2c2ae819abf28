"""Any bytes and any settings: a table or one line that says why not, and never another exception."""

import gzip
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
from hydra.utils import instantiate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from forecast.cli.compose import compose_command, compose_config
from forecast.cli.errors import is_users_mistake, one_line
from forecast.cli.overrides import list_settings, quote
from forecast.data.files.sources import read_table
from forecast.system.errors import ForecastError
from forecast.training.create_model import create_model
from malformed import files
from tests.support.commands import TINY


def fuzz(examples: int, strategy: st.SearchStrategy) -> Callable[[Callable], Callable]:
    """A test of a property of a folder and an example; a test that hangs is ended by the limit of pytest."""

    def decorate(property: Callable) -> Callable:
        def test(tmp_path: Path) -> None:
            @settings(
                max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
            )
            @given(strategy)
            def run(example) -> None:
                property(tmp_path, example)

            run()

        return test

    return decorate


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


@fuzz(40, st.tuples(st.binary(max_size=400), OPTIONS))
def test_any_bytes(folder: Path, example: tuple[bytes, dict]) -> None:
    content, options = example
    path = folder / "any.csv"
    for head in (b"", b"\x1f\x8b\x08", b"\xff\xfe", b"date,load\n2024-01-01,"):
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


@fuzz(120, st.tuples(mutated(), OPTIONS | st.just({})))
def test_a_table_that_was_damaged(folder: Path, example: tuple[bytes, dict]) -> None:
    content, options = example
    (folder / "damaged.csv").write_bytes(content)
    read_or_refused(folder / "damaged.csv", **options)


PRIVATE = ("_target_", "_partial_", "_convert_")
KEYS = sorted(key for key, _ in list_settings(compose_config("data=csv")) if not key.endswith(PRIVATE))
OTHERS = ["attention", "model", "data", "logger", "cross", "schedule", "trainer", "nowhere", "a.b.c", ""]
HOSTILE = [
    "", "null", "true", "nan", "inf", "-1", "0", "1", "0.5", "1e308", "1000000000000", "9" * 30, "abc", "é",
    "\x1b[31m", "'a\nb'", "[]", "[1]", "[[]]", "{}", "{a: 1}", "${seq_len}", "${nothing}", "???", "*", "~",
    "..", "/dev/zero", "a,b", "range(1,3)", "${" * 50, "[" * 50, "'", '"', "\\", "=", "2024-01-01", "-0", "0x10",
    "1_000", "%", "{0}", "${oc.env:HOME}",
]  # fmt: skip
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


@fuzz(20, st.lists(OVERRIDES, min_size=1, max_size=4))
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
