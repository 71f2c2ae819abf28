import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.api import load
from forecast.runs.folder import read_metrics
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
    metrics = read_metrics(only(place, "runs/*"))
    frame = pd.read_csv(place / "load.csv", index_col="date", parse_dates=True).asfreq("h")
    values = frame.to_numpy()
    train, test = int(0.7 * len(values)), len(values) - int(0.2 * len(values))
    scaled = (values - np.nanmean(values[:train], 0)) / np.nanstd(values[:train], 0)
    errors = []
    for origin in range(test, len(values) - PRED + 1):
        past = pd.DataFrame(scaled[origin - SEQ : origin]).ffill().iloc[-1].fillna(0.0).to_numpy()
        errors.append(scaled[origin : origin + PRED] - past)
    assert metrics["baselines"]["naive"]["mse"] == pytest.approx(np.nanmean(np.square(errors)), rel=1e-5)
    assert 0 < metrics["intervals"]["conformal"]["80"]["coverage"] < 1
    assert all(np.isfinite(metrics["test"][name]) for name in ("mse", "mae", "rmse_raw", "smape", "mase"))


def test_every_command_reads_it(place: Path, tmp_path: Path) -> None:
    run = only(place, "runs/*")
    metrics = read_metrics(run)
    for command, *options in (
        ("evaluate", f"output={tmp_path}/scores.json"),
        ("predict", f"output={tmp_path}/next.csv"),
        ("backtest", "steps=40", f"output_root={tmp_path}"),
        ("explain", f"output={tmp_path}/why"),
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
    assert run_command("train", tmp_path, PLAIN, *MLP, *LOAD, "trainer.max_epochs=1", "logger=[]") == 0
    run = only(tmp_path, "runs/*")
    by_variable: Any = pd.read_csv(run / "errors_by_variable.csv", index_col="variable")
    crps, mae = by_variable["model_crps"], by_variable["model_mae"]
    assert crps["temperature"] == pytest.approx(mae["temperature"], rel=1e-5)  # a forecast without spread
    assert crps["load"] < mae["load"]
    assert run_command("predict", tmp_path, f"checkpoint={run}") == 0
    forecast = pd.read_csv(tmp_path / "forecast.csv")
    assert np.isfinite(forecast["load-lo-80"].to_numpy()).all()
    assert np.isnan(forecast["temperature-lo-80"].to_numpy()).all()


# ---- counts that are transformed and bounded, beside a file of transformed counts

OPTIONS = ("trainer.max_epochs=1", "logger=[]", "data.lower=0", "levels=[80]", "data.season=24")


@pytest.fixture(scope="module")
def counts_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with counts in load.csv, their logarithms in logged/load.csv, and a run on each."""
    folder = tmp_path_factory.mktemp("counts")
    (folder / "logged").mkdir()
    t = np.arange(300)[:, None]
    level = 1.5 + np.sin(2 * np.pi * t / 24) + np.random.default_rng(0).normal(0, 0.7, (300, 2))
    dates = pd.date_range("2024-01-01", periods=300, freq="h", name="date")
    counts = pd.DataFrame(np.floor(np.exp(level)), dates, ["sales", "visits"])
    counts.to_csv(folder / "load.csv")
    np.log1p(counts).to_csv(folder / "logged" / "load.csv")
    assert run_training(folder, *OPTIONS, "data.transform=log1p") == 0
    assert run_training(folder / "logged", *OPTIONS) == 0
    return folder


def test_a_transform_trains_as_a_transformed_file_does(counts_place: Path) -> None:
    mine, theirs = (read_metrics(only(folder, "runs/*")) for folder in (counts_place, counts_place / "logged"))
    own, other = (each["intervals"]["conformal"] for each in (mine, theirs))
    assert own["80"]["coverage"] == other["80"]["coverage"]
    assert mine["test"]["mae_raw"] > 2 * theirs["test"]["mae_raw"]  # in counts, not in logarithms
    forecasts = pd.read_parquet(only(counts_place, "runs/*") / "forecasts.parquet")
    logged = pd.read_parquet(only(counts_place / "logged", "runs/*") / "forecasts.parquet")
    for name in ("truth", "model", "linear"):
        np.testing.assert_allclose(np.log1p(forecasts[name]), logged[name], atol=1e-4)


def test_forecasts_are_inverted_exactly_and_stay_inside(counts_place: Path) -> None:
    mine, theirs = (load(only(folder, "runs/*")) for folder in (counts_place, counts_place / "logged"))
    frames = [
        pd.read_csv(folder / "load.csv", index_col="date", parse_dates=True)
        for folder in (counts_place, counts_place / "logged")
    ]
    for horizon in (5, 12):  # 12: beyond pred_len, where the models read their own forecasts
        found, other = (
            model.predict(frame, horizon=horizon, levels=[80] if horizon == 5 else [])
            for model, frame in zip((mine, theirs), frames, strict=True)
        )
        np.testing.assert_allclose(found, np.expm1(other), rtol=1e-4, atol=1e-4)
        assert (found.to_numpy() >= 0).all()
        if horizon == 5:
            assert (found["sales-lo-80"].to_numpy() <= found["sales"].to_numpy()).all()
            assert (found["sales"].to_numpy() <= found["sales-hi-80"].to_numpy()).all()
