"""A file that lacks values and rows, through every command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.commands import LOAD, MLP, PLAIN, only, run_command, run_training
from tests.support.csv_files import write_csv

SEQ, PRED = 12, 5  # of TINY


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with load.csv, of which a fifth of the loads and some rows are missing, and a run on it."""
    folder = tmp_path_factory.mktemp("missing")
    write_csv(folder / "load.csv", rows=300)
    frame = pd.read_csv(folder / "load.csv")
    lost = np.random.default_rng(0).random(len(frame)) < 0.2
    lost[[0, -1]] = False
    frame.loc[lost, "load"] = np.nan
    frame.drop(index=[50, 51, 52, 280]).to_csv(folder / "load.csv", index=False)
    given = ("trainer.max_epochs=1", "logger=[]", "loss=quantile")
    assert run_command("train", folder, PLAIN, *MLP, *LOAD, *given) == 0
    return folder


def test_scores_count_measured_values(place: Path) -> None:
    """The naive baseline by hand: the last measured value of the window, or the mean of training without one."""
    metrics = json.loads((only(place, "runs/*") / "metrics.json").read_text())
    frame = pd.read_csv(place / "load.csv", index_col="date", parse_dates=True).asfreq("h")
    values = frame.to_numpy()
    train, test = int(0.7 * len(values)), len(values) - int(0.2 * len(values))
    scaled = (values - np.nanmean(values[:train], 0)) / np.nanstd(values[:train], 0)
    errors = []
    for origin in range(test, len(values) - PRED + 1):
        past = pd.DataFrame(scaled[origin - SEQ : origin]).ffill().iloc[-1].fillna(0.0).to_numpy()
        errors.append(scaled[origin : origin + PRED] - past)
    assert metrics["baselines"]["naive"]["mse"] == pytest.approx(np.nanmean(np.square(errors)), rel=1e-5)
    windows = pd.read_parquet(only(place, "runs/*") / "errors_by_window.parquet")
    assert windows["naive_mse"].to_numpy().mean() == pytest.approx(
        metrics["baselines"]["naive"]["mse"], rel=1e-5
    )
    assert 0 < metrics["intervals"]["conformal"]["80"]["coverage"] < 1
    assert all(np.isfinite(metrics["test"][name]) for name in ("mse", "mae", "rmse_raw", "smape", "mase"))


def test_every_command_reads_it(place: Path, tmp_path: Path) -> None:
    run = only(place, "runs/*")
    metrics = json.loads((run / "metrics.json").read_text())
    for command, *options in (
        ("evaluate", f"output={tmp_path}/scores.json"),
        ("predict", f"output={tmp_path}/next.csv"),
        ("backtest", "steps=40", f"output_root={tmp_path}"),
        ("explain", f"output={tmp_path}/why"),
        ("export", f"output={tmp_path}/model.onnx"),
    ):
        assert run_command(command, place, f"checkpoint={run}", *options) == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["test"] == pytest.approx(metrics["test"], rel=1e-5)
    assert np.isfinite(pd.read_csv(tmp_path / "next.csv")[["load", "load-lo-80"]].to_numpy()).all()


def test_a_missing_future_covariate_is_read_as_in_training(tmp_path: Path) -> None:
    """The value above it, also where it lies before the window of the forecast."""
    write_csv(tmp_path / "load.csv", rows=300)
    frame = pd.read_csv(tmp_path / "load.csv")
    roles = ("data.columns=[load]", "data.future_covariates=[temperature]")
    first = 270 - 48  # the first row that is read for a forecast from row 270
    frame.loc[first - 3 : first + 40, "temperature"] = np.nan
    frame.to_csv(tmp_path / "load.csv", index=False)
    assert run_training(tmp_path, *roles, "trainer.max_epochs=1", "logger=[]") == 0
    run, start = only(tmp_path, "runs/*"), frame["date"][270].replace(" ", "T")
    frame["temperature"] = frame["temperature"].ffill()
    frame.to_csv(tmp_path / "filled.csv", index=False)
    for more in (("output=a.csv",), ("data.path=filled.csv", "output=b.csv")):
        given = (f"checkpoint={run}", f"start={start}", *more)
        assert run_command("predict", tmp_path, *given) == 0
    a, b = (pd.read_csv(tmp_path / name) for name in ("a.csv", "b.csv"))
    np.testing.assert_allclose(a["load"], b["load"], rtol=1e-6)


def test_a_column_without_values_in_validation_takes_no_intervals_from_the_others(tmp_path: Path) -> None:
    write_csv(tmp_path / "load.csv", rows=300)
    frame = pd.read_csv(tmp_path / "load.csv")
    frame.loc[205:245, "temperature"] = np.nan
    frame.to_csv(tmp_path / "load.csv", index=False)
    assert run_training(tmp_path, "trainer.max_epochs=1", "logger=[]") == 0
    run = only(tmp_path, "runs/*")
    metrics = json.loads((run / "metrics.json").read_text())
    intervals = metrics["intervals"]["conformal"]
    by_variable: Any = pd.read_csv(run / "errors_by_variable.csv", index_col="variable")
    for name, scores in {"model": metrics["test"], **metrics["baselines"]}.items():
        crps, mae = by_variable[f"{name}_crps"], by_variable[f"{name}_mae"]
        assert crps["temperature"] == pytest.approx(mae["temperature"], rel=1e-5)  # a forecast without spread
        assert crps["load"] < mae["load"]
        assert 0 < scores["crps"] < scores["mae"]
    assert 0 < intervals["80"]["coverage"] <= 1
    assert np.isfinite(intervals["crps"])
    assert run_command("predict", tmp_path, f"checkpoint={run}") == 0
    forecast = pd.read_csv(tmp_path / "forecast.csv")
    assert np.isfinite(forecast["load-lo-80"].to_numpy()).all()
    assert np.isnan(forecast["temperature-lo-80"].to_numpy()).all()
