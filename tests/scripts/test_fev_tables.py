"""Scores, tasks and page of the table tasks of fev-bench."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from leaderboard.fev_tables import LABELS, TABLE_TASKS, TableTask, score_naive, score_table, write_page
from leaderboard.gift_run import run_setting
from leaderboard.scores import score_window

HOURS = TableTask("ETT_1H", "ett", ("ETTh1.csv", "ETTh2.csv"), "H", 6, 3, 24, 24)


def test_a_score_is_the_mean_over_series_and_then_over_origins() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(100, 3)).cumsum(0)
    values[:90, 2] = 4.0  # a constant past does not count
    deciles = {origin: np.sort(random.normal(size=(6, 3, 9)), axis=2) for origin in HOURS.origins(100)}
    assert list(deciles) == [82, 88, 94]
    expected = [
        np.mean(
            [
                score_window(values[:origin, i], values[origin : origin + 6, i], deciles[origin][:, i], 24)[
                    "SQL"
                ]
                for i in ((0, 1) if origin < 91 else (0, 1, 2))
            ]
        )
        for origin in deciles
    ]
    found = score_table(HOURS, values, lambda origin: deciles[origin])
    assert found["SQL"] == pytest.approx(np.mean(expected))


def test_two_tables_are_read_side_by_side_and_an_incomplete_last_step_is_left_out(tmp_path: Path) -> None:
    dates = pd.date_range("2024-01-01", periods=50, freq="15min", name="date")
    for file in HOURS.files:
        pd.DataFrame({"a": range(50), "OT": 1.0}, dates).to_csv(tmp_path / file)
    table = HOURS.read(tmp_path)
    assert list(table) == ["ETTh1 a", "ETTh1 OT", "ETTh2 a", "ETTh2 OT"]
    assert len(table) == 12
    assert table["ETTh2 a"].tolist() == [4 * hour + 1.5 for hour in range(12)]


def test_the_weather_is_read_on_a_complete_grid_and_models_do_not_get_its_codes(tmp_path: Path) -> None:
    task = TABLE_TASKS["jena_weather_10T"]
    dates = pd.date_range("2024-01-01", periods=6, freq="10min", name="date")
    pd.DataFrame({"a": [1.0, 2, 3, -9999, 5, 6]}, dates).drop(dates[1]).to_csv(tmp_path / "weather.csv")
    np.testing.assert_array_equal(task.read(tmp_path)["weather a"], [1, np.nan, 3, -9999, 5, 6])
    np.testing.assert_array_equal(task.read_inputs(tmp_path)["weather a"], [1, np.nan, 3, np.nan, 5, 6])


def test_a_task_is_trained_on_the_rows_before_its_first_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dates, random = pd.date_range("2024-01-01", periods=700, freq="h", name="date"), np.random.default_rng(0)
    waves = np.sin(np.arange(700) * 2 * np.pi / 24)[:, None] + 0.1 * random.normal(size=(700, 2))
    small = ["trainer.max_epochs=1", "model.d_hidden=8", "callbacks.progress.refresh_rate=0", "seq_len=48"]

    def run() -> list[dict[str, float | str]]:
        for file in HOURS.files:
            pd.DataFrame(waves, dates, ["a", "b"]).to_csv(tmp_path / file)
        return run_setting(HOURS, tmp_path, "mlp", small, score_table)

    mine, linear = run()
    naive = score_naive(HOURS, HOURS.read(tmp_path))
    assert float(mine["SQL"]) < naive["SQL"]
    assert (mine["task"], linear["model"]) == ("ETT_1H", "linear baseline")
    waves[HOURS.origins(700)[0] :] = 1e3
    assert run()[0]["validation_mse"] == mine["validation_mse"]


def test_the_page_ranks_our_rows_among_the_published_ones() -> None:
    rows = [
        {"model": model, "task": task, "SQL": sql, "MASE": sql, "training_s": 60.0, "inference_s": 1.0}
        for task in TABLE_TASKS
        for model, sql in (("mlp", 0.5), ("patch_encoder", 0.7), ("linear baseline", 0.9))
    ]
    published = pd.DataFrame(
        [
            {"model_name": name, "task_name": task, "SQL": sql, "MASE": sql}
            for name, sql in (("Seasonal Naive", 1.0), ("TFT", 0.6))
            for task in TABLE_TASKS
        ]
    )
    content = {
        "rows": rows,
        "hardware": [{"device": "a CPU", "torch": "2", "python": "3"}],
        "seasonal_naive": {task: {"MASE": 1.0} for task in TABLE_TASKS},
    }
    page = write_page(content, published)
    ranked = [
        line.split(" | ")[1:3] for line in page.splitlines() if line[:3] in {f"| {i}" for i in range(1, 6)}
    ]
    assert ranked[:3] == [
        [f"**{LABELS['mlp']}**", "0.500"],
        ["TFT", "0.600"],
        [f"**{LABELS['patch_encoder']}**", "0.700"],
    ]
    content["seasonal_naive"]["ETT_1H"]["MASE"] = 1.1
    with pytest.raises(ValueError, match="ETT_1H: the seasonal naive differs"):
        write_page(content, published)
