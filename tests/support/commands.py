"""Run commands on a small file with a small model, in a new process or in this process."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from forecast.cli.main import main_with_run_folder, main_without_run_folder
from tests.support.csv_files import write_csv
from tests.support.fork_server import start_python

ROOT = Path(__file__).parents[2]
TINY = (
    "model=informer", "seq_len=12", "label_len=6", "pred_len=5",
    "model.d_model=8", "model.n_heads=2", "model.d_ff=8", "data.batch_size=16",
)  # fmt: skip
"""Overrides of a model that trains in seconds."""
MLP = ("model=mlp", "model.d_hidden=8", "seq_len=12", "label_len=6", "pred_len=5", "data.batch_size=16")
"""Overrides of a model without attention, which trains and is exported in less time."""
WITH_RUN_FOLDER = ("train", "backtest", "benchmark")  # commands that write a run folder
PLAIN = "pictures=false"  # override of a training run: drawing takes as long as training a tiny model does
LOAD = ("data=csv", "data.path=load.csv", "callbacks.progress.refresh_rate=0")
SMALL = (*TINY, *LOAD)


def workplace(folder: Path, rows: int = 300) -> Path:
    write_csv(folder / "load.csv", rows=rows)
    return folder


def start(
    folder: Path, *overrides: str, program: tuple[str, ...] = ("-m", "forecast.train"),
    settings: tuple[str, ...] = SMALL, **environment: str,
):  # fmt: skip
    """Start the training command in `folder`. The process can import the tests of this repository."""
    plain = [PLAIN] if program == ("-m", "forecast.train") else []
    return start_python(
        [*program, *plain, *settings, *overrides], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=500)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def train(folder: Path, *overrides: str, **options) -> subprocess.CompletedProcess[str]:
    return finish(start(folder, *overrides, **options))


def trained(folder: Path, *overrides: str) -> Path:
    """Train for one epoch in `folder`, on a new load.csv there; return the folder of the run."""
    result = train(workplace(folder), "trainer.max_epochs=1", "logger=[]", *overrides)
    assert result.returncode == 0, result.stderr
    return only(folder, "runs/*")


def trained_on_series(folder: Path, frame: pd.DataFrame) -> Path:
    """Train for one epoch in `folder` on many series, with prices and regions; return the folder of the run."""
    frame.to_csv(folder / "sales.csv", index=False)
    settings = (
        *TINY, "data=long", "data.path=sales.csv", "data.future_covariates=[price]", "data.split=[0.5,0.3,0.2]",
        "data.static_covariates=[region]", "logger=[]", "callbacks.progress.refresh_rate=0", "trainer.max_epochs=1",
    )  # fmt: skip
    result = train(folder, settings=settings)
    assert result.returncode == 0, result.stderr
    return only(folder, "runs/*")


def run_training(folder: Path, *overrides: str) -> int | str | None:
    """Run the training command on a small model within this process, which is faster; return the exit status."""
    return run_command("train", folder, PLAIN, *SMALL, *overrides)


def run_command(name: str, folder: Path, *overrides: str) -> int | str | None:
    """Run `python -m forecast.<name>` within this process, in `folder`; return the exit status."""
    run = main_with_run_folder if name in WITH_RUN_FOLDER else main_without_run_folder
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", [name, *overrides])
        patch.setenv("HYDRA_FULL_ERROR", "0")
        try:
            run(name)
        except SystemExit as exit:
            return exit.code
    return 0


def train_here(monkeypatch: pytest.MonkeyPatch, folder: Path, *overrides: str) -> int | str | None:
    """Do as `run_training`, and stay in `folder`."""
    monkeypatch.chdir(folder)
    return run_training(folder, *overrides)


def answer(monkeypatch: pytest.MonkeyPatch, name: str, folder: Path, *overrides: str) -> int | str | None:
    """Do as `run_command`, and stay in `folder`."""
    monkeypatch.chdir(folder)
    return run_command(name, folder, *overrides)


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def wait_for(holds: Callable[[], object]) -> None:
    """Wait until a condition holds; fail after minutes."""
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
