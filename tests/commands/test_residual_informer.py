"""`model=residual_informer` from the command line to its forecasts: never worse than its linear model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast import load
from forecast.checkpoints.contents import completed_epochs
from forecast.checkpoints.file import load_checkpoint
from forecast.evaluation.errors import window_errors
from forecast.evaluation.significance import diebold_mariano
from forecast.inference.model import evaluate, load_tested
from forecast.system.errors import ForecastError
from forecast.training.checkpointing import shrinkage_and_error
from tests.support.commands import only, run_training, workplace

PRESET = ("model=residual_informer", "model.patch_len=4", "logger=[]")
HARMFUL = ("optimizer.lr=1", "optimizer.weight_decay=0", "schedule=constant", "trainer.max_epochs=5")


def read_metrics(run: Path) -> dict[str, Any]:
    return json.loads((run / "metrics.json").read_text())


def read_table(path: Path, columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame(pd.read_csv(path, parse_dates=["date"], index_col="date")[columns])


def test_linear_model_is_kept_if_training_lowers_no_score(tmp_path: Path) -> None:
    folder = workplace(tmp_path)
    asked = (*PRESET, *HARMFUL, "refit=full", "data.target=load")
    assert run_training(folder, *asked) == 0
    run = only(folder, "runs/*")
    best = load_checkpoint(run / "checkpoints" / "best.ckpt")
    metrics = read_metrics(run)
    assert (completed_epochs(best), metrics["refit"]["epochs"]) == (0, 0)
    assert metrics["epochs"] == 3  # the patience, counted from the score before training
    for model in (load(run), load(run / "checkpoints" / "best.ckpt")):  # refitted on all rows, and tested
        frame = read_table(folder / "load.csv", model.feature_columns)
        weight = model.network.state_dict()["linear.weight"].numpy()
        scaled = model.scaler.transform(torch.tensor(frame.to_numpy()[-12:]), series=0)[:, model.target_index]
        scaled = scaled.float().numpy()
        answer = torch.from_numpy(weight.T @ (scaled - scaled.mean(0)) + scaled.mean(0))
        (by_hand,) = model.target_scaler.inverse(answer[None], torch.tensor([0]))
        np.testing.assert_allclose(model.predict(frame).to_numpy(), by_hand, rtol=1e-4)


def test_what_is_learnt_enters_by_how_sure_validation_windows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weekends, which a linear model of four noisy days does not see, and few validation windows."""
    dates = pd.date_range("2018-01-01", periods=500, freq="D")
    level = 20 * (dates.day_of_week < 5) + np.random.default_rng(0).normal(100, 10, size=len(dates))
    pd.DataFrame({"date": dates, "load": level}).to_csv(tmp_path / "days.csv", index=False)
    sizes = ("seq_len=4", "label_len=4", "pred_len=4", "model.d_model=16", "model.d_ff=32")
    asked = ("data.path=days.csv", *sizes, "optimizer.lr=3e-3", "trainer.max_epochs=1", "refit=full")
    assert run_training(tmp_path, *PRESET, *asked, "data.batch_size=8") == 0
    run = only(tmp_path, "runs/*")
    monkeypatch.chdir(tmp_path)
    tested, metrics = load_tested(run), read_metrics(run)
    windows = tested.data().windows["val"]
    batch = windows.gather(torch.arange(len(windows)))

    def losses(weight: float) -> np.ndarray:
        tested.network.load_state_dict({"shrinkage": torch.tensor(weight)}, strict=False)
        forecast = tested.network(batch.past, batch.past_time, batch.future_time)
        return window_errors(forecast, batch.future, tested.target_scaler, batch.series)[:, 0].numpy()

    weight = 1 - diebold_mariano(losses(1.0), losses(0.0), overlap=windows.pred_len).p_value
    assert 0.5 < weight < 0.95
    assert metrics["shrinkage_weight"] == pytest.approx(weight, rel=1e-4)
    assert metrics["validation_mse"] == pytest.approx(losses(weight).mean(), rel=1e-5)
    assert losses(1.0).mean() == pytest.approx(pd.read_csv(run / "metrics.csv")["val/mse"].item(), rel=1e-5)
    assert load(run).network.state_dict()["shrinkage"].item() == pytest.approx(weight, rel=1e-4)  # refitted


def test_quantiles_that_were_never_trained_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the linear model is kept, intervals are conformal."""
    folder = workplace(tmp_path)
    assert run_training(folder, *PRESET, *HARMFUL, "loss=quantile") == 0
    run = only(folder, "runs/*")
    assert (read_metrics(run)["best_epoch"], [*read_metrics(run)["intervals"]]) == (0, ["conformal"])
    assert "intervals, quantile" not in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    model = load(run)
    found = model.predict(levels=[80])
    conformal = model.predict(levels=[80], intervals="conformal")
    pd.testing.assert_frame_equal(found, conformal)
    with pytest.raises(ForecastError):
        model.predict(levels=[80], intervals="quantile")
    scores, _ = evaluate(model, model.data())
    assert scores["test"] == pytest.approx(read_metrics(run)["test"])
    assert [*scores["intervals"]] == ["conformal"]


def test_the_shrinkage_weight_is_half_if_the_test_is_inconclusive() -> None:
    """Losses that swing slowly, by a season or two in all, say less than as many that come and go."""
    start = torch.ones(2000, 1, dtype=torch.float64)
    swing = torch.sin(torch.linspace(0, 3 * torch.pi, 2000, dtype=torch.float64))[:, None]  # up, down, up
    noise = torch.randn(2000, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert shrinkage_and_error(start - 0.05 + 0.5 * noise, start, overlap=96)[0] > 0.99
    slowly = start + 0.05 - 0.5 * swing  # lower by 0.056 in the mean
    assert shrinkage_and_error(slowly, start, overlap=96)[0] == 0.5
    few = 0.5 * start[:95]
    assert shrinkage_and_error(few, start[:95], overlap=47)[0] == 1
    assert shrinkage_and_error(few, start[:95], overlap=48)[0] == 0.5
