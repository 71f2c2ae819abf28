"""`model=mlp`, training with `loss=quantile`, and a model from a user's own module, through the same commands."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.checkpoints.contents import completed_epochs
from forecast.checkpoints.file import load_checkpoint
from forecast.inference.model import load
from tests.support.commands import PLAIN, finish, only, run_command, run_training, start, train, workplace

ROWS, AHEAD = 1500, 5
OPTIONS = (
    "model=mlp", "seq_len=12", "label_len=6", f"pred_len={AHEAD}", "model.d_hidden=32", "model.dropout=0.0",
    "data=csv", "data.path=history.csv", "data.columns=[load]", "data.future_covariates=[temperature]",
    "data.batch_size=32", "optimizer.lr=0.01", "trainer.max_epochs=8", "loss=quantile", "logger=[]", PLAIN,
)  # fmt: skip


def table() -> pd.DataFrame:
    """A load that is the absolute value of a temperature around zero."""
    random = np.random.default_rng(0)
    temperature = random.normal(size=ROWS)
    dates = pd.date_range("2024-01-01", periods=ROWS, freq="h", name="date")
    load = np.abs(temperature) + 0.1 * random.normal(size=ROWS)
    return pd.DataFrame({"load": load, "temperature": temperature}, dates)


def test_it_learns_what_no_linear_model_can(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "history.csv")
    assert run_command("train", tmp_path, *OPTIONS) == 0
    run = only(tmp_path, "runs/*")
    metrics = json.loads((run / "metrics.json").read_text())
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
    assert json.loads((run / "metrics.json").read_text())["best_epoch"] == 1 + losses.argmin()


def command(folder: Path, name: str, *overrides: str) -> None:
    """Run `python -m forecast.<name>` as a process, which knows the models of `tests.support.own_model`."""
    done = finish(start(folder, *overrides, program=("-m", f"forecast.{name}"), settings=()))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("model", "loss"), [("OneLayer", "quantile"), ("ShrunkLinear", "mse")])
def test_a_model_of_ones_own_is_trained_tested_refitted_and_used(
    tmp_path: Path, model: str, loss: str
) -> None:
    asked = ("trainer.max_epochs=2", "logger=[]", "optimizer.lr=1e-2", f"loss={loss}", "refit=full")
    done = train(workplace(tmp_path), *asked, f"model._target_=tests.support.own_model.{model}")
    assert done.returncode == 0, done.stderr
    run = only(tmp_path, "runs/*")
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["test"]["mse"] < metrics["baselines"]["naive"]["mse"]
    assert (run / "checkpoints" / "refit.ckpt").is_file()
    if model == "ShrunkLinear":
        assert metrics["test"]["mse"] == pytest.approx(metrics["baselines"]["linear"]["mse"], rel=0.5)
        assert 0.5 <= metrics["shrinkage_weight"] <= 1 or metrics["best_epoch"] == 0
    else:
        assert metrics["shrinkage_weight"] == 1
    command(tmp_path, "predict", f"checkpoint={run}", "output=forecast.csv")
    assert len(pd.read_csv(tmp_path / "forecast.csv")) == 5
    command(tmp_path, "evaluate", f"checkpoint={run}/checkpoints/best.ckpt", "output=scores.json")
