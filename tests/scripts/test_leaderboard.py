"""Scores, tasks and page of the tasks of fev-bench."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from leaderboard.page import OURS, SELECTED, write_page
from leaderboard.run import LEVELS, run_task, score_seasonal_naive, stack_deciles
from leaderboard.scores import DECILES, repeat_season, score_window
from leaderboard.tasks import GEFCOM_ROWS, TARGET, TASKS, Task, read_gefcom, read_prices

DATES = pd.date_range("2024-01-01", periods=600, freq="h", name="date")


def test_scores_equal_a_sum_over_steps_and_deciles() -> None:
    random = np.random.default_rng(0)
    past, truth = random.normal(size=50), random.normal(size=6)
    deciles = np.sort(random.normal(size=(6, 9)), axis=1)
    scale = sum(abs(past[i] - past[i - 24]) for i in range(24, 50)) / 26
    loss = 0.0
    for step in range(6):
        for column, p in enumerate(DECILES):
            error = truth[step] - deciles[step, column]
            loss += 2 * max(p * error, (p - 1) * error) / 54
    size = np.abs(truth).mean()
    scores = score_window(past, truth, deciles, 24)
    mae = np.abs(truth - deciles[:, 4]).mean()
    assert scores == pytest.approx(
        {"SQL": loss / scale, "MASE": mae / scale, "WQL": loss / size, "WAPE": mae / size}
    )


def test_a_point_forecast_has_equal_scores_of_quantiles_and_of_the_median() -> None:
    past = np.arange(60.0) ** 1.5
    deciles = repeat_season(past, 30, 24)
    assert deciles[:, 0].tolist() == [*past[-24:], *past[-24:-18]]
    scores = score_window(past, past[:30], deciles, 24)
    assert scores["SQL"] == pytest.approx(scores["MASE"])
    assert scores["WQL"] == pytest.approx(scores["WAPE"])


def test_files_are_read_with_the_target_first(tmp_path: Path) -> None:
    prices = pd.DataFrame({" Load forecast": range(600), "OT": 1.0}, DATES)
    prices.to_csv(tmp_path / "NP.csv")
    assert list(read_prices(tmp_path / "NP.csv")) == [TARGET, "Load forecast"]
    dates = pd.date_range("2012-12-31", periods=GEFCOM_ROWS + 24, freq="h")
    load = pd.DataFrame({"Date": dates.strftime("%Y/%-m/%-d"), "Hour": dates.hour + 1, "load": 1.0, "T": 2.0})
    load.to_csv(tmp_path / "GEFCom2014-E.csv", index=False)
    read = read_gefcom(tmp_path / "GEFCom2014-E.csv")
    assert (len(read), read.index[0]) == (GEFCOM_ROWS, pd.Timestamp("2013-01-01"))


def test_a_task_is_trained_on_the_rows_before_its_first_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    task = Task("epf_np", "epf/NP.csv", 6, 3, 24, 24)
    random = np.random.default_rng(0)
    wind, noise = random.normal(size=(2, 600))
    table = pd.DataFrame({TARGET: 5 * wind + np.sin(np.arange(600) / 24) + noise / 10, "wind": wind}, DATES)
    assert list(task.origins(600)) == [582, 588, 594]
    small = [
        "trainer.max_epochs=1",
        "label_len=0",
        "model.d_model=8",
        "model.d_ff=8",
        "callbacks.progress.refresh_rate=0",
    ]
    mine, linear = run_task(task, table, "residual_informer", small)
    (config,) = tmp_path.glob("runs/*/config.yaml")
    assert "loss: quantile" in config.read_text()
    assert (mine["model"], linear["model"]) == ("residual_informer", "linear baseline")
    naive = score_seasonal_naive(task, table)
    assert 0 < float(linear["SQL"]) < naive["SQL"] / 2  # the wind is known ahead
    assert float(linear["SQL"]) < float(linear["MASE"])
    changed = table.assign(**{TARGET: table[TARGET].where(table.index < DATES[582], 1e3)})
    again, _ = run_task(task, changed, "residual_informer", small)
    assert again["validation_mse"] == mine["validation_mse"]


def test_deciles_ascend() -> None:
    names = [TARGET, *(f"{TARGET}-{side}-{level}" for level in LEVELS for side in ("lo", "hi"))]
    frame = pd.DataFrame([range(9)], columns=names)
    assert stack_deciles(frame).tolist() == [[7, 5, 3, 1, 0, 2, 4, 6, 8]]


OUR_SCORES = (("residual_informer", 0.5, 2.0), ("mlp", 0.6, 1.0), ("linear baseline", 0.9, None))
SECONDS = {"training_time_s": 9.0, "inference_time_s": 1.0}


def test_the_page_ranks_our_rows_among_the_published_ones() -> None:
    rows = [
        {"model": model, "task": task, "SQL": sql, "MASE": sql, "training_s": 60.0, "inference_s": 1.0}
        | ({"validation_mse": validation} if validation else {})
        for task in TASKS
        for model, sql, validation in (
            ("residual_informer", 0.5, 2.0),
            ("mlp", 0.6, 1.0),
            ("linear baseline", 0.9, None),
        )
    ]
    published = pd.DataFrame(
        [
            {
                "model_name": name,
                "task_name": task,
                "SQL": sql,
                "MASE": sql,
                "training_time_s": 9.0,
                "inference_time_s": 1.0,
            }
            for name, sql in (("Seasonal Naive", 1.2), ("TFT", 0.55))
            for task in TASKS
        ]
    )
    hardware = [{"device": "a CPU", "torch": "2", "python": "3"}]
    content = {"rows": rows, "hardware": hardware, "seasonal_naive": {task: {"MASE": 1.2} for task in TASKS}}
    page = write_page(content, published)
    ranked = [
        line.split(" | ")[1].strip("*") for line in page.splitlines() if line.startswith("| ") and "0" in line
    ][:6]
    assert ranked[0] == OURS["residual_informer"]
    assert ranked[1] == "TFT"
    assert set(ranked[2:4]) == {OURS["mlp"], SELECTED}  # selected by its validation MSE, not by the scores
    assert "| 1.2000 | 1.2000 |" in page
