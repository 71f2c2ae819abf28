"""The lines of a sweep on the terminal: one for each run that ends. Imports no torch."""

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forecast.system.formatting import format_duration, plural


@dataclass
class SweepProgress:
    """Count the runs of a sweep that have ended, and print one line for each.

    Attributes:
        fixed: the keys to which the command gives one value. A run is named by its values of the other keys.
        total: number of runs.
    """

    fixed: Collection[str]
    total: int
    n_ended: int = 0
    n_trained: int = 0
    width: int = 0
    started: float = field(default_factory=time.time)

    def begin(self, folder: Path, jobs: Sequence[Sequence[str]]) -> None:
        """Take note of the overrides of the runs that start now. A search starts its runs in several steps."""
        self.total = max(self.total, self.n_ended + len(jobs))
        self.width = max([self.width, *(len(self.name(overrides)) for overrides in jobs)])
        if self.n_ended == 0:
            print(
                f"{plural(self.total, 'run')} in {folder}; the output of each is in its train.log", flush=True
            )

    def name(self, overrides: Sequence[str]) -> str:
        """The values that distinguish a run from the others of the sweep."""
        own = [each for each in overrides if each.partition("=")[0] not in self.fixed]
        return " ".join(own) or "run"

    def report(self, name: str, folder: Path | None, failure: str = "") -> None:
        """Print the line of a run that ended: its test scores, or why it failed.

        Args:
            name: see `name`.
            folder: its folder; None if it has none.
            failure: the reason, where the folder holds none.
        """
        self.n_ended += 1
        error, metrics = folder and folder / "error.txt", folder and folder / "metrics.json"
        if error and error.exists():
            failure = error.read_text("utf-8").strip()
        if failure or not metrics or not metrics.exists():
            result = f"failed: {failure or 'it ended without scores'}"
        elif metrics.stat().st_mtime < self.started:
            result = f"{_scores(metrics)}   finished before"
        else:
            self.n_trained += 1
            result = f"{_scores(metrics)}{self._left()}"
        digits = len(str(self.total))
        print(f"[{self.n_ended:>{digits}}/{self.total}] {name:<{self.width}}   {result}", flush=True)

    def _left(self) -> str:
        """The time that the other runs take at the speed so far."""
        left = self.total - self.n_ended
        per_run = (time.time() - self.started) / self.n_trained
        return f"   about {format_duration(left * per_run)} left" if left else ""


def _scores(path: Path) -> str:
    """Test scores and training time in `metrics.json`."""
    metrics = json.loads(path.read_text("utf-8"))
    mse, skill = metrics["test"]["mse"], metrics["skill"]
    shown = ["MSE    –" if mse is None else f"MSE {mse:.4f}", "" if skill is None else f"skill {skill:+.3f}"]
    return "   ".join(filter(None, [*shown, f"{format_duration(metrics['seconds']):>6}"]))
