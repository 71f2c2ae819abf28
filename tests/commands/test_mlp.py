"""`model=mlp` from the command line to its forecasts: it learns from covariates what a linear model cannot."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.inference.model import load
from tests.support.commands import PLAIN, answer, only

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


def test_it_learns_what_no_linear_model_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table().to_csv(tmp_path / "history.csv")
    assert answer(monkeypatch, "train", tmp_path, *OPTIONS) == 0
    run = only(tmp_path, "runs/*")
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["test"]["mse"] < 0.2 * metrics["baselines"]["linear"]["mse"]
    assert metrics["attention"] == "mlp"
    assert run.name.split("_")[2] == f"mlp-csv-{AHEAD}-s1"
    assert load(run).network.attention_layers() == []
