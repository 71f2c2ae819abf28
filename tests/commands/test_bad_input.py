"""A user's mistake: one line on stderr, exit status 2, nothing half-written."""

import gzip
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from forecast.cli.main import one_line
from forecast.data.files.sources import read_table
from forecast.system.errors import ForecastError, TrainingError
from tests.support.commands import TINY, run_command
from tests.support.long_variants import every_nth
from tests.support.malformed import files, settings
from tests.support.malformed.case import Case, advised

QUICK = (*TINY, "data=csv", "logger=[]", "callbacks.progress.refresh_rate=0")

Said = Callable[..., str]
pytestmark = pytest.mark.usefixtures("types_unchecked")


@pytest.fixture
def said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command in `tmp_path`, within this process; give its last line on stderr."""

    def run(program: str, *overrides: str) -> str:
        capsys.readouterr()
        assert run_command(program, tmp_path, *overrides) == 2
        *before, line = capsys.readouterr().err.splitlines()
        assert all(other.startswith("warning: ") for other in before), before
        return line

    return run


def refused(case: Case, folder: Path, said: Said) -> None:
    """A line refuses the case, and nothing is written."""
    path = case.write(folder)
    before = sorted(folder.iterdir())
    settings = (*QUICK, f"data.path={path}") if case.program == "train" else (f"data.path={path}",)
    line = said(case.program, *settings, *case.overrides)
    assert line.isprintable()
    assert sorted(folder.iterdir()) == before
    assert case.is_said(line, path), line


@pytest.mark.parametrize("case", every_nth(files.REFUSED, 12), ids=lambda case: case.what)
def test_a_malformed_file_is_refused_with_its_reason(case: Case, tmp_path: Path, said: Said) -> None:
    refused(case, tmp_path, said)


@pytest.mark.parametrize("case", every_nth(settings.REFUSED, 3), ids=lambda case: case.what[:60])
def test_malformed_settings_are_refused_with_their_reason(case: Case, tmp_path: Path, said: Said) -> None:
    refused(case, tmp_path, said)


@pytest.mark.parametrize(("case", "advice"), every_nth(advised(settings.REFUSED), 3))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_advised_settings_are_obeyed(case: Case, advice: tuple[str, ...], tmp_path, monkeypatch, said: Said) -> None:
    """They give no or another message, where training would begin."""
    monkeypatch.setattr("lightning.Trainer.fit", Mock(side_effect=TrainingError("training begins")))
    line = said("train", *case.typed(tmp_path, advice, QUICK))
    assert not case.is_said(line, tmp_path / case.name), line


def test_a_refused_run_removes_only_folders_that_it_made(tmp_path: Path, said: Said) -> None:
    mine, empty = tmp_path / "mine", tmp_path / "empty"
    mine.mkdir()
    empty.mkdir()
    (mine / "notes.log").write_text("keep")
    for folder in (f"hydra.run.dir={mine}", f"output_root={empty}", f"output_root={tmp_path}/new"):
        assert "nowhere.csv" in said("train", *QUICK, "data.path=nowhere.csv", folder)
    assert (mine / "notes.log").read_text() == "keep"
    assert empty.is_dir()
    assert not any(empty.iterdir())
    assert not (tmp_path / "new").exists()


def test_a_loss_that_is_not_finite(tmp_path: Path, said: Said) -> None:
    dates = pd.date_range("2024-01-01", periods=300, freq="h")
    frame = pd.DataFrame({"date": dates, "load": [1e30 * (-1) ** i for i in range(300)]})
    frame.to_csv(tmp_path / "huge.csv", index=False)
    line = said("train", *QUICK, "trainer.max_epochs=1", "data.path=huge.csv", "data.scaler=none")
    (folder,) = (tmp_path / "runs").iterdir()
    assert not list(folder.rglob("*.ckpt"))
    assert line.removeprefix("error: ") in (folder / "error.txt").read_text()


# ---- any bytes: a table or one line that says why not, and never another exception

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
        "date_format": st.sampled_from(["%d/%m/%Y", "unix", "unix_ms", "excel", "%Y", "%", "%z", "mixed", ""]),
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


@pytest.mark.usefixtures("bounded_memory")
@hypothesis.settings(max_examples=60, **FEW)
@given(content=mutated() | st.binary(max_size=400), options=OPTIONS | st.just({}))
def test_a_table_that_was_damaged(tmp_path: Path, content: bytes, options: dict) -> None:
    path = tmp_path / "damaged.csv"
    for written in (content, b"\x1f\x8b\x08" + content, b"\xff\xfe" + content, gzip.compress(content)):
        path.write_bytes(written)
        read_or_refused(path, **options)


@pytest.fixture(scope="module")
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
