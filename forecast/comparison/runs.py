"""Find run folders and read what a comparison needs of each."""

import glob
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from pyarrow import csv, string
from pyarrow.csv import ConvertOptions, ReadOptions
from pyarrow.parquet import ParquetFile

from forecast.errors import ConfigError
from forecast.sweep import member_number, read_run

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # many times faster where libyaml is there
TABLES = ("metrics.csv", "errors_by_step.csv", "errors_by_variable.csv", "errors_by_window.parquet")
MOST_NESTED = 50  # settings in settings
DEPTH = 2  # a folder of runs and of multiruns


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run: its final metrics, its settings by dotted key, and its tables (see the README)."""

    folder: Path
    source: str  # the file's name
    checkpoint: str | None  # what training went on from
    metrics: dict[str, Any]
    settings: dict[str, Any]
    curves: pd.DataFrame
    steps: pd.DataFrame
    variables: pd.DataFrame
    windows: pd.DataFrame

    @property
    def has_forecasts(self) -> bool:
        """Older runs have none."""
        return (self.folder / "forecasts.parquet").exists()

    @cached_property
    def forecasts(self) -> pd.DataFrame:
        """The pictured windows' forecasts, read when asked for."""
        return read_parquet(self.folder / "forecasts.parquet", words=["variable"])


@dataclass(frozen=True)
class LeftOut:
    """A folder that is not compared, and why."""

    folder: Path
    reason: str


def find(places: Sequence[str]) -> list[Path]:
    """The run folders that paths and globs name: runs, multiruns, folders of both; also what turns out not to be one.

    Files are passed over: a glob of runs also names what lies beside them.

    Raises:
        ConfigError: a path or glob that names nothing.
    """
    found: dict[Path, None] = {}
    for place in places:
        path = Path(place).expanduser()
        matches = [path] if path.exists() else [Path(match) for match in sorted(glob.glob(str(path)))]
        if not matches:
            raise ConfigError(f"{place}: there is no such folder")
        for match in filter(Path.is_dir, matches):
            below = sorted(runs_below(match, DEPTH), key=lambda run: (run.parent, *member_number(run)))
            found |= dict.fromkeys(below or [match])
    return list(found)


def runs_below(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / "config.yaml").exists() or (folder / "metrics.json").exists():
        yield folder
    elif depth and folder.is_dir():
        for child in folder.iterdir():
            yield from runs_below(child, depth - 1)


def read_all(
    folders: Sequence[Path], progress: Callable[[Sequence[Path]], Iterable[Path]] = iter
) -> tuple[list[Run], list[LeftOut]]:
    """The finished runs, and the others with the reason; of a configuration that ran twice, the newer counts."""
    runs: dict[str, Run] = {}
    left_out = []
    for folder in progress(folders):
        run = read(folder)
        if isinstance(run, LeftOut):
            left_out.append(run)
            continue
        naive = f"{run.metrics['baselines']['naive']['mse']:.6g}"
        same = f"{sorted(run.settings.items())} {run.checkpoint} {run.source} {naive}"
        older, newer = sorted([run, runs.get(same, run)], key=lambda r: finished_at(r.folder))
        runs[same] = newer
        if older is not newer:
            left_out.append(LeftOut(older.folder, f"{newer.folder.name} repeats it with the same settings"))
    return list(runs.values()), left_out


def finished_at(folder: Path) -> float:
    return (folder / "metrics.json").stat().st_mtime


def read(folder: Path) -> Run | LeftOut:
    """One run, or why it cannot be compared."""
    try:
        if not (folder / "config.yaml").exists():
            return LeftOut(folder, "not a run folder")
        config = read_settings((folder / "config.yaml").read_text(encoding="utf-8"))
        if "pred_len" not in config or "trainer" not in config:
            return LeftOut(folder, "not a training run")
        if "refit_every" in config:
            return LeftOut(folder, "a backtest, whose windows are not a training run's")
        known = read_run(folder)
        if known.metrics is None:
            why = known.error or ("still running" if known.is_running else "did not finish")
            return LeftOut(folder, without_folders(why, folder))
        if known.metrics["test"]["mse"] is None or not isfinite(known.metrics["test"]["mse"]):
            return LeftOut(folder, "its test MSE is not a number")
        missing = [name for name in TABLES if not (folder / name).exists()]
        if missing:
            return LeftOut(folder, f"{missing[0]} is missing")
        return Run(
            folder,
            Path(str(config["data"].get("path") or config["data"]["name"])).name,
            config.get("checkpoint"),
            known.metrics,
            compared(config),
            curves=read_csv(folder / "metrics.csv"),
            steps=read_csv(folder / "errors_by_step.csv"),
            variables=read_csv(folder / "errors_by_variable.csv"),
            windows=read_parquet(folder / "errors_by_window.parquet"),
        )
    except OSError as error:
        known = error.filename and error.strerror  # pyarrow's errors have a message alone
        why = f"{Path(error.filename).name}: {error.strerror}" if known else str(error)
        return LeftOut(folder, f"cannot be read: {without_folders(' '.join(why.split()), folder)}")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, yaml.YAMLError) as error:
        return LeftOut(folder, f"cannot be read: {without_folders(' '.join(str(error).split()), folder)}")


def read_settings(text: str) -> Any:
    """A configuration as a run wrote it. Raises ValueError for one that refers to its own parts, or nests without end.

    libyaml follows both as far as it goes, out of memory or off the stack.
    """
    if "*" in text or any(text.count(mark) > MOST_NESTED for mark in ("[", "{", "- ", "? ")):
        depth = 0
        for event in yaml.parse(text, LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_NESTED or isinstance(event, yaml.AliasEvent):
                raise ValueError("no run writes such settings")
    return yaml.load(text, LOADER)


def without_folders(text: str, folder: Path) -> str:
    """Without where files lie on this machine: the page may be mailed."""
    for place in (folder.absolute(), folder.resolve()):
        text = text.replace(f"{place}/", "").replace(str(place), place.name)
    return re.sub(r"(?<![\w.:/])/(?:[^\s/]+/)+", "", text)


# As pandas reads them, but several times faster for the small files of many runs.


def read_csv(path: Path) -> pd.DataFrame:
    names = ConvertOptions(column_types={"variable": string()})  # one may be named 1 or NA
    return csv.read_csv(path, ReadOptions(use_threads=False), convert_options=names).to_pandas()


def read_parquet(path: Path, words: Sequence[str] = ()) -> pd.DataFrame:
    """`words`: columns of text that repeats."""
    with ParquetFile(path, read_dictionary=words) as file:
        return file.read(use_threads=False).to_pandas()


NOT_COMPARED = (
    "callbacks.progress", "data.path", "data.root", "data.seed", "hydra", "logger", "output_dir", "output_root",
    "refit", "resume", "run_group", "run_name",
)  # fmt: skip
"""Settings that say where a run is kept and shown, or what comes after its test. The windows tell data sets apart."""


def compared(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that the tested forecasts hang on, by dotted key. One that is null is as if it were not there.

    The paths inside the run's own folder are left out.
    """
    folder = str(config.get("output_dir"))
    # other losses train no quantiles: the levels are then only scored
    passed_over = NOT_COMPARED if config.get("loss") == "quantile" else (*NOT_COMPARED, "levels")
    settings = {}
    for key, value in flat(config):
        if key == "checkpoint" and value is not None:
            value = "another run's"  # each seed goes on from its own
        here = isinstance(value, str) and value.startswith(f"{folder}/")
        dropped = any(key == name or key.startswith(f"{name}.") for name in passed_over)
        if value is not None and not here and not dropped:
            settings[key] = value
    return settings


def flat(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
