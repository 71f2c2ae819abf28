"""Run folders: how to find them, what a comparison reads from each, and whether their times can be compared."""

import glob
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from math import ceil, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml
from pyarrow import csv, string
from pyarrow.csv import ConvertOptions, ReadOptions
from pyarrow.parquet import ParquetFile

from forecast.evaluation.scores import BASELINES
from forecast.runs.sweep import COMMAND, job_number, read_run
from forecast.system.errors import ConfigError, user_path
from forecast.system.formatting import quote_for_shell
from forecast.system.keys import variant_settings
from forecast.system.progress import track

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, if installed, is many times faster
MAX_NESTING = 50  # levels of nested settings


def parse_settings(text: str) -> Any:
    """Parse a configuration file of a run.

    Aliases, and nesting more than MAX_NESTING levels deep, raise a ValueError before loading: libyaml expands aliases
    until memory is full, and follows nesting until the stack overflows.
    """
    if "*" in text or any(text.count(mark) > MAX_NESTING for mark in ("[", "{", "- ", "? ")):
        depth = 0
        for event in yaml.parse(text, LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_NESTING or isinstance(event, yaml.AliasEvent):
                raise ValueError("config.yaml has YAML aliases or is nested too deep, so no run wrote it")
    return yaml.load(text, LOADER)


TABLES = (
    "metrics.csv", "errors_by_step.csv", "errors_by_variable.csv", "errors_by_window.parquet", "forecasts.parquet",
)  # fmt: skip

DEPTH = 2  # levels searched for runs: a folder of runs and of sweeps


def naive_fingerprint(metrics: dict[str, Any]) -> str:
    """Return the MSE of the naive baseline to five digits. It depends on the scales and on the test rows."""
    return f"{metrics['baselines']['naive']['mse']:.5g}"


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A training run with its test scores."""

    folder: Path
    source: str  # name of the data file
    metrics: dict[str, Any]  # content of metrics.json
    settings: dict[str, Any]  # those that affect the tested forecasts, by dotted key
    curves: pd.DataFrame  # metrics.csv
    steps: pd.DataFrame  # errors_by_step.csv
    variables: pd.DataFrame  # errors_by_variable.csv
    windows: pd.DataFrame  # errors_by_window.parquet
    disturbed: frozenset[str] = frozenset()  # costs that were measured while another of the compared runs ran
    command: str = ""  # that trained it, or its sweep; empty if it is not known

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the tested series, in order; empty for a table, which has none."""
        return list(map(str, self.windows["unique_id"].unique())) if "unique_id" in self.windows else []

    @property
    def test_hash(self) -> str:
        """A hash of the dates, series and variables of the test, and of the naive baseline's MSE to five digits."""
        columns = self.windows["forecast_start"], self.ids, self.variables["variable"]
        text = repr([*(list(map(str, each)) for each in columns), naive_fingerprint(self.metrics)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def overlap(self) -> int:
        """Number of consecutive forecast starts whose test windows share a step."""
        # windows of several series may start one step apart, whatever the stride
        stride = 1 if len(self.ids) > 1 else int(self.metrics.get("eval_stride") or 1)
        return ceil(int(self.metrics["pred_len"]) / stride)

    @cached_property
    def forecasts(self) -> pd.DataFrame:
        """Forecasts of a few test windows, read on first use."""
        return read_parquet(self.folder / "forecasts.parquet", dictionary_columns=["variable"])


class ExcludedRun(NamedTuple):
    """A folder that is not compared, and the reason."""

    folder: Path
    reason: str


class NotComparable(Exception):
    """The reason why a folder cannot be compared."""


def find_run_folders(places: Sequence[str]) -> list[Path]:
    """Return the run folders in the given places, without duplicates.

    A place is a run folder, a sweep folder, a folder that contains either, or a glob, whose files are ignored. A folder
    without runs is returned itself, so that `read_runs` reports it as excluded. Raises ConfigError if a place matches
    nothing.
    """
    found: dict[Path, None] = {}
    for place in places:
        path = user_path(place)
        matches = [path] if path.exists() else [Path(match) for match in sorted(glob.glob(str(path)))]
        if not matches:
            raise ConfigError(f"{place}: no such folder; give run folders, sweep folders or globs such as 'runs/*'")
        for match in filter(Path.is_dir, matches):
            below = sorted(walk_run_folders(match, DEPTH), key=lambda run: (run.parent, *job_number(run)))
            found |= dict.fromkeys(below or [match])
    return list(found)


def walk_run_folders(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the run folders in `folder`, at most `depth` levels below it."""
    if (folder / "config.yaml").exists() or (folder / "metrics.json").exists():
        yield folder
    elif depth and folder.is_dir():
        for child in folder.iterdir():
            yield from walk_run_folders(child, depth - 1)


def read_runs(folders: Sequence[Path]) -> tuple[list[FinishedRun], list[ExcludedRun]]:
    """Read the finished runs, and collect the other folders with the reason for their exclusion.

    Of runs of one variant with the same seed, from whatever checkpoint, only the newest is compared: their errors are
    not independent.
    """
    runs: dict[str, FinishedRun] = {}
    excluded = []
    for folder in track(folders, "reading runs"):
        run = read_run_folder(folder)
        if isinstance(run, ExcludedRun):
            excluded.append(run)
            continue
        identity = f"{sorted(run.settings.items())} {run.source} {naive_fingerprint(run.metrics)}"
        pair = [run, runs.get(identity, run)]
        older, newer = sorted(pair, key=lambda one: (one.folder / "metrics.json").stat().st_mtime)
        runs[identity] = newer
        if older is not newer:
            reason = f"same settings and seed as the newer run {newer.folder.name}"
            excluded.append(ExcludedRun(older.folder, reason))
    return list(runs.values()), excluded


def read_run_folder(folder: Path) -> FinishedRun | ExcludedRun:
    try:
        return read_finished_run(folder)
    except NotComparable as error:
        return ExcludedRun(folder, remove_folders(str(error), folder))
    except OSError as error:
        has_parts = error.filename and error.strerror  # pyarrow sets neither
        reason = f"{Path(error.filename).name}: {error.strerror}" if has_parts else str(error)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, yaml.YAMLError) as error:
        reason = str(error)
    return ExcludedRun(folder, f"cannot be read: {remove_folders(' '.join(reason.split()), folder)}")


def read_finished_run(folder: Path) -> FinishedRun:
    """Read the metrics, settings and tables of a training run. Raises NotComparable if it is none, or not finished."""
    if not (folder / "config.yaml").exists():
        raise NotComparable("not a run folder")
    config = parse_settings((folder / "config.yaml").read_text(encoding="utf-8"))
    if "pred_len" not in config or "trainer" not in config:
        raise NotComparable("not a training run")
    if "refit_every" in config:
        raise NotComparable("a backtest, which has other test windows than a training run")
    state = read_run(folder)
    if state.metrics is None:
        raise NotComparable(state.error or ("still running" if state.is_running else "did not finish"))
    if state.metrics["test"]["mse"] is None or not isfinite(state.metrics["test"]["mse"]):
        raise NotComparable("its test MSE is not a number")
    if lacking := [name for name in BASELINES if name not in state.metrics.get("baselines", {})]:
        raise NotComparable(f"metrics.json has no scores of the baseline {lacking[0]}")
    if missing := [name for name in TABLES if not (folder / name).exists()]:
        raise NotComparable(f"{missing[0]} is missing")
    return FinishedRun(
        folder,
        Path(str(config["data"].get("path") or config["data"]["name"])).name,
        state.metrics,
        variant_settings(config),
        curves=read_csv(folder / "metrics.csv"),
        steps=read_csv(folder / "errors_by_step.csv"),
        variables=read_csv(folder / "errors_by_variable.csv"),
        windows=read_parquet(folder / "errors_by_window.parquet"),
        command=read_command(folder),
    )


def read_command(folder: Path) -> str:
    """Return the command of a run, or of its sweep, without the names of folders; empty if it is not known."""
    swept = (folder.parent / COMMAND).exists()
    path = folder.parent / COMMAND if swept else folder / "overrides.yaml"
    if not path.exists():
        return ""
    typed = [remove_folders(str(each), folder) for each in parse_settings(path.read_text(encoding="utf-8"))]
    shown = [quote_for_shell(each) for each in typed if each != "hydra.mode=MULTIRUN"]
    return " ".join(["forecast train", *["-m"] * swept, *shown])


def remove_folders(text: str, folder: Path) -> str:
    """Remove absolute folder names from a message, because the page may be sent to others."""
    for place in (folder.absolute(), folder.resolve()):
        text = text.replace(f"{place}/", "").replace(str(place), place.name)
    return re.sub(r"(?<![\w.:/])/(?:[^\s/]+/)+", "", text)


# pyarrow reads the small files of many runs several times faster than pandas.


def read_csv(path: Path) -> pd.DataFrame:
    text_column = ConvertOptions(column_types={"variable": string()})  # a variable may be named 1 or NA
    return csv.read_csv(path, ReadOptions(use_threads=False), convert_options=text_column).to_pandas()


def read_parquet(path: Path, dictionary_columns: Sequence[str] = ()) -> pd.DataFrame:
    """Read a Parquet file. `dictionary_columns` are text columns with repeated values."""
    with ParquetFile(path, read_dictionary=dictionary_columns) as file:
        return file.read(use_threads=False).to_pandas()


ROUNDING = 1.0  # seconds by which two runs may overlap, because metrics.json holds whole seconds
TIMES = frozenset({"ms_per_window", "seconds", "windows_per_second"})  # other processes change them


def mark_overlapping_runs(runs: Iterable[FinishedRun]) -> list[FinishedRun]:
    """Return the runs; for those that overlapped in time with another one, no time can be compared.

    Of a run that was resumed, only the time since then is known to be undisturbed, so its times of training cannot be
    compared.
    """
    runs = list(runs)
    overlapping, latest = set(), ("", float("-inf"))
    for start, end, folder in sorted(find_period(run) for run in runs if "finished" in run.metrics):
        if latest[1] - start > ROUNDING:
            overlapping |= {latest[0], folder}
        latest = max(latest, (folder, end), key=lambda period: period[1])
    marked = []
    for run in runs:
        disturbed = TIMES - {"ms_per_window"} if run.metrics.get("seconds_before_resume") else run.disturbed
        marked.append(replace(run, disturbed=TIMES if str(run.folder) in overlapping else disturbed))
    return marked


def find_period(run: FinishedRun) -> tuple[float, float, str]:
    """Return the start and the end of a run's last process in seconds since the epoch, and its folder."""
    end = datetime.fromisoformat(run.metrics["finished"]).timestamp()
    seconds = float(run.metrics["seconds"]) - float(run.metrics.get("seconds_before_resume", 0))
    return end - seconds, end, str(run.folder)
