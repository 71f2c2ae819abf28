"""Backtests with several policies of training again: never, fine-tuning, from scratch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import DataModule
from forecast.evaluation.significance import diebold_mariano
from forecast.inference import backtest
from tests.support.commands import TINY, only, run_command
from tests.support.csv_files import write_csv

POLICIES = ("never", "fine_tune", "scratch")
GIVEN = (*TINY, "data=csv", "data.path=load.csv", "steps=40", "refit_every=20", "trainer.max_epochs=2")
CUT = pd.Timestamp("2024-01-12 16:00")
"""The date of the second training, after 280 of 300 hours."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a backtest of all policies."""
    place = tmp_path_factory.mktemp("policies")
    write_csv(place / "load.csv", rows=300)
    assert run_command("backtest", place, *GIVEN, f"retrain=[{','.join(POLICIES)}]") == 0
    return only(place, "runs/*_backtest_*")


def forecasts(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "forecasts.parquet")


def test_all_policies_begin_with_one_training(folder: Path) -> None:
    each: Any = {name: forecasts(folder / name) for name in POLICIES}
    before: Any = {name: table[table["forecast_start"] < CUT] for name, table in each.items()}
    after = {name: table[table["forecast_start"] >= CUT]["model"] for name, table in each.items()}
    assert len(before["never"]) == 4 * 5 * 2
    for name in ("fine_tune", "scratch"):
        pd.testing.assert_frame_equal(before[name], before["never"], check_exact=True)
        assert not np.allclose(after[name], after["never"])
    assert not np.allclose(after["fine_tune"], after["scratch"])
    saved = sorted(str(path.relative_to(folder)) for path in folder.glob("**/best.ckpt"))
    assert saved == [
        "fine_tune/trainings/1/best.ckpt", "scratch/trainings/1/best.ckpt", "trainings/0/best.ckpt"
    ]  # fmt: skip
    tuned, anew, first = (torch.load(folder / path, weights_only=True)["LightningData"] for path in saved)
    assert torch.equal(tuned["scaler"]["scale"], first["scaler"]["scale"])
    assert not torch.equal(anew["scaler"]["scale"], first["scaler"]["scale"])


def test_the_table_of_policies_follows_from_their_backtests(folder: Path) -> None:
    content = json.loads((folder / "retraining.json").read_text())["policies"]
    assert list(content) == list(POLICIES)
    losses = {
        name: pd.read_csv(folder / name / "errors_by_origin.csv")["model_mse"].to_numpy() for name in POLICIES
    }
    for name in POLICIES:
        found = content[name]
        assert found["mse"] == pytest.approx(losses[name].mean())
        assert found["trainings"] == (1 if name == "never" else 2)
        assert found["training_seconds"] > 0
    assert "p_value" not in content["never"]
    for name in ("fine_tune", "scratch"):
        assert content[name]["change"] == pytest.approx(content[name]["mse"] / content["never"]["mse"] - 1)
        expected = diebold_mariano(losses[name], losses["never"], 1, comparisons=2).adjusted_p_value
        assert content[name]["p_value"] == pytest.approx(expected)
        assert content[name]["training_seconds"] > content["never"]["training_seconds"]


def test_fine_tuning_that_does_not_lower_the_validation_error_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(tmp_path / "load.csv", rows=300)
    seen = []

    def equal_errors(forecaster: torch.nn.Module, data: DataModule) -> float:
        seen.append((forecaster, data.last_date("val")))
        return 1.0

    monkeypatch.setattr(backtest, "validation_loss", equal_errors)
    assert run_command("backtest", tmp_path, *GIVEN, "retrain=[never,fine_tune]") == 0
    found = only(tmp_path, "runs/*_backtest_*")
    never, tuned = (forecasts(found / name) for name in ("never", "fine_tune"))
    np.testing.assert_array_equal(tuned["model"], never["model"])
    kept, first = (found / place / "best.ckpt" for place in ("fine_tune/trainings/1", "trainings/0"))
    assert kept.read_bytes() == first.read_bytes()
    assert not np.allclose(tuned["linear"], never["linear"])
    assert [date for _, date in seen] == [str(CUT - pd.Timedelta(hours=1))] * 2
    assert seen[0][0] is not seen[1][0]
