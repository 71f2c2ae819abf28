"""Counts that are transformed and bounded, through every command, beside a file of transformed counts."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.api import load
from tests.support.commands import only, run_training

OPTIONS = ("trainer.max_epochs=1", "logger=[]", "data.lower=0", "levels=[80]", "data.season=24")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def metrics_of(folder: Path) -> dict:
    return json.loads((only(folder, "runs/*") / "metrics.json").read_text())


def test_a_transform_trains_as_a_transformed_file_does(place: Path) -> None:
    mine, theirs = metrics_of(place), metrics_of(place / "logged")
    own, other = (each["intervals"]["conformal"] for each in (mine, theirs))
    assert own["80"]["coverage"] == other["80"]["coverage"]
    assert mine["test"]["mae_raw"] > 2 * theirs["test"]["mae_raw"]  # in counts, not in logarithms
    forecasts = pd.read_parquet(only(place, "runs/*") / "forecasts.parquet")
    logged = pd.read_parquet(only(place / "logged", "runs/*") / "forecasts.parquet")
    for name in ("truth", "model", "linear"):
        np.testing.assert_allclose(np.log1p(forecasts[name]), logged[name], atol=1e-4)


def test_forecasts_are_inverted_exactly_and_stay_inside(place: Path) -> None:
    mine, theirs = (load(only(folder, "runs/*")) for folder in (place, place / "logged"))
    frames = [
        pd.read_csv(folder / "load.csv", index_col="date", parse_dates=True)
        for folder in (place, place / "logged")
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
