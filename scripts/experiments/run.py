"""Run the missing cells of a table, several at a time, as processes whose costs are measured."""

import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from threading import TIMEOUT_MAX, Lock, Timer
from typing import NamedTuple

from experiments.cells import Cell
from experiments.store import Row, Store

ROOT = Path(__file__).resolve().parents[2]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
CODE = ("forecast", "conf")
CHANGED = "-dirty"
"""Follows a commit with uncommitted changes."""


class CellFailed(Exception):
    """A cell failed; the message is one line."""


class Cost(NamedTuple):
    """Costs of a process and of the children that it waited for: CPU is user and system time."""

    cpu_seconds: float
    peak_mib: float
    seconds: float


@dataclass
class Context:
    """What the cells of a command share."""

    root: Path  # folder of the data files
    threads: int  # of each process
    scratch: Path  # folder of unfinished runs
    run: str = ""  # run folder that the table `serve` serves
    ends: float = math.inf  # when the time is up, by time.monotonic()
    _running: set[subprocess.Popen[str]] = field(default_factory=set)
    _stopped: bool = False
    _lock: Lock = field(default_factory=Lock)

    def choose_folder(self, cell: Cell, commit: str) -> Path:
        """The folder of an unfinished cell of this code; emptied if the code may have changed since."""
        folder = self.scratch / "_".join([cell.table, *cell.name.split("/"), commit])
        if commit.endswith(CHANGED) and folder.exists():
            shutil.rmtree(folder)
        return folder

    def python(self, *arguments: str) -> Cost:
        """Run `python arguments` and return its cost. Raises CellFailed if it fails, is stopped, or the time is up."""
        paths = [str(ROOT / "scripts"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        env = os.environ | dict.fromkeys(THREADS, str(self.threads)) | {"PYTHONPATH": os.pathsep.join(paths)}
        with self._lock:
            if self._stopped or time.monotonic() > self.ends:
                raise CellFailed("no time left" if time.monotonic() > self.ends else "stopped")
            process = subprocess.Popen(
                [sys.executable, *arguments], cwd=ROOT, env=env, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            self._running.add(process)
        began = time.monotonic()
        limit = Timer(min(self.ends - began, TIMEOUT_MAX), process.kill)
        limit.start()
        assert process.stderr is not None
        said = process.stderr.read().strip().splitlines()
        _, waited, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(waited)  # wait4 has taken it
        limit.cancel()
        with self._lock:
            self._running.discard(process)
        if process.returncode:
            reason = said[-1].strip().removeprefix("error: ") if said else "it said nothing"
            raise CellFailed(f"status {process.returncode}: {reason}")
        return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, time.monotonic() - began)

    def stop(self) -> None:
        """Stop all processes, which save their states, and start no others."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.terminate()


def run_missing(
    cells: Sequence[Cell],
    store: Store,
    run: Callable[[Cell, Context], Row],
    context: Context,
    machine: dict,
    jobs: int,
    again: bool = False,
) -> int:
    """Run the missing cells; return how many failed. A finished cell is saved at once; a failed one stays missing."""
    missing = [cell for cell in cells if again or store.row(cell) is None]
    print(f"{len(cells)} cells of {store.path.stem}, {len(cells) - len(missing)} finished before", flush=True)
    failed = 0

    def run_one(cell: Cell) -> Row:
        row = run(cell, context)
        store.add(cell, row, machine)
        return row

    with ThreadPoolExecutor(jobs) as pool:
        try:
            futures = {pool.submit(run_one, cell): cell for cell in missing}
            for number, future in enumerate(as_completed(futures), 1):
                try:
                    mse = future.result().get("mse")
                    said = "done" if mse is None else f"MSE {mse:.4f}"
                except CellFailed as error:
                    failed += 1
                    said = f"failed: {error}"
                print(f"cell {number} of {len(missing)}: {futures[future].name}: {said}", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            context.stop()
            raise
    return failed


def describe_commit() -> str:
    """Return the last commit that changed the code of a run, marked if there are uncommitted changes; `unknown` outside
    a git repository."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments, "--", *CODE]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()

    try:
        commit, changed = git("log", "-1", "--format=%h"), git("status", "--porcelain")
    except (FileNotFoundError, subprocess.CalledProcessError):
        return f"unknown{CHANGED}"
    return f"{commit}{CHANGED}" if changed else commit
