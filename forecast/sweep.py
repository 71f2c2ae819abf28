"""What a multirun ends with: one row a configuration, mean ± deviation over seeds, and the members that failed.

Imports no torch: `forecast.cli` loads it before every command.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

SUMMARISED = ("mse", "mae", "skill", "seconds", "windows_per_second")
NOT_SETTINGS = ("seed", "run_name", "run_group", "output_dir", "output_root", "resume", "checkpoint")

_folders: list[Path] = []


class RememberFolder(Callback):
    """Hydra tells the sweep's folder only when it starts, and ends without a word where a member failed."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        _folders.append(Path(config.hydra.sweep.dir))


@dataclass(frozen=True)
class Run:
    """A run folder: its flattened configuration and its final metrics, or why there are none."""

    folder: Path
    settings: dict[str, Any]
    metrics: dict[str, Any] | None
    error: str | None


def read_run(folder: Path) -> Run:
    path = folder / "config.yaml"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    config = yaml.load(path.read_text(), Loader=loader) if path.exists() else {}
    metrics, error = folder / "metrics.json", folder / "error.txt"
    return Run(
        folder,
        dict(flatten(config)),
        json.loads(metrics.read_text()) if metrics.exists() else None,
        error.read_text().strip() if error.exists() else None,
    )


def flatten(config: dict[str, Any], prefix: str = "") -> Any:
    for key, value in config.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def differing(runs: list[Run]) -> list[str]:
    """The settings that tell the runs apart, the seed and what only follows from others left out."""
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    varying = [key for key in keys if len({repr(run.settings.get(key)) for run in runs}) > 1]
    varying = [k for k in varying if k not in NOT_SETTINGS and not k.startswith(("callbacks.", "logger."))]
    for group in ("model.attention", "data"):  # a group's name stands for what it sets
        if f"{group}.name" in varying:
            varying = [k for k in varying if k == f"{group}.name" or not k.startswith(f"{group}.")]
    for name in ("seq_len", "label_len", "pred_len", "features"):
        varying = [k for k in varying if not k.endswith(f".{name}")]
    return varying


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """One row a configuration: its settings, then mean and deviation over its seeds of each summarised score."""
    keys = differing(runs) or ["model.attention.name"]
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.metrics is not None:
            groups.setdefault(repr([run.settings.get(key) for key in keys]), []).append(run)
    return [
        {
            **{key.removesuffix(".name").rsplit(".", 1)[-1]: members[0].settings.get(key) for key in keys},
            "seeds": len(members),
            **{name: mean_and_deviation([score(run, name) for run in members]) for name in SUMMARISED},
        }
        for members in groups.values()
    ]


def score(run: Run, name: str) -> float:
    assert run.metrics is not None
    value = run.metrics["test"].get(name, run.metrics.get(name))
    return float("nan") if value is None else value


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    """Mean and sample standard deviation; the deviation of a single value is NaN."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return mean, float("nan")
    return mean, (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5


def print_summary() -> None:
    """Print and save the summary of the sweep that this process ran, if it ran one."""
    for folder in _folders:
        members = {p.parent for name in ("config.yaml", "error.txt") for p in folder.glob(f"*/{name}")}
        runs = [read_run(member) for member in sorted(members, key=member_number)]
        if runs:
            write_summary(folder, runs)
    _folders.clear()


def member_number(folder: Path) -> tuple[int, str]:
    number = folder.name.split("_")[0]
    return (int(number) if number.isdigit() else -1, folder.name)


def write_summary(folder: Path, runs: list[Run]) -> None:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    from forecast.files import whole_file

    rows = summarise(runs)
    if rows:
        table = Table(
            title=f"{sum(r.metrics is not None for r in runs)} runs, test scores, mean ± deviation over seeds"
        )
        for name in rows[0]:
            table.add_column(name, justify="right" if name in (*SUMMARISED, "seeds") else "left")
        best = min(row["mse"][0] for row in rows)
        for row in rows:
            style = "bold" if row["mse"][0] == best else None
            table.add_row(*(show(name, value) for name, value in row.items()), style=style)
        Console().print(table)
        flat = [
            {
                k: v
                for name, value in row.items()
                for k, v in (
                    {name: value[0], f"{name}_dev": value[1]} if isinstance(value, tuple) else {name: value}
                ).items()
            }
            for row in rows
        ]
        with whole_file(folder / "summary.csv") as temporary:
            pd.DataFrame(flat).to_csv(temporary, index=False)
        print(f"saved {folder / 'summary.csv'}")
    for run in runs:
        if run.metrics is None:
            print(f"failed: {run.folder.name}: {run.error or 'did not finish'}")


def show(name: str, value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    digits = 0 if name == "windows_per_second" else 1 if name == "seconds" else 3
    mean, deviation = value
    return f"{mean:.{digits}f}" + (f" ± {deviation:.{digits}f}" if deviation == deviation else "")
