"""Windows, features, scores, costs and page of the comparison with other libraries, which are not installed here."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data.split import split_rows
from peer_scores import ours, run
from peer_scores.forecasters import FORECASTERS, Forecaster
from peer_scores.lightgbm_features import make_features
from peer_scores.page import CHECKED, write_page
from peer_scores.processes import ProcessFailed, measure
from peer_scores.tasks import Rows, read_rows
from peer_scores.windows import Split, repeat_last_value

DATES = pd.date_range("2004-01-01", periods=1003, freq="h")
SPLIT = Split(1003, 168, 24)
RANDOM = np.random.default_rng(0)
TARGET = RANDOM.normal(5, 3, size=1003)
SCORES = {"mse": 0.25, "mae": 0.5}


def test_rows_begin_with_the_first_value_of_the_target(tmp_path: Path) -> None:
    load = np.where(np.arange(1003) < 48, np.nan, TARGET)
    table = pd.DataFrame(
        {"Date": DATES.strftime("%Y/%-m/%-d"), "Hour": DATES.hour + 1, "load": load, "T": range(1003)}
    )
    table.to_csv(tmp_path / "GEFCom2014-E.csv", index=False)
    rows = read_rows("gefcom", tmp_path)
    assert str(rows.dates[0]) == "2004-01-03 00:00:00"
    assert rows.target.tolist() == TARGET[48:].tolist()
    assert rows.known["T"][0] == 48
    assert {name: part[1] for name, part in rows.calendar().items()} == {
        "hour": 1, "weekday": 5, "day of the year": 3,
    }  # fmt: skip
    table.drop(index=500).to_csv(tmp_path / "GEFCom2014-E.csv", index=False)
    with pytest.raises(ValueError, match="one hour apart"):
        read_rows("gefcom", tmp_path)


def test_the_split_is_that_of_this_project() -> None:
    parts = split_rows(DATES, "h", [0.7, 0.1, 0.2])
    for part, rows in parts.items():
        steps = SPLIT.steps(part)
        assert steps[0, 0] == max(rows.start, 168)
        assert steps[-1, -1] == rows.stop - 1
        assert (np.diff(steps[:, 0]) == 1).all()
        assert (np.diff(steps, axis=1) == 1).all()


def test_scores_are_means_over_every_window_and_step() -> None:
    forecasts = repeat_last_value(SPLIT, TARGET)
    known = TARGET[: int(0.7 * 1003)]
    squares, sizes = [], []
    for start in range(1003 - 200, 1003 - 24 + 1):
        for step in range(24):
            error = (TARGET[start - 1] - TARGET[start + step]) / known.std()
            squares.append(error**2)
            sizes.append(abs(error))
    assert SPLIT.score(forecasts, TARGET) == pytest.approx({"mse": np.mean(squares), "mae": np.mean(sizes)})
    assert SPLIT.standardise(TARGET)[: len(known)].std() == pytest.approx(1)


def test_features_read_the_covariates_of_the_horizon_but_not_the_target() -> None:
    (first, *_) = SPLIT.starts("test")
    rows = Rows(DATES, TARGET, {"wind": RANDOM.normal(size=1003)})
    features = make_features(rows, SPLIT, "test")[:24]
    assert np.isfinite(features).all()
    later = np.arange(1003) >= first
    other = Rows(DATES, np.where(later, 1e3, TARGET), rows.known)
    assert (make_features(other, SPLIT, "test")[:24] == features).all()
    other = Rows(DATES, TARGET, {"wind": np.where(later, 1e3, rows.known["wind"])})
    assert (make_features(other, SPLIT, "test")[:24] != features).any(axis=1).all()
    other = Rows(DATES, TARGET, {"wind": np.where(np.arange(1003) >= first + 24, 1e3, rows.known["wind"])})
    assert (make_features(other, SPLIT, "test")[:24] == features).all()


def test_longer_horizons_than_the_lags_allow_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 24"):
        make_features(Rows(DATES, TARGET, {}), Split(1003, 168, 25), "test")


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
    rows = Rows(DATES, TARGET, {})
    naive = repeat_last_value(SPLIT, TARGET)
    forecasts = {"naive": naive, "model": naive / 2, "linear": naive / 3, "seasonal_naive": naive / 4}
    told = {name: SPLIT.score(values, TARGET) for name, values in forecasts.items()}
    told["linear"]["mse"] *= factor
    (tmp_path / "run").mkdir()
    metrics = {"test": told["model"], "baselines": {name: told[name] for name in ours.BASELINES}}
    (tmp_path / "run" / "metrics.json").write_text(json.dumps(metrics))

    def backtest(command: list[str]) -> None:
        assert f"checkpoint={tmp_path / 'run'}" in command
        (tmp_path / "backtest" / "b").mkdir(parents=True)
        table = pd.DataFrame({name: values.ravel() for name, values in forecasts.items()})
        table.to_parquet(tmp_path / "backtest" / "b" / "forecasts.parquet")

    monkeypatch.setattr(ours, "measure", backtest)
    monkeypatch.setattr(ours, "read_rows", lambda *_: rows)
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
    monkeypatch.setitem(FORECASTERS, "LightGBM", Forecaster("lightgbm", settings={"num_leaves": 7}))
    run.main()
    assert asked == [(task, name) for task in ("epf-np", "gefcom") for name in ("LightGBM", "NHITS")]


def test_the_page_without_results() -> None:
    assert write_page({"machines": [], "cells": {}, "checks": {}}).startswith("# Other libraries")
