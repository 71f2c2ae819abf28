"""The lines of a sweep on the terminal: one for each run that ends. Imports no torch."""

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forecast.runs.folder import result_file
from forecast.system.formatting import format_duration, plural


@dataclass
class SweepProgress:
    """Count the runs of a sweep that have ended, and print one line for each.

    Attributes:
        fixed: the keys to which the command gives one value. A run is named by its values of the other keys.
        total: number of runs.
        log: name of the file in a run's folder that has its output.
    """

    fixed: Collection[str]
    total: int
    log: str
    n_ended: int = 0
    n_new: int = 0  # without those that had finished before
    width: int = 0
    started: float = field(default_factory=time.time)

    def begin(self, folder: Path, jobs: Sequence[Sequence[str]]) -> None:
        """Take note of the overrides of the runs that start now. A search starts its runs in several steps."""
        self.total = max(self.total, self.n_ended + len(jobs))
        self.width = max([self.width, *(len(self.name(overrides)) for overrides in jobs)])
        if self.n_ended == 0:
            print(
                f"{plural(self.total, 'run')} in {folder}; the output of each is in its {self.log}",
                flush=True,
            )

    def name(self, overrides: Sequence[str]) -> str:
        """The values that distinguish a run from the others of the sweep."""
        own = [each for each in overrides if each.partition("=")[0] not in self.fixed]
        return " ".join(own) or "run"

    def report(self, name: str, folder: Path | None, failure: str = "") -> None:
        """Print the line of a run that ended: its scores, or why it failed.

        Args:
            name: see `name`.
            folder: its folder; None if it has none.
            failure: the reason, where the folder holds none.
        """
        self.n_ended += 1
        error, found = folder and folder / "error.txt", folder and result_file(folder)
        if error and error.exists():
            failure = error.read_text("utf-8").strip()
        if failure or not found:
            result = f"failed: {failure or 'it ended without results'}"
        elif found.stat().st_mtime < self.started:
            result = f"{_scores(found)}   finished before"
        else:
            self.n_new += 1
            result = f"{_scores(found)}{self._left()}"
        digits = len(str(self.total))
        print(f"[{self.n_ended:>{digits}}/{self.total}] {name:<{self.width}}   {result}", flush=True)

    def _left(self) -> str:
        """The time that the other runs take at the speed so far."""
        left = self.total - self.n_ended
        per_run = (time.time() - self.started) / self.n_new
        return f"   about {format_duration(left * per_run)} left" if left else ""


def _scores(path: Path) -> str:
    """Scores and training time of a run, MSE of a backtest; a benchmark has a table that is too long for a line."""
    results = json.loads(path.read_text("utf-8"))
    scores = results.get("test") or results.get("model")
    if scores is None:
        return f"saved {path.name}"
    shown = ["MSE    –" if scores["mse"] is None else f"MSE {scores['mse']:.4f}"]
    if results.get("skill") is not None:
        shown.append(f"skill {results['skill']:+.3f}")
    if "seconds" in results:
        shown.append(f"{format_duration(results['seconds']):>6}")
    return "   ".join(shown)
