"""The whole model of a sharded run."""

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import frame_data
from forecast.evaluation.baselines import FittedBaselines
from forecast.training.build import make_forecaster, make_model
from forecast.training.module import load_whole
from tests.support.configurations import composed_once, with_values


def test_the_whole_model_is_loaded_without_fitting_the_linear_model_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dates = pd.date_range("2024-01-01", periods=160, name="date")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(160, 3)), dates, ["load", "wind", "price"])
    frame["load"] += frame["price"]  # so that the linear model reads covariates
    sizes = {"name": "frame", "seq_len": 8, "pred_len": 2, "split": [0.6, 0.2, 0.2], "season": 7}
    data = frame_data(frame, past_covariates=["wind"], future_covariates=["price"], **sizes)
    data.setup()
    config = with_values(
        composed_once(), "seq_len=8", "pred_len=2", "label_len=2", "model.patch_len=2", "model.d_model=8",
        "model.n_heads=2", "model.d_ff=8", "loss=quantile",
    )  # fmt: skip
    trained = make_forecaster(config, data, FittedBaselines.fit(data)).eval()
    assert trained.model.state_dict()["linear.covariates"] is not None
    monkeypatch.setattr(FittedBaselines, "fit_linear", None)
    whole = load_whole(make_model(config, data), {"state_dict": trained.state_dict()}).eval()
    batch = data.windows["test"].gather(torch.arange(5))
    inputs = batch.past, batch.past_time, batch.future_time
    assert torch.equal(whole(*inputs), trained.model(*inputs))
