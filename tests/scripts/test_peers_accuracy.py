"""Windows, features, scores, costs and page of the comparison with other libraries, which are not installed here."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data.split import split_rows
from peer_scores import ours, run
from peer_scores.forecasters import FORECASTERS, LIGHTGBM, list_settings
from peer_scores.lightgbm_features import make_features
from peer_scores.page import CHECKED, write_page
from peer_scores.processes import ProcessFailed, measure
from peer_scores.rows import Rows, interpolate, read_rows
from peer_scores.tasks import TASKS, Task
from peer_scores.windows import Split, repeat_last_value

DATES = pd.date_range("2004-01-01", periods=1003, freq="h")
HOURLY = Task("")
SPLIT = Split.of(HOURLY, 1003)
RANDOM = np.random.default_rng(0)
TARGET = RANDOM.normal(5, 3, size=1003)
TARGETS = TARGET[:, None]
SCORES = {"mse": 0.25, "mae": 0.5}


def test_rows_begin_with_the_first_value_of_the_target(tmp_path: Path) -> None:
    load = np.where(np.arange(1003) < 48, np.nan, TARGET)
    table = pd.DataFrame(
        {"Date": DATES.strftime("%Y/%-m/%-d"), "Hour": DATES.hour + 1, "load": load, "T": range(1003)}
    )
    table.to_csv(tmp_path / "GEFCom2014-E.csv", index=False)
    rows = read_rows(TASKS["gefcom"], tmp_path)
    assert str(rows.dates[0]) == "2004-01-03 00:00:00"
    assert rows.targets.tolist() == TARGETS[48:].tolist()
    assert rows.known["T"][0] == 48
    assert {name: part[1] for name, part in rows.calendar().items()} == {
        "hour": 1, "weekday": 5, "day of the year": 3,
    }  # fmt: skip
    table.drop(index=500).to_csv(tmp_path / "GEFCom2014-E.csv", index=False)
    with pytest.raises(ValueError, match="values of T or whole rows are missing"):
        read_rows(TASKS["gefcom"], tmp_path)
    with pytest.raises(ValueError, match="4 columns to forecast in place of 7"):
        read_rows(Task("GEFCom2014-E.csv", columns=7), tmp_path)


def test_missing_numbers_and_rows_are_neither_read_nor_scored(tmp_path: Path) -> None:
    dates = pd.date_range("2020-01-01 00:10", periods=9, freq="10min")
    table = pd.DataFrame({"date": dates, "a": np.arange(9.0), "b": -np.arange(9.0)})
    table.loc[3, "a"] = -9999
    table = pd.concat([table.drop(index=5), table.iloc[[8]]]).sort_values("date", kind="stable")
    table.to_csv(tmp_path / "weather.csv", index=False)
    task = Task("weather.csv", minutes=10, columns=2, missing=-9999)
    rows = read_rows(task, tmp_path)
    assert rows.dates.equals(dates)
    assert np.argwhere(np.isnan(rows.targets)).tolist() == [[3, 0], [5, 0], [5, 1]]
    assert interpolate(rows.targets).tolist() == [[i, -i] for i in range(9)]
    assert rows.calendar()["hour"][0] == pytest.approx(1 / 6)
    split = Split(6, 7, 9, 2, 2)
    mean, deviation = split.scale(rows.targets)
    assert (mean[0], deviation[0]) == pytest.approx((np.mean([0, 1, 2, 4]), np.std([0, 1, 2, 4])))
    with pytest.raises(ValueError, match="missing"):
        Split(3, 4, 9, 2, 2).score(np.zeros((2, 4, 2)), rows.targets)
    table["date"] += pd.to_timedelta(5 * np.arange(len(table)), unit="min")
    table.to_csv(tmp_path / "weather.csv", index=False)
    with pytest.raises(ValueError, match="10 minutes apart"):
        read_rows(task, tmp_path)


@pytest.mark.parametrize(
    ("task", "rows", "split"), [("epf-np", 1003, [0.7, 0.1, 0.2]), ("ettm1", 69680, [12, 4, 4])]
)
def test_the_split_is_that_of_this_project(task: str, rows: int, split: list[float]) -> None:
    here = Split.of(TASKS[task], rows)
    freq = f"{TASKS[task].minutes}min"
    parts = split_rows(pd.date_range("2016-07-01", periods=rows, freq=freq), freq, split)
    for part, inside in parts.items():
        steps = here.steps(here.starts(part))
        assert steps[0, 0] == max(inside.start, here.seq_len)
        assert steps[-1, -1] == inside.stop - 1
        assert (np.diff(steps[:, 0]) == 1).all()
        assert (np.diff(steps, axis=1) == 1).all()


def test_scores_are_means_over_every_window_and_step() -> None:
    standardised = SPLIT.standardise(TARGETS)
    forecasts = repeat_last_value(SPLIT, standardised)
    known = TARGET[: int(0.7 * 1003)]
    squares, sizes = [], []
    for start in range(1003 - 200, 1003 - 24 + 1):
        for step in range(24):
            error = (TARGET[start - 1] - TARGET[start + step]) / known.std()
            squares.append(error**2)
            sizes.append(abs(error))
    expected = {"mse": np.mean(squares), "mae": np.mean(sizes)}
    assert SPLIT.score(forecasts, standardised) == pytest.approx(expected)
    both = np.concatenate([standardised, np.zeros_like(standardised)], axis=1)
    half = {name: error / 2 for name, error in expected.items()}
    assert SPLIT.score(repeat_last_value(SPLIT, both), both) == pytest.approx(half)


def test_features_read_the_covariates_of_the_horizon_but_not_the_target() -> None:
    (first, *_) = starts = SPLIT.starts("test")[:1]

    def make(target: np.ndarray, wind: np.ndarray) -> np.ndarray:
        rows = Rows(DATES, target[:, None], {"wind": wind})
        return make_features(rows, target, HOURLY, SPLIT, starts)

    wind, later = RANDOM.normal(size=1003), np.arange(1003) >= first
    features = make(TARGET, wind)
    assert features.shape[0] == 24
    assert np.isfinite(features).all()
    assert (make(np.where(later, 1e3, TARGET), wind) == features).all()
    assert (make(TARGET, np.where(later, 1e3, wind)) != features).any(axis=1).all()
    assert (make(TARGET, np.where(np.arange(1003) >= first + 24, 1e3, wind)) == features).all()


def test_longer_horizons_than_the_lags_allow_are_refused() -> None:
    split = Split(700, 800, 1003, 168, 25)
    with pytest.raises(ValueError, match="at most a day"):
        make_features(Rows(DATES, TARGETS, {}), TARGET, HOURLY, split, split.starts("test"))


def test_several_columns_fill_a_batch_and_thin_out_windows() -> None:
    assert list_settings(TASKS["weather"], FORECASTERS["NHITS"])["windows_batch_size"] == 256
    assert list_settings(TASKS["ettm1"], FORECASTERS["NHITS"])["windows_batch_size"] == 32 * 7
    assert list_settings(TASKS["weather"], FORECASTERS["TSMixerx"])["windows_batch_size"] == 32
    assert "step_size" not in list_settings(TASKS["epf-np"], FORECASTERS["NHITS"])


def test_costs_are_those_of_a_process_and_its_children() -> None:
    work = "x = bytearray(200 << 20)\nwhile time.process_time() < 1: pass"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time\\n' + {work!r}])"
    cost = measure([sys.executable, "-c", nested])
    assert cost.cpu_seconds >= 1
    assert cost.peak_mib > 200
    with pytest.raises(ProcessFailed, match="ZeroDivisionError"):
        measure([sys.executable, "-c", "1 / 0"])


@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_scores_of_a_run_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    targets = np.stack([TARGET, RANDOM.normal(50, 30, size=1003)], axis=1)
    standardised = SPLIT.standardise(targets)
    naive = repeat_last_value(SPLIT, standardised)
    forecasts = {"naive": naive, "model": naive / 2, "linear": naive / 3, "seasonal_naive": naive / 4}
    told = {name: SPLIT.score(values, standardised) for name, values in forecasts.items()}
    told["linear"]["mse"] *= factor
    (tmp_path / "run").mkdir()
    metrics = {"test": told["model"], "baselines": {name: told[name] for name in ours.BASELINES}}
    (tmp_path / "run" / "metrics.json").write_text(json.dumps(metrics))

    def backtest(command: list[str]) -> None:
        assert f"checkpoint={tmp_path / 'run'}" in command
        (tmp_path / "backtest" / "b").mkdir(parents=True)
        mean, deviation = SPLIT.scale(targets)
        table = pd.DataFrame(
            {
                name: (np.moveaxis(values, 0, 2) * deviation + mean).ravel()
                for name, values in forecasts.items()
            }
        )
        table.to_parquet(tmp_path / "backtest" / "b" / "forecasts.parquet")

    monkeypatch.setattr(ours, "measure", backtest)
    monkeypatch.setattr(ours, "read_rows", lambda *_: Rows(DATES, targets, {}))
    if factor == 1:
        checked = ours.check_scores("gefcom", tmp_path, tmp_path)
        assert checked["naive, from the rows"]["scored_here"] == pytest.approx(told["naive"])
    else:
        with pytest.raises(ValueError, match="gefcom, linear: mse"):
            ours.check_scores("gefcom", tmp_path, tmp_path)


def test_prices_are_transformed_and_loads_are_not() -> None:
    perceptron = FORECASTERS[CHECKED]
    assert "data.transform=auto" in ours.list_overrides("epf-np", perceptron)
    assert "data.transform=auto" not in ours.list_overrides("gefcom", perceptron)
    assert "model=mlp" in ours.list_overrides("gefcom", perceptron)
    assert "windows_per_epoch=8000" in ours.list_overrides("weather", perceptron)
    assert "data.na_values=[-9999]" in ours.list_overrides("weather", perceptron)


def fake_run(task: str, name: str, root: Path, content: dict) -> dict:
    if name == "NHITS":
        raise ProcessFailed("no memory")
    row = {**SCORES, "cpu_seconds": 12.3, "peak_mib": 456.7, "test_windows": 9}
    if name == "LightGBM":
        row["mse"] = 0.123
    if name == CHECKED:
        row["baselines"] = {baseline: {"mse": 0.1, "mae": 0.3} for baseline in ours.BASELINES}
        content["checks"][task] = {"naive": {"run": SCORES, "scored_here": SCORES}}
    return row


def test_results_are_kept_one_by_one_and_only_missing_ones_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "run", fake_run)
    monkeypatch.setattr(run, "LIBRARIES", ("torch", "numpy"))
    command = [
        "peers_accuracy",
        "--root",
        str(tmp_path),
        "--out",
        str(tmp_path),
        "--tasks",
        "epf-np",
        "gefcom",
    ]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit, match="2 results are missing"):
        run.main()
    assert "error: gefcom/NHITS: no memory" in capsys.readouterr().err
    content = json.loads((tmp_path / "peers-accuracy.json").read_text())
    assert len(content["cells"]) == 2 * (len(FORECASTERS) - 1)
    page = (tmp_path / "peers-accuracy.md").read_text()
    assert "| LightGBM | **0.123** | **0.123** |" in page
    assert "| linear baseline | 0.100 | 0.100 |" in page
    assert "NHITS |" not in page
    assert "| epf-np | 0.250, default model | 12 | 0.123, LightGBM | 12 | +103.3 % |" in page
    assert "| BiTCN | 12, 457 | 12, 457 |" in page

    asked = []
    monkeypatch.setattr(
        run, "run", lambda task, name, *_: asked.append((task, name)) or fake_run(task, "", *_)
    )
    monkeypatch.setitem(LIGHTGBM, "num_leaves", 7)
    run.main()
    assert asked == [(task, name) for task in ("epf-np", "gefcom") for name in ("LightGBM", "NHITS")]


def test_the_page_without_results() -> None:
    assert write_page({"machines": [], "cells": {}, "checks": {}}).startswith("# Other libraries")
