"""Speed of training from a store, compared with training from memory, in turn."""

import statistics
import time
from pathlib import Path
from typing import Any

import torch

from forecast.cli.compose import compose_config
from forecast.data import DataModule, Windows, store_data
from forecast.data.rows import TensorRows
from forecast.data.step_features import StepFeatures
from forecast.data.time_features import time_features
from forecast.evaluation.fitted_baselines import FittedBaselines
from forecast.models.linear_model import without_covariates
from forecast.training.build import make_forecaster


def in_memory(data: DataModule) -> Windows:
    """Return the training windows of a store over a scaled copy of its rows in memory."""
    disk, dates = data.windows["train"], data.panel.grid
    parts = range(0, len(dates), 1 << 18)
    values = torch.empty(len(dates), data.n_features)
    time_of_day = torch.empty(len(dates), data.n_time_features)
    for first in parts:
        rows = slice(first, first + (1 << 18))
        values[rows] = disk.values[rows]
        time_of_day[rows] = torch.from_numpy(time_features(dates[rows], data.freq)).float()
    features = StepFeatures(TensorRows(time_of_day), disk.time.shifts, None, disk.time.static)
    return disk.with_rows(TensorRows(values), features)


def measure(store: Path, rounds: int, steps: int, batch_size: int = 32) -> dict[str, Any]:
    """Return the windows per second in training and the milliseconds to gather a batch, as medians over the rounds.

    All pages of the store are read first. `ratio` is the median of store / memory over the rounds, `spread` its
    quartiles.
    """
    config = compose_config("model=informer", "data=store", f"data.path={store}", "logger=[]")
    data = store_data(path=store, name="store", seq_len=96, pred_len=24, split=[0.7, 0.1, 0.2])
    data.setup()
    ways = {"store": data.windows["train"], "memory": in_memory(data)}
    naive = torch.ones(1, data.n_targets, dtype=torch.float64)
    fitted = FittedBaselines(
        without_covariates(torch.zeros(96, 24)), naive, data.season, data.panel.ids.tolist()
    )
    forecaster = make_forecaster(config, data, fitted)
    optimizer = torch.optim.AdamW(forecaster.parameters(), lr=1e-4, fused=True)
    order = torch.randint(len(ways["memory"]), (rounds * steps, batch_size))
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    gathers: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        names = list(ways) if number % 2 else list(ways)[::-1]
        for name in names:
            started, gathering = time.perf_counter(), 0.0
            for index in order[number * steps : (number + 1) * steps]:
                before = time.perf_counter()
                batch = ways[name].gather(index)
                gathering += time.perf_counter() - before
                loss = torch.nn.functional.mse_loss(forecaster(batch), batch.future)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            speeds[name].append(steps * batch_size / (time.perf_counter() - started))
            gathers[name].append(1000 * gathering / steps)
    ratios = [mine / its for mine, its in zip(speeds["store"], speeds["memory"], strict=True)]
    return {
        "rounds": rounds,
        **{f"{name}_windows_per_second": statistics.median(found) for name, found in speeds.items()},
        **{f"{name}_gather_ms": statistics.median(found) for name, found in gathers.items()},
        "ratio": statistics.median(ratios),
        "spread": statistics.quantiles(ratios, n=4)[::2],
    }
