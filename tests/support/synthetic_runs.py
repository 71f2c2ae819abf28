"""Run folders with invented scores: the files of `forecast.training.report` without any training."""

import json
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf

from forecast.cli.compose import compose_config
from forecast.evaluation.scores import MODEL, SCORES
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.reports.compare.task import Task, group_into_tasks

BASELINES = {"naive": 0.9, "seasonal_naive": 0.6, "linear": 0.5}  # their mean squared errors


def configuration(*overrides: str) -> dict[str, Any]:
    return deepcopy(resolved(*overrides))


@cache
def resolved(*overrides: str) -> dict[str, Any]:
    config = compose_config("data=sample", "logger=[]", *overrides)
    config.output_root = config.output_dir = ""
    made: Any = OmegaConf.to_container(config, resolve=True)
    return made


class Means(NamedTuple):
    """The mean errors of the forecasters of a run by name, the model first."""

    mse: dict[str, float]
    mae: dict[str, float]

    def crps(self, name: str) -> float:
        return 0.7 * self.mae[name]

    def scores(self, name: str) -> dict[str, float]:
        """All scores of a forecaster; those in original units equal its MAE."""
        return {**dict.fromkeys(SCORES, self.mae[name]), "mse": self.mse[name], "crps": self.crps(name)}

    def vary(self, factors: np.ndarray) -> dict[str, np.ndarray]:
        """Columns of errors that differ by these factors."""
        columns = {f"{name}_mse": error * factors for name, error in self.mse.items()}
        columns |= {f"{name}_mae": error * factors for name, error in self.mae.items()}
        return columns | {f"{name}_crps": self.crps(name) * factors for name in self.mse}


def make_run(
    folder: Path, config: dict[str, Any], *, mse: float, windows: int = 300, mae: float | None = None,
    variables: Sequence[str] = ("HUFL", "OT"), epochs: int = 3, freq: str = "h",
    baselines: dict[str, float] = BASELINES, **metrics: Any,
) -> Path:  # fmt: skip
    """Write a run of this MSE and MAE (None: √MSE); all share windows, truth and baselines, CRPS are 0.7 MAE."""
    folder.mkdir(parents=True)
    pred_len = config["pred_len"]
    own = np.random.default_rng([config["seed"], int(1e6 * mse)])
    squared = {MODEL: mse, **baselines}
    absolute = {name: float(np.sqrt(value)) for name, value in squared.items()}
    means = Means(squared, absolute if mae is None else absolute | {MODEL: mae})
    dates = pd.date_range("2024-01-01", periods=windows + pred_len + history(config), freq=freq)

    (folder / "config.yaml").write_text(json.dumps({**config, "output_dir": str(folder)}))
    (folder / "overrides.yaml").write_text("[]\n")
    starts = dates[history(config) : history(config) + windows]
    by_window = pd.DataFrame({"forecast_start": starts, **window_errors(means, windows, pred_len, own)})
    by_window.to_parquet(folder / "errors_by_window.parquet", index=False)
    by_step = {"step": np.arange(1, pred_len + 1), **means.vary(np.linspace(0.7, 1.3, pred_len))}
    pd.DataFrame(by_step).to_csv(folder / "errors_by_step.csv", index=False)
    by_variable = {"variable": list(variables), **means.vary(np.linspace(0.5, 1.5, len(variables)))}
    pd.DataFrame(by_variable).to_csv(folder / "errors_by_variable.csv", index=False)
    epoch = np.arange(epochs)
    falling = mse * (1 + np.exp(-epoch / 3))
    epochs_table = pd.DataFrame({"epoch": epoch, "val/mse": falling, "train/loss": 0.9 * falling})
    epochs_table.to_csv(folder / "metrics.csv", index=False)
    names = list(squared)
    forecasts(config, windows, variables, dates, own, names).to_parquet(folder / "forecasts.parquet", index=False)
    content = results(config, means, windows) | {"epochs": epochs, **metrics}
    (folder / "metrics.json").write_text(json.dumps(content))
    return folder


def history(config: dict[str, Any]) -> int:
    """Number of rows before the forecast in a picture."""
    return min(config["seq_len"], 3 * config["pred_len"])


def window_errors(means: Means, windows: int, pred_len: int, own: np.random.Generator) -> dict[str, np.ndarray]:
    """Columns of the errors of overlapping windows, which are as difficult in every run."""
    shared = np.random.default_rng(7)
    difficulty = np.convolve(shared.exponential(size=windows + pred_len - 1), np.ones(pred_len) / pred_len, "valid")
    table = {}
    for name in means.mse:
        losses = difficulty * (1 + 0.1 * (own if name == MODEL else shared).normal(size=windows))
        table[f"{name}_mse"] = losses / losses.mean() * means.mse[name]
        table[f"{name}_mae"] = losses / losses.mean() * means.mae[name]
        table[f"{name}_crps"] = 0.7 * table[f"{name}_mae"]
    return table


def results(config: dict[str, Any], means: Means, windows: int) -> dict[str, Any]:
    baselines = [name for name in means.mse if name != MODEL]
    best = min(baselines, key=means.mse.__getitem__)
    mse = means.mse[MODEL]
    return {
        "test": means.scores(MODEL), "baselines": {name: means.scores(name) for name in baselines},
        "skill": 1 - mse / means.mse[best], "best_baseline": best,
        "n_windows": {"train": 1000, "val": windows, "test": windows},
        "n_parameters": 1000 * config["model"]["d_model"],
        "seconds": 60.0, "windows_per_second": 500.0, "ms_per_window": 0.1 / (mse or 1),
        "peak_memory_mb": 500.0 + 100 * mse, "peak_memory_of": "device",
        "attention": config["model"]["attention"]["name"], "data": config["data"]["name"],
        **{key: config[key] for key in ("seq_len", "label_len", "pred_len", "features", "seed")},
        "precision": "32-true",
    }  # fmt: skip


def forecasts(
    config: dict[str, Any], windows: int, variables: Sequence[str], dates: pd.DatetimeIndex,
    noise: np.random.Generator, names: Sequence[str],
) -> pd.DataFrame:  # fmt: skip
    before = history(config)
    steps = np.arange(1 - before, config["pred_len"] + 1)
    parts = []
    for window in (0, windows // 2, windows - 1):
        for variable in variables:
            truth = 10 * np.sin(2 * np.pi * (window + steps) / 24)
            guesses = {n: np.where(steps > 0, truth + noise.normal(size=len(steps)), np.nan) for n in names}
            parts.append(pd.DataFrame({
                "window": window, "forecast_start": dates[before + window], "step": steps, "variable": variable,
                "date": dates[window : window + len(steps)], "truth": truth, **guesses,
            }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def make_variants(root: Path, errors: dict[str, float], *, seeds: int = 2, spread: float = 1e-4, **more: Any) -> None:
    """Write runs of these attention types, whose MSE changes by `spread` from seed to seed, up and down in turn."""
    for number, (kind, mse) in enumerate(errors.items()):
        for seed in range(seeds):
            config = {**configuration(f"attention={kind}"), "seed": seed}
            luck = (-1) ** number * spread * (seed - (seeds - 1) / 2)
            make_run(root / f"{kind}-{seed}", config, mse=mse + luck, **more)


def compare(root: Path, score: str = "mse", reference: str | None = None) -> list[Task]:
    return group_into_tasks(read_runs(find_run_folders([str(root)]))[0], score, reference)


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    for kind, mse in (("full", 0.40), ("linear", 0.45)):
        config = configuration(f"attention={kind}")
        for seed in (1, 2):
            made = {**config, "seed": seed, "data": {**config["data"], "seed": seed}}
            make_run(tmp_path / "runs" / f"{kind}-{seed}", made, mse=mse + 0.01 * seed)
    return tmp_path / "runs"
