"""A user's mistake: one line on stderr, exit status 2, nothing half-written."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import jaxtyping
import pandas as pd
import pytest

from forecast.system.errors import TrainingError
from tests.support.commands import TINY, run_command
from tests.support.long_variants import every_nth
from tests.support.malformed import files, settings
from tests.support.malformed.case import Case, advised

QUICK = (*TINY, "data=csv", "logger=[]", "callbacks.progress.refresh_rate=0")


Said = Callable[..., str]


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


@pytest.fixture(autouse=True)
def types_unchecked() -> Iterator[None]:
    """Call constructors with the types that a user gives, as outside of tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("case", every_nth(files.REFUSED, 12), ids=lambda case: case.what)
def test_a_malformed_file_is_refused_with_its_reason(case: Case, tmp_path: Path, said: Said) -> None:
    refused(case, tmp_path, said)


@pytest.mark.parametrize("case", every_nth(settings.REFUSED, 3), ids=lambda case: case.what[:60])
def test_malformed_settings_are_refused_with_their_reason(case: Case, tmp_path: Path, said: Said) -> None:
    refused(case, tmp_path, said)


@pytest.mark.parametrize(("case", "advice"), every_nth(advised(settings.REFUSED), 3))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_settings_that_a_message_advises_are_obeyed(
    case: Case, advice: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    """They give no or another message, where training would begin."""
    monkeypatch.setattr("lightning.Trainer.fit", Mock(side_effect=TrainingError("training begins")))
    line = said("train", *case.typed(tmp_path, advice, QUICK))
    assert not case.is_said(line, tmp_path / case.name), line


BOMBS = [
    case for case in files.REFUSED if "bomb" in case.what or "sparse" in case.what or "million" in case.what
]


@pytest.mark.long
@pytest.mark.parametrize("case", BOMBS, ids=lambda case: case.what)
def test_a_bomb_takes_no_memory(case: Case, tmp_path: Path) -> None:
    """Peaks of real processes: of the bomb's, and of one that is given an empty file."""
    (tmp_path / "empty.csv").touch()
    quiet = peak_of_check(tmp_path / "empty.csv")
    assert peak_of_check(case.write(tmp_path)) < quiet + 300


def peak_of_check(path: Path) -> float:
    """Run `python -m forecast.check` on a file that it refuses: its peak memory in MiB."""
    command = [sys.executable, "-m", "forecast.check", f"data.path={path}"]  # a forked process shares memory
    process = subprocess.Popen(command, cwd=path.parent, stderr=subprocess.PIPE, text=True)
    _, status, usage = os.wait4(process.pid, 0)
    assert process.stderr is not None
    assert os.waitstatus_to_exitcode(status) == 2, process.stderr.read()
    return usage.ru_maxrss / 1024


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
