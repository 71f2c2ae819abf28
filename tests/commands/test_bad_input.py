"""A user's mistake: one line on stderr, exit status 2, nothing half-written."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import jaxtyping
import pandas as pd
import pytest
import torch

from forecast.cli.main import main_with_run_folder
from forecast.system.errors import TrainingError
from tests.support.commands import TINY
from tests.support.csv_files import write_csv
from tests.support.long_variants import every_nth
from tests.support.malformed import files, settings
from tests.support.malformed.case import Case, advised
from tests.support.malformed.run import run

QUICK = (*TINY, "data=csv", "logger=[]", "callbacks.progress.refresh_rate=0")
HOURS = [f"2024-01-{1 + h // 24:02d} {h % 24:02d}:00:00" for h in range(300)]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "good.csv"
    write_csv(path, rows=300)
    return path


@pytest.fixture
def fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    """Run `python -m forecast.train` on these overrides and give its one line."""

    def run(*overrides: str) -> str:
        fixed = [*TINY, "logger=[]", "trainer.max_epochs=1", "callbacks.progress.refresh_rate=0"]
        root = (
            [] if any(o.startswith("output_root=") for o in overrides) else [f"output_root={tmp_path}/runs"]
        )
        monkeypatch.setattr(sys, "argv", ["train", *fixed, *root, *overrides])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
        with pytest.raises(SystemExit) as exit:
            main_with_run_folder("train")
        assert exit.value.code == 2
        error = capsys.readouterr().err
        lines = [line for line in error.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, error
        assert "Traceback" not in error
        assert "-m" in overrides or "became" in lines[0] or not (tmp_path / "runs").exists()
        return lines[0]

    return run


def refused(case: Case, folder: Path) -> str:
    """The one line that refuses the case, nothing written; the run is within this process."""
    path = case.write(folder)
    before = sorted(folder.iterdir())
    settings = (*QUICK, f"data.path={path}") if case.program == "train" else (f"data.path={path}",)
    status, errors = run(case.program, folder, *settings, *case.overrides)
    assert status == 2, errors
    (line,) = errors.splitlines()
    assert line.isprintable()
    assert sorted(folder.iterdir()) == before
    return line


@pytest.fixture(autouse=True)
def types_unchecked() -> Iterator[None]:
    """Call constructors with the types that a user gives, as outside of tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("case", every_nth(files.REFUSED, 12), ids=lambda case: case.what)
def test_a_malformed_file_is_refused_with_its_reason(case: Case, tmp_path: Path) -> None:
    line = refused(case, tmp_path)
    assert case.is_said(line, tmp_path / case.name), line


@pytest.mark.parametrize(("case", "advice"), every_nth(advised(settings.REFUSED), 3))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_settings_that_a_message_advises_are_obeyed(
    case: Case, advice: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They give no or another message, where training would begin."""
    monkeypatch.setattr("lightning.Trainer.fit", Mock(side_effect=TrainingError("training begins")))
    _, errors = run("train", tmp_path, *case.typed(tmp_path, advice, QUICK))
    assert not case.is_said(errors.splitlines()[-1], tmp_path / case.name), errors


@pytest.mark.parametrize("case", every_nth(settings.REFUSED, 3), ids=lambda case: case.what[:60])
def test_malformed_settings_are_refused_with_their_reason(case: Case, tmp_path: Path) -> None:
    line = refused(case, tmp_path)
    assert case.is_said(line, tmp_path / case.name), line


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


def test_checkpoints(fails, good: Path, tmp_path: Path) -> None:
    data = ["data=csv", f"data.path={good}"]
    assert "no such checkpoint" in fails(*data, "checkpoint=missing.ckpt")
    assert "no checkpoints/last.ckpt" in fails(*data, f"checkpoint={tmp_path}")
    torch.save({"weights": torch.zeros(3)}, tmp_path / "other.ckpt")
    assert "not written by forecast.train" in fails(*data, f"checkpoint={tmp_path}/other.ckpt")


def test_a_refused_run_removes_only_folders_that_it_made(fails, tmp_path: Path) -> None:
    mine, empty = tmp_path / "mine", tmp_path / "empty"
    mine.mkdir()
    empty.mkdir()
    (mine / "notes.log").write_text("keep")
    for folder in (f"hydra.run.dir={mine}", f"output_root={empty}", f"output_root={tmp_path}/new"):
        fails("data=csv", "data.path=nowhere.csv", folder)
    assert (mine / "notes.log").read_text() == "keep"
    assert empty.is_dir()
    assert not any(empty.iterdir())
    assert not (tmp_path / "new").exists()


def test_a_loss_that_is_not_finite(fails, tmp_path: Path) -> None:
    frame = pd.DataFrame({"date": HOURS, "load": [1e30 * (-1) ** i for i in range(300)]})
    frame.to_csv(tmp_path / "huge.csv", index=False)
    line = fails("data=csv", f"data.path={tmp_path}/huge.csv", "data.scaler=none")
    (folder,) = (tmp_path / "runs").iterdir()
    assert not list(folder.rglob("*.ckpt"))
    assert line.removeprefix("error: ") in (folder / "error.txt").read_text()
