"""`model=mlp`, `model=residual_informer`, a model of a user's own module, and `loss=quantile`, in the same commands."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from forecast import load
from forecast.checkpoints.contents import completed_epochs
from forecast.checkpoints.file import load_checkpoint
from forecast.evaluation.errors import window_errors
from forecast.evaluation.significance import diebold_mariano
from forecast.inference.model import load_tested
from forecast.runs.folder import read_metrics
from forecast.system.errors import ForecastError
from forecast.training.checkpointing import shrinkage_and_error
from tests.support.commands import PLAIN, finish, only, run_command, run_training, start, workplace

ROWS, AHEAD = 1500, 5
OPTIONS = (
    "model=mlp", "seq_len=12", "label_len=6", f"pred_len={AHEAD}", "model.d_hidden=32", "model.dropout=0.0",
    "data=csv", "data.path=history.csv", "data.columns=[load]", "data.future_covariates=[temperature]",
    "data.batch_size=32", "optimizer.lr=0.01", "trainer.max_epochs=8", "loss=quantile", "logger=[]", PLAIN,
)  # fmt: skip


def table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    temperature = random.normal(size=ROWS)
    dates = pd.date_range("2024-01-01", periods=ROWS, freq="h", name="date")
    load = np.abs(temperature) + 0.1 * random.normal(size=ROWS)
    return pd.DataFrame({"load": load, "temperature": temperature}, dates)


@pytest.mark.slow
def test_it_learns_what_no_linear_model_can(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "history.csv")
    assert run_command("train", tmp_path, *OPTIONS) == 0
    run = only(tmp_path, "runs/*")
    metrics = read_metrics(run)
    assert metrics["test"]["mse"] < 0.2 * metrics["baselines"]["linear"]["mse"]
    assert metrics["attention"] == "mlp"
    assert run.name.split("_")[2] == f"mlp-csv-{AHEAD}-s1"
    assert load(run).network.attention_layers() == []


def test_the_quantile_loss_stops_training_and_selects_the_best_epoch(tmp_path: Path) -> None:
    """Of a model without a warm start. The loss is that of the forecasts of the checkpoint, in scaled values."""
    asked = ("logger=[]", "loss=quantile", "trainer.max_epochs=30", "callbacks.early_stopping.patience=2")
    more = ("optimizer.lr=0.05", "schedule=plateau", "data.transform=asinh", "features=S", "data.target=load")
    assert run_training(workplace(tmp_path), *asked, *more) == 0
    run = only(tmp_path, "runs/*")
    losses = pd.read_csv(run / "metrics.csv")["val/quantile_loss"]
    assert losses.argmin() == len(losses) - 3 < 27
    assert completed_epochs(load_checkpoint(run / "checkpoints" / "best.ckpt")) == 1 + losses.argmin()
    assert read_metrics(run)["best_epoch"] == 1 + losses.argmin()


@pytest.mark.parametrize(("model", "loss"), [("OneLayer", "quantile"), ("ShrunkLinear", "mse")])
def test_a_model_of_ones_own_is_trained_tested_refitted_and_used(tmp_path: Path, model: str, loss: str) -> None:
    """In this process and in another one, which know the models of `tests.support.own_model`."""
    asked = ("trainer.max_epochs=2", "logger=[]", "optimizer.lr=1e-2", f"loss={loss}", "refit=full")
    named = f"model._target_=tests.support.own_model.{model}"
    assert run_training(workplace(tmp_path), *asked, named) == 0
    run = only(tmp_path, "runs/*")
    metrics = read_metrics(run)
    assert metrics["test"]["mse"] < metrics["baselines"]["naive"]["mse"]
    assert (run / "checkpoints" / "refit.ckpt").is_file()
    if model == "ShrunkLinear":
        assert metrics["test"]["mse"] == pytest.approx(metrics["baselines"]["linear"]["mse"], rel=0.5)
        assert 0.5 <= metrics["shrinkage_weight"] <= 1 or metrics["best_epoch"] == 0
    else:
        assert metrics["shrinkage_weight"] == 1
        inputs = metrics["seq_len"] * len(pd.read_csv(run / "errors_by_variable.csv"))
        weights = metrics["n_parameters"] * inputs / (inputs + 1)  # without the biases
        assert 1e6 * metrics["mflops_per_window"] == pytest.approx(2 * weights)
    done = finish(start(tmp_path, f"checkpoint={run}", program=("-m", "forecast.predict"), settings=()))
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "forecast.csv")) == 5


# ---- `model=residual_informer`: never worse than its linear model

PRESET = ("model=residual_informer", "model.patch_len=4", "logger=[]")
HARMFUL = ("optimizer.lr=1", "optimizer.weight_decay=0", "schedule=constant", "trainer.max_epochs=5")


def test_linear_model_is_kept_if_training_lowers_no_score(tmp_path: Path) -> None:
    folder = workplace(tmp_path)
    asked = (*PRESET, *HARMFUL, "refit=full", "loss=quantile")
    assert run_training(folder, *asked) == 0
    run = only(folder, "runs/*")
    best = load_checkpoint(run / "checkpoints" / "best.ckpt")
    metrics = read_metrics(run)
    assert (completed_epochs(best), metrics["refit"]["epochs"]) == (0, 0)
    assert [*metrics["intervals"]] == ["conformal"]  # of quantiles that were not trained, none are used
    assert metrics["epochs"] == 3  # the patience, counted from the score before training
    for model in (load(run), load(run / "checkpoints" / "best.ckpt")):  # refitted on all rows, and tested
        frame = pd.read_csv(folder / "load.csv", parse_dates=["date"], index_col="date")[model.feature_columns]
        weight = model.network.state_dict()["linear.weight"].numpy()
        scaled = model.scaler.transform(torch.tensor(frame.to_numpy()[-12:]), series=0)[:, model.target_index]
        scaled = scaled.float().numpy()
        answer = torch.from_numpy(weight.T @ (scaled - scaled.mean(0)) + scaled.mean(0))
        (by_hand,) = model.target_scaler.inverse(answer[None], torch.tensor([0]))
        np.testing.assert_allclose(model.predict(frame).to_numpy(), by_hand, rtol=1e-4)
        with pytest.raises(ForecastError):
            model.predict(frame, levels=[80], intervals="quantile")


def test_what_is_learnt_enters_by_how_sure_validation_windows_are(tmp_path: Path, monkeypatch) -> None:
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
