"""A model from a user's own module does what the package's models do, through the same commands."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.support.commands import finish, only, start, train, workplace

MODULE = "tests.support.own_model"
ASKED = ("trainer.max_epochs=2", "logger=[]", "optimizer.lr=1e-2")


def command(folder: Path, name: str, *overrides: str) -> None:
    """Run `python -m forecast.<name>`, and check that it succeeds."""
    program = ("-m", f"forecast.{name}")
    done = finish(start(folder, *overrides, program=program, settings=()))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        pytest.param("OneLayer", "mse", marks=pytest.mark.long),
        ("OneLayer", "quantile"),
        ("ShrunkLinear", "mse"),
    ],
)
def test_a_model_of_ones_own_is_trained_tested_refitted_and_used(
    tmp_path: Path, model: str, loss: str
) -> None:
    asked = (*ASKED, f"model._target_={MODULE}.{model}", f"loss={loss}", "refit=full")
    done = train(workplace(tmp_path), *asked)
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
