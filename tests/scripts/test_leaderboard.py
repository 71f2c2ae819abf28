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
    by_window, errors, losses, size = [], [], np.zeros(9), 0.0
    for origin in origins:
        scores = []
        for column in range(2):
            past = values[:origin, column]
            scale = np.mean([abs(past[i] - past[i - 1]) for i in range(1, origin)])
            sql = mase = 0.0
            for step in range(30):
                truth, forecast = values[origin + step, column], deciles[origin][step, column]
                size += abs(truth)
                mase += abs(truth - forecast[4]) / scale / 30
                for i, p in enumerate(DECILES):
                    loss = 2 * max(p * (truth - forecast[i]), (p - 1) * (truth - forecast[i]))
                    losses[i] += loss
                    sql += loss / scale / 270
            scores.append(sql)
            errors.append(mase)
        by_window.append(np.mean(scores))
    gift = score_gift(DAYS, values, lambda origin: deciles[origin])
    assert gift == pytest.approx({"MASE": np.mean(errors), "CRPS": np.mean(losses) / size})
    fev = score_fev(DAYS, values, lambda origin: deciles[origin])
    assert fev == pytest.approx({"MASE": np.mean(errors), "SQL": np.mean(by_window)})


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
