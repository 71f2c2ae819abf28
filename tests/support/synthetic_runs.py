"""Run folders with invented scores: the files of `forecast.training.report` without any training.

`python -m tests.support.synthetic_runs FOLDER` makes 200.
"""

import json
import sys
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from omegaconf import OmegaConf

from forecast.cli.compose import compose_config

COLUMNS = ("model", "naive", "seasonal_naive", "linear")
BASELINES = {"naive": 0.9, "seasonal_naive": 0.6, "linear": 0.5}  # their mean squared errors


def configuration(*overrides: str) -> dict[str, Any]:
    """The resolved configuration of a run."""
    return deepcopy(resolved(*overrides))


@cache
def resolved(*overrides: str) -> dict[str, Any]:
    config = compose_config("data=sample", "logger=[]", *overrides)
    config.output_root = config.output_dir = ""
    made: Any = OmegaConf.to_container(config, resolve=True)
    return made


def make_run(
    folder: Path,
    config: dict[str, Any],
    *,
    mse: float,
    windows: int = 300,
    mae: float | None = None,
    variables: Sequence[str] = ("HUFL", "OT"),
    epochs: int = 3,
    freq: str = "h",
    baselines: dict[str, float] = BASELINES,
    **metrics: Any,
) -> Path:
    """Write a finished run whose model has this MSE, and this MAE (None: √MSE); CRPS are 0.7 times the MAE.

    All runs share the windows, the truth and the baselines.
    """
    folder.mkdir(parents=True)
    pred_len, history = config["pred_len"], min(config["seq_len"], 3 * config["pred_len"])
    shared, own = np.random.default_rng(7), np.random.default_rng([config["seed"], int(1e6 * mse)])
    errors = {"model": mse, **baselines}
    absolute = {name: float(np.sqrt(value)) for name, value in errors.items()}
    absolute["model"] = absolute["model"] if mae is None else mae

    (folder / "config.yaml").write_text(yaml.safe_dump({**config, "output_dir": str(folder)}))
    (folder / "overrides.yaml").write_text("[]\n")
    dates = pd.date_range("2024-01-01", periods=windows + pred_len + history, freq=freq)
    difficulty = np.convolve(
        shared.exponential(size=windows + pred_len - 1), np.ones(pred_len) / pred_len, "valid"
    )
    table: dict[str, Any] = {"forecast_start": dates[history : history + windows]}
    for name in ("naive", "seasonal_naive", "linear", "model"):
        noise = own if name == "model" else shared
        losses = difficulty * (1 + 0.1 * noise.normal(size=windows))
        table[f"{name}_mse"] = losses / losses.mean() * errors[name]
        table[f"{name}_mae"] = losses / losses.mean() * absolute[name]
        table[f"{name}_crps"] = 0.7 * table[f"{name}_mae"]
    pd.DataFrame(table).to_parquet(folder / "errors_by_window.parquet", index=False)

    def spread_out(factors: np.ndarray) -> dict[str, np.ndarray]:
        squared = {f"{name}_mse": errors[name] * factors for name in COLUMNS}
        absolutes = {f"{name}_mae": absolute[name] * factors for name in COLUMNS}
        return squared | absolutes | {f"{name}_crps": 0.7 * absolute[name] * factors for name in COLUMNS}

    growth, share = np.linspace(0.7, 1.3, pred_len), np.linspace(0.5, 1.5, len(variables))
    steps = {"step": np.arange(1, pred_len + 1), **spread_out(growth)}
    pd.DataFrame(steps).to_csv(folder / "errors_by_step.csv", index=False)
    by_variable = {"variable": list(variables), **spread_out(share)}
    pd.DataFrame(by_variable).to_csv(folder / "errors_by_variable.csv", index=False)
    epoch = np.arange(epochs)
    falling = mse * (1 + np.exp(-epoch / 3))
    pd.DataFrame({"epoch": epoch, "val/mse": falling, "train/loss": 0.9 * falling}).to_csv(
        folder / "metrics.csv", index=False
    )
    forecasts(config, windows, variables, dates, own).to_parquet(folder / "forecasts.parquet", index=False)

    def scores(name: str) -> dict[str, float]:
        others = ("mae", "rmse_raw", "mae_raw", "smape", "wape", "mase")
        return {"mse": errors[name], "crps": 0.7 * absolute[name], **dict.fromkeys(others, absolute[name])}

    content = {
        "test": scores("model"), "baselines": {name: scores(name) for name in baselines},
        "skill": 1 - mse / min(baselines.values()), "best_baseline": min(baselines, key=lambda n: baselines[n]),
        "n_windows": {"train": 1000, "val": windows, "test": windows},
        "n_parameters": 1000 * config["model"]["d_model"],
        "seconds": 60.0, "windows_per_second": 500.0, "ms_per_window": 0.1 / (mse or 1),
        "peak_memory_mb": 500.0 + 100 * mse,
        "attention": config["model"]["attention"]["name"], "data": config["data"]["name"],
        **{key: config[key] for key in ("seq_len", "label_len", "pred_len", "features", "seed")},
        "epochs": epochs, "precision": "32-true", **metrics,
    }  # fmt: skip
    (folder / "metrics.json").write_text(json.dumps(content))
    return folder


def forecasts(
    config: dict[str, Any],
    windows: int,
    variables: Sequence[str],
    dates: pd.DatetimeIndex,
    noise: np.random.Generator,
) -> pd.DataFrame:
    pred_len, history = config["pred_len"], min(config["seq_len"], 3 * config["pred_len"])
    steps = np.arange(1 - history, pred_len + 1)
    parts = []
    for window in (0, windows // 2, windows - 1):
        for variable in variables:
            truth = 10 * np.sin(2 * np.pi * (window + steps) / 24)
            guesses = {n: np.where(steps > 0, truth + noise.normal(size=len(steps)), np.nan) for n in COLUMNS}
            parts.append(
                pd.DataFrame(
                    {
                        "window": window, "forecast_start": dates[history + window],
                        "date": dates[window : window + len(steps)], "step": steps, "variable": variable,
                        "truth": truth, **guesses,
                    }
                )
            )  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def make_many(root: Path, *, widths: int = 8, seeds: int = 5) -> list[Path]:
    """Write runs of 5 attention types × `widths` × `seeds`, with files as large as those of runs on ETTh1."""
    made = []
    for number, kind in enumerate(("full", "probsparse", "linear", "nystrom", "fastformer")):
        base = configuration(f"attention={kind}", "pred_len=96", "seq_len=192")
        for width in range(widths):
            for seed in range(seeds):
                config = {**base, "seed": seed, "model": {**base["model"], "d_model": 16 * (width + 1)}}
                mse = 0.4 + 0.01 * number + 0.02 * width + 0.001 * seed
                made.append(
                    make_run(
                        root / f"{kind}-{width}-{seed}", config, mse=mse, windows=2800, epochs=50,
                        variables=("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"),
                    )
                )  # fmt: skip
    return made


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A folder of four runs: two attention types, two seeds each."""
    for kind, mse in (("full", 0.40), ("linear", 0.45)):
        config = configuration(f"attention={kind}")
        for seed in (1, 2):
            made = {**config, "seed": seed, "data": {**config["data"], "seed": seed}}
            make_run(tmp_path / "runs" / f"{kind}-{seed}", made, mse=mse + 0.01 * seed)
    return tmp_path / "runs"


if __name__ == "__main__":
    print(f"{len(make_many(Path(sys.argv[1])))} runs in {sys.argv[1]}")
