from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments import leaderboard
from experiments.leaderboard_tasks import DECILES, MISSING, Task, score_fev, score_gift

DATES = pd.date_range("2024-01-01", periods=600, freq="h", name="date")
DAYS = Task("ett1/D/short", ("ETTm1.csv",), "D", 30, None)
RANDOM = np.random.default_rng(0)


def test_the_scores_equal_sums_over_steps_and_deciles() -> None:
    values = RANDOM.normal(size=(400, 2))
    values[:, 1] *= 100
    values[390, 1] = MISSING  # counts
    origins = DAYS.origins(400)
    assert list(origins) == [340, 370]
    deciles = {origin: np.sort(RANDOM.normal(size=(30, 2, 9)), axis=2) for origin in origins}
    truth = np.stack([values[origin : origin + 30] for origin in origins])  # (origins, steps, columns)
    scale = np.stack([np.abs(np.diff(values[:origin], axis=0)).mean(0) for origin in origins])[:, None]
    forecast, p = np.stack([*deciles.values()]), np.array(DECILES)
    over = truth[..., None] - forecast
    losses = 2 * np.maximum(p * over, (p - 1) * over)
    mase = (np.abs(over[..., 4]) / scale).mean()
    gift = score_gift(DAYS, values, lambda origin: deciles[origin])
    assert gift == pytest.approx({"MASE": mase, "CRPS": losses.sum() / 9 / np.abs(truth).sum()})
    fev = score_fev(DAYS, values, lambda origin: deciles[origin])
    assert fev == pytest.approx({"MASE": mase, "SQL": (losses / scale[..., None]).mean()})


def write_prices(folder: Path, last: float | None = None) -> None:
    (folder / "epf").mkdir(exist_ok=True)
    wind, noise = np.random.default_rng(1).normal(size=(2, 600))
    price = 5 * wind + np.sin(np.arange(600) / 24) + noise / 10
    if last is not None:
        price[582:] = last
    pd.DataFrame({"OT": price, "wind": wind}, DATES).to_csv(folder / "epf" / "NP.csv")


def test_a_task_is_trained_on_the_rows_before_its_first_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Task, "seq_len", 24)
    task = Task("epf_np", ("epf/NP.csv",), "H", 6, 3, covariates=True)
    small = ["model=mlp", "trainer.max_epochs=1", "model.d_hidden=8", "callbacks.progress.refresh_rate=0"]

    def run(last: float | None = None) -> leaderboard.Row:
        write_prices(tmp_path, last)
        return leaderboard.score_models(task, tmp_path, leaderboard.BENCHMARKS["fev_bench"], small)

    row = run()
    assert 0 < row["linear"]["SQL"] < row["seasonal_naive"]["SQL"] / 2  # the wind is known ahead
    assert row["linear"]["SQL"] < row["linear"]["MASE"]
    assert run(last=1e3)["validation_mse"] == row["validation_mse"]
