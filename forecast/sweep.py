"""What a multirun ends with: one row a configuration, mean ± deviation over seeds, and the members that failed.

Imports no torch: `forecast.cli` loads it before every command.
"""

import json
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from forecast import resume, sweep_resume
from forecast.paths import CONF

SUMMARISED = {"mse": 3, "mae": 3, "skill": 3, "seconds": 1, "windows_per_second": 0, "peak_memory_mb": 0}
"""Scores in the summary, and the decimal places that the screen shows of them."""


def prefer_own_launchers() -> None:
    """Forget the schemas of other plugins' launchers that have a name of ours: ours do not fit them."""
    Plugins.instance()  # has entered them
    known: dict[str, Any] = ConfigStore.instance().repo["hydra"]["launcher"]
    for path in (CONF / "hydra" / "launcher").glob("*.yaml"):
        known.pop(path.name, None)


_folders: list[Path] = []
_held = ExitStack()


class RememberFolder(Callback):
    """Hydra tells the sweep's folder only when it starts, and ends without a word where a member failed.

    The folder is held while the sweep runs, unless another command's sweep, which was given the same one, holds it.
    """

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)  # Optuna writes its study there before anyone makes it
        with suppress(resume.InUse):
            _held.enter_context(resume.held(folder))
        sweep_resume.note_command(folder, config)
        _folders.append(folder)


@dataclass(frozen=True)
class Run:
    """A sweep member: what was set for it on the command line, and its final metrics, or why there are none."""

    folder: Path
    settings: dict[str, str]
    metrics: dict[str, Any] | None
    error: str | None
    is_running: bool = False  # by another process

    @property
    def is_done(self) -> bool:
        """Tested, and refitted where that was asked for: what comes after the scores can fail too."""
        return self.metrics is not None and self.error is None


def read_run(folder: Path) -> Run:
    settings = {}
    if (folder / "overrides.yaml").exists():
        for override in OmegaConf.load(folder / "overrides.yaml"):
            key, _, value = str(override).partition("=")
            settings[key.lstrip("+~")] = value.strip("'\"")
    metrics, error = folder / "metrics.json", folder / "error.txt"
    scores = json.loads(metrics.read_text()) if metrics.exists() else None
    if error.exists():
        return Run(folder, settings, scores, error.read_text().strip())
    return Run(folder, settings, scores, None, is_running=scores is None and resume.is_running(folder))


def differing(runs: list[Run]) -> list[str]:
    """The settings that tell the runs apart, the seed left out and where they are kept."""
    apart = {"seed", *resume.NOT_COMPARED}
    keys = dict.fromkeys(key for run in runs for key in run.settings if key.split(".")[0] not in apart)
    return [key for key in keys if len({run.settings.get(key) for run in runs}) > 1]


def headings(keys: list[str]) -> dict[str, str]:
    """A short name for each setting: its last part, or all of it where two would share that."""
    last = [key.rsplit(".", 1)[-1] for key in keys]
    taken = {name for name in last if last.count(name) > 1} | {"seeds", *SUMMARISED}
    return {key: key if name in taken else name for key, name in zip(keys, last, strict=True)}


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """One row a configuration: what is set in it, its seeds, then each summarised score and its deviation over seeds.

    `best` marks the rows with the lowest test MSE of their task: data, features, horizon, and one scale and test
    split, by which the last value repeated errs alike.
    """
    names = headings(differing(runs) or ["attention"])
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for run in runs:
        if run.metrics is not None:
            chosen = tuple(run.settings.get(key, run.metrics.get(key, "")) for key in names)
            path = run.settings.get("data.path")
            scores = {**run.metrics, **run.metrics["test"], "path": path}
            scores["naive"] = f"{run.metrics['baselines']['naive']['mse']:.5g}"
            groups.setdefault(chosen, []).append(scores)
    rows, tasks = [], []
    for chosen, found in groups.items():
        members = list(
            {scores["seed"]: scores for scores in found}.values()
        )  # a seed typed twice counts once
        row: dict[str, Any] = dict(zip(names.values(), chosen, strict=True))
        row["seeds"] = len(members)
        for score in SUMMARISED:
            row[score], row[f"{score}_dev"] = mean_and_deviation([metrics.get(score) for metrics in members])
        rows.append(row)
        tasks.append(tuple(members[0][key] for key in ("data", "path", "features", "pred_len", "naive")))
    for row, task in zip(rows, tasks, strict=True):
        row["best"] = row["mse"] == min(r["mse"] for r, t in zip(rows, tasks, strict=True) if t == task)
    return rows


def maps_alone(metrics: Sequence[dict[str, Any]]) -> str:
    """A sentence on the runs that were tested as their linear map alone, whose attention says nothing; empty: none."""
    alone = sum(run.get("best_epoch") == 0 for run in metrics)
    kept = "The run" if len(metrics) == 1 else f"{alone} of {len(metrics)} runs"
    why = "no epoch was better on validation windows, and attention has no part in the scores"
    return f"{kept} kept the linear map alone: {why}." if alone else ""


def mean_and_deviation(values: Sequence[float | None]) -> tuple[float, float]:
    """Mean and sample standard deviation, NaN where they have no value; None, JSON's NaN, counts as NaN."""
    numbers = [float("nan") if value is None else value for value in values]
    mean = sum(numbers) / len(numbers)
    if len(numbers) == 1:
        return mean, float("nan")
    return mean, (sum((n - mean) ** 2 for n in numbers) / (len(numbers) - 1)) ** 0.5


def print_summary(*, alone: bool = True) -> int:
    """Print and save the summary of the sweep that this process ran, if it ran one; how many members failed.

    A member that another process is running counts as failed, unless this sweep is not `alone` in its folder.
    """
    failed = 0
    for folder in _folders:
        members = {path.parent for path in folder.glob("*/overrides.yaml")}
        runs = [read_run(member) for member in sorted(members, key=member_number)]
        if runs:
            write_summary(folder, runs)
        failed += sum(not run.is_done and (alone or not run.is_running) for run in runs)
    _folders.clear()
    _held.close()
    return failed


def member_number(folder: Path) -> tuple[int, str]:
    number = folder.name.split("_")[0]
    return (int(number) if number.isdigit() else -1, folder.name)


def write_summary(folder: Path, runs: list[Run]) -> None:
    rows = summarise(runs)
    if rows:
        show(rows, sum(run.metrics is not None for run in runs))
        if alone := maps_alone([run.metrics for run in runs if run.metrics is not None]):
            print(alone)
        save(rows, folder / "summary.csv")
        print(f"saved {folder / 'summary.csv'}")
    for run in runs:
        if run.is_running:
            print(f"still running, by another process: {run.folder.name}")
        elif not run.is_done:
            print(f"failed: {run.folder.name}: {run.error or 'stopped before its end'}")
    found = folder / "optimization_results.yaml"  # Optuna's
    if found.exists():
        best = OmegaConf.to_container(OmegaConf.load(found))
        assert isinstance(best, dict)
        settings = " ".join(f"{key}={value}" for key, value in best["best_params"].items())
        print(f"best validation MSE {best['best_value']:.4f}: {settings}")


def show(rows: list[dict[str, Any]], n_runs: int) -> None:
    """The table on the screen, the best row of each task in bold."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{n_runs} runs, test scores, mean ± deviation over seeds")
    hidden = {"best", *(f"{score}_dev" for score in SUMMARISED)}
    for name in rows[0]:
        if name not in hidden:
            table.add_column(name, justify="right" if name in {"seeds", *SUMMARISED} else "left")
    for row in rows:
        cells = []
        for name, value in row.items():
            if name in SUMMARISED:
                digits, deviation = SUMMARISED[name], row[f"{name}_dev"]
                known = deviation == deviation  # not NaN
                cells.append(f"{value:.{digits}f}" + (f" ± {deviation:.{digits}f}" if known else ""))
            elif name not in hidden:
                cells.append(shortened(str(value)))
        table.add_row(*cells, style="bold" if row["best"] else None)
    console = Console(markup=False)
    if not console.is_terminal:
        console.width = 200  # in a file, rows must not be folded
    console.print(table)


def shortened(value: str) -> str:
    """A drawn number has 17 digits; four will do on the screen."""
    try:
        return value if len(value) < 8 else f"{float(value):.4g}"
    except ValueError:
        return value


def save(rows: list[dict[str, Any]], path: Path) -> None:
    import pandas as pd

    from forecast.files import whole_file

    with whole_file(path) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)
