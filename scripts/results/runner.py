"""Run one cell: `python -m forecast.train` in a new process and a new run folder, whose scores are returned.

A stopped cell is resumed from its last state if the code has not changed.
"""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from forecast.cli.quoting import quote_value
from forecast.evaluation.forecaster_names import BASELINES
from forecast.runs.folder import InUse, locked
from results.cells import Cell
from results.published_scale import published_errors
from results.settings import ROOT
from results.store import Row

FACTS = (
    "validation_mse",
    "seconds",
    "peak_memory_mb",
    "ms_per_window",
    "n_parameters",
    "epochs",
    "best_epoch",
    "shrinkage_weight",
    "precision",
)
CODE = ("forecast", "conf")
UNKNOWN, CHANGED = "unknown", "-dirty"  # replaces a commit; follows a commit
PATIENCE = 60  # seconds that a stopped run has to finish a step and save its state


class CellFailed(Exception):
    """A run failed; the message is the last line that it printed."""


@dataclass
class Runner:
    root: Path  # the data folder
    threads: int  # of each run
    runs: Path  # folder of the unfinished cells
    _running: set[subprocess.Popen[str]] = field(default_factory=set)
    _stopped: bool = False
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, cell: Cell) -> Row:
        """Run a cell and return its scores, its costs and the commit. Raises CellFailed."""
        commit = described_commit()
        folder = self.runs / "_".join([cell.table, *cell.name.split("/"), commit])
        try:
            with locked(folder):
                return self._row(cell, commit, folder)
        except InUse:
            raise CellFailed("another command runs it") from None

    def _row(self, cell: Cell, commit: str, folder: Path) -> Row:
        if commit == UNKNOWN or commit.endswith(
            CHANGED
        ):  # the code may have changed since the run was started
            for begun in folder.glob("*/"):
                shutil.rmtree(begun)
        own = [
            "logger=[]",
            "callbacks.progress=null",
            f"output_root={quote_value(str(folder))}",
            "resume=auto",
        ]
        self._run([sys.executable, "-m", "forecast.train", *cell.typed(self.root), *own])
        (path,) = folder.glob("*/metrics.json")
        row = {**scores(path.parent), "commit": commit}
        if cell.data == "weather":
            row |= published_errors(path.parent, self.root / "weather.csv")
        shutil.rmtree(folder)
        return row

    def _run(self, command: list[str]) -> None:
        paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        with self._lock:
            if self._stopped:
                raise CellFailed("stopped")
            process = subprocess.Popen(
                command, cwd=ROOT, text=True, start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": str(self.threads)},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            self._running.add(process)
        try:
            said = process.communicate()[1].strip().splitlines()
        finally:
            with self._lock:
                self._running.remove(process)
        if process.returncode:
            reason = said[-1].strip().removeprefix("error: ") if said else "it said nothing"
            raise CellFailed(f"status {process.returncode}: {reason}")

    def stop(self) -> None:
        """Stop all runs after they have saved their states, and start no others."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            process.terminate()
        ends = time.monotonic() + PATIENCE
        for process in running:
            try:
                process.wait(max(0, ends - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with its child processes


def described_commit() -> str:
    """Return the last commit that changed the code of a run, marked if there are uncommitted changes; `unknown` outside
    a git repository."""
    try:
        commit = git("log", "-1", "--format=%h", "--", *CODE)
        changed = git("status", "--porcelain", "--", *CODE)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return UNKNOWN
    return f"{commit}{CHANGED}" if changed else commit


def git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def scores(folder: Path) -> Row:
    """Return the test and validation errors of a run on scaled values, and its costs.

    Raises:
        CellFailed: the test error is not finite.
    """
    metrics: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    if metrics["test"]["mse"] is None:
        raise CellFailed("the test MSE is not a number")
    with (folder / "metrics.csv").open(newline="") as file:
        epochs = [float(row["val/mse"]) for row in csv.DictReader(file) if row["val/mse"]]
    return {
        "mse": metrics["test"]["mse"],
        "mae": metrics["test"]["mae"],
        "rmse_raw": metrics["test"]["rmse_raw"],
        **{
            f"{name}_{score}": metrics["baselines"][name][score]
            for name in BASELINES
            for score in ("mse", "rmse_raw")
        },
        "test_windows": metrics["n_windows"]["test"],
        **{key: metrics[key] for key in FACTS},
        "validation_mse_by_epoch": epochs,
    }
