"""Scores, settings and page of the settings of GIFT-Eval."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from leaderboard.gift_page import LABELS, LEAKING, NAIVE, TRAINED, write_page
from leaderboard.gift_run import run_setting
from leaderboard.gift_scores import forecast_seasonal_naive, score_forecasts, score_seasonal_naive
from leaderboard.gift_settings import MISSING, SETTINGS, Setting, read_m4
from leaderboard.scores import DECILES

DAYS = Setting("ett1", "D", "short")
HEADER = "date,a,b\n"


def test_the_scores_equal_sums_over_all_values() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(400, 2))
    values[:, 1] *= 100
    values[380, 0] = np.nan  # does not count
    values[390, 1] = MISSING  # counts
    origins = DAYS.origins(400)
    assert list(origins) == [340, 370]
    deciles = {origin: np.sort(random.normal(size=(30, 2, 9)), axis=2) for origin in origins}
    errors, losses, size = [], np.zeros(9), 0.0
    for origin in origins:
        for column in range(2):
            scale = np.mean([abs(values[i, column] - values[i - 1, column]) for i in range(1, origin)
                             if not np.isnan(values[i, column] - values[i - 1, column])])  # fmt: skip
            for step in range(30):
                truth = values[origin + step, column]
                if np.isnan(truth):
                    continue
                size += abs(truth)
                errors.append(abs(truth - deciles[origin][step, column, 4]) / scale)
                for i, p in enumerate(DECILES):
                    error = truth - deciles[origin][step, column, i]
                    losses[i] += 2 * max(p * error, (p - 1) * error)
    scores = score_forecasts(DAYS, values, lambda origin: deciles[origin])
    assert scores == pytest.approx({"MASE": np.mean(errors), "CRPS": np.mean(losses) / size})


def test_a_series_with_a_constant_past_does_not_count_in_mase() -> None:
    values = np.column_stack([np.arange(100.0), np.ones(100)])
    values[75:, 1] = 5.0
    scores = score_seasonal_naive(DAYS, pd.DataFrame(values, pd.date_range("2024-01-01", periods=100)))
    assert scores["MASE"] == pytest.approx(np.arange(1, 31).mean())


def test_the_deciles_of_the_seasonal_naive_widen_each_season() -> None:
    past = np.random.default_rng(0).normal(size=(96, 1))
    deciles = forecast_seasonal_naive(past, 60, 24)
    assert deciles[:, 0, 4].tolist() == [*past[-24:, 0], *past[-24:, 0], *past[-24:-12, 0]]
    width = deciles[:, 0, 8] - deciles[:, 0, 0]
    deviation = np.sqrt(np.mean((past[24:] - past[:-24]) ** 2))
    assert width[0] == pytest.approx(2 * 1.2815515655 * deviation)
    assert width[[24, 59]] == pytest.approx(width[0] * np.sqrt([2, 3]))


def test_the_settings_have_the_horizons_and_windows_of_the_benchmark() -> None:
    assert len(SETTINGS) == 24
    windows = {name: len(SETTINGS[name].origins(rows)) for name, rows in (
        ("ett1/15T/long", 69_680), ("ett2/H/medium", 17_420), ("ett1/W/short", 103),
        ("jena_weather/H/short", 8_784), ("m4_hourly/H/short", 1_008))}  # fmt: skip
    assert list(windows.values()) == [10, 4, 2, 19, 1]
    assert [SETTINGS[name].horizon for name in windows] == [720, 480, 8, 48, 48]


def test_files_are_read_on_a_grid_without_the_last_incomplete_step(tmp_path: Path) -> None:
    dates = pd.date_range("2020-01-01 00:10", "2020-01-03", freq="10min", name="date")
    weather = pd.DataFrame({"p": 1.0, "OT": 2.0}, dates)
    weather.loc["2020-01-02 05:00", "OT"] = MISSING
    rows = pd.concat([weather.iloc[:3], weather.iloc[2:]])  # a date that comes twice
    rows.drop(dates[20]).to_csv(tmp_path / "weather.csv")
    steps = Setting("jena_weather", "10T", "short")
    assert len(steps.read(tmp_path)) == len(dates)
    assert steps.read(tmp_path).isna().sum().tolist() == [1, 1]
    hours = Setting("jena_weather", "H", "short")
    assert len(hours.read(tmp_path)) == 48
    assert np.min(hours.read(tmp_path)["OT"]) == pytest.approx((5 * 2 + MISSING) / 6)
    assert np.min(hours.read_inputs(tmp_path)["OT"]) == 2
    quarters = pd.date_range("2016-07-01", periods=10 * 96, freq="15min", name="date")
    pd.DataFrame({"OT": np.arange(960.0)}, quarters).to_csv(tmp_path / "ETTm1.csv")
    weeks = Setting("ett1", "W", "short").read(tmp_path)
    assert weeks.index.tolist() == [pd.Timestamp("2016-07-01")]
    assert weeks["OT"].tolist() == [(7 * 96 - 1) / 2]


def write_m4(folder: Path) -> None:
    folder.mkdir()
    random = np.random.default_rng(0)
    days = np.tile(np.sin(np.arange(24) / 24 * 2 * np.pi), 30)
    series = [10 + days + 0.1 * random.normal(size=720) for _ in range(3)]
    series[1][:100] = np.nan  # a shorter series
    for part, rows in (("train", slice(None, -48)), ("test", slice(-48, None))):
        values = [np.concatenate([one[rows][~np.isnan(one[rows])], np.full(np.isnan(one[rows]).sum(), np.nan)])
                  for one in series]  # fmt: skip
        pd.DataFrame(values, [f"H{i}" for i in range(3)]).to_csv(folder / f"Hourly-{part}.csv")


SMALL = [
    "trainer.max_epochs=1",
    "windows_per_epoch=64",
    "model.d_hidden=8",
    "callbacks.progress.refresh_rate=0",
]


def test_series_of_different_lengths_end_together_and_are_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_m4(tmp_path / "m4")
    table = read_m4(tmp_path / "m4")
    assert table.isna().sum().tolist() == [0, 100, 0]
    assert not table.iloc[-1].isna().any()
    setting = SETTINGS["m4_hourly/H/short"]
    mine, linear = run_setting(setting, tmp_path, "mlp", SMALL)
    assert (mine["model"], linear["model"], mine["task"]) == ("mlp", "linear baseline", setting.name)
    naive = score_seasonal_naive(setting, table)
    assert float(mine["MASE"]) < naive["MASE"]
    assert float(mine["CRPS"]) < naive["CRPS"]


def test_a_model_is_trained_on_the_rows_before_the_first_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dates = pd.date_range("2016-07-01", periods=500, freq="D", name="date")
    values = np.random.default_rng(0).normal(size=(500, 2))
    tables = [pd.DataFrame(values, dates, ["a", "b"]) for _ in range(2)]
    tables[1].iloc[DAYS.origins(500)[0] :] = 1e3
    scores = []
    for table in tables:
        monkeypatch.setattr(Setting, "read", lambda _, root, table=table: table)
        scores.append(run_setting(DAYS, tmp_path, "mlp", SMALL)[0])
    assert scores[0]["validation_mse"] == scores[1]["validation_mse"]
    assert scores[0]["MASE"] != scores[1]["MASE"]


def test_the_page_ranks_our_rows_among_models_that_did_not_see_the_test_rows() -> None:
    names = ["ett1/H/short", "ett1/D/short"]
    published = pd.DataFrame(
        [
            {"model": model, "dataset": name, "MASE": score, "CRPS": score / 2}
            for model, score in (
                (NAIVE, 1.0),
                ("a large model", 0.5),
                (LEAKING[0], 0.1),
                *zip(TRAINED, np.linspace(0.7, 0.9, len(TRAINED)), strict=True),
            )
            for name in names
        ]
    )
    rows = [
        {
            "model": model,
            "task": name,
            "MASE": score,
            "CRPS": score / 2,
            "training_s": 60.0,
            "inference_s": 1.0,
        }
        for model, score in (("mlp", 0.6), ("linear baseline", 0.8))
        for name in names
    ]
    hardware = [{"device": "a CPU", "torch": "2", "python": "3"}]
    naive = {name: {"MASE": 1.0, "CRPS": 0.5} for name in names}
    content = {"rows": rows, "hardware": hardware, "seasonal_naive": naive}
    page = write_page(content, published)
    assert LEAKING[0] not in page
    assert f"| **{LABELS['mlp']}** | ours, trained on the data set | 0.600 | 0.600 | 2 | 2 |" in page
    assert (
        f"| ett1/H/short | 0.300 (2) | 0.400 (8) | 0.500 | 0.350 {TRAINED[0]} | 0.250 a large model | 61 |"
        in page
    )
    assert "Not run: ett1/15T/short" in page
    content["seasonal_naive"] = {name: {"MASE": 1.1, "CRPS": 0.5} for name in names}
    with pytest.raises(ValueError, match="the seasonal naive differs"):
        write_page(content, published)
