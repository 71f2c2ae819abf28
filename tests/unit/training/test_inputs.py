"""The inputs that a tested forecast reads, with and without a correction of the linear model."""

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import DataModule, frame_data
from forecast.linear.covariate_steps import covariates_of_linear
from forecast.models import ResidualInformer
from forecast.models.linear_model import LinearModel, LinearWeights, without_covariates
from forecast.training.create_model import covariates_of_model, list_inputs
from tests.support.models import slots
from tests.support.windows import set_up

SEQ_LEN, PRED_LEN = 6, 3
CALENDAR = 3  # day of week, of month, of year


@pytest.fixture(scope="module")
def data() -> DataModule:
    dates = pd.date_range("2024-01-01", periods=120, name="date")
    values = np.random.default_rng(0).normal(size=(120, 5))
    return set_up(frame_data(
        pd.DataFrame(values, dates, ["load", "wind", "rain", "price", "tariff"]), name="frame", seq_len=SEQ_LEN,
        pred_len=PRED_LEN, split=[0.6, 0.2, 0.2], past_covariates=["wind", "rain"],
        future_covariates=["price", "tariff"], season=7,
    ))  # fmt: skip


def model(data: DataModule, **settings) -> ResidualInformer:
    """A model whose linear part reads the rain three days ago and the price of the second day to come."""
    made = ResidualInformer(
        n_features=data.n_features, n_targets=1, n_time_features=data.n_time_features, seq_len=SEQ_LEN, label_len=2,
        pred_len=PRED_LEN, patch_len=2, attention=slots("full"), d_model=8, n_heads=2, **settings,
    )  # fmt: skip
    rain = torch.tensor([(SEQ_LEN - 3) * data.n_features + data.feature_columns.index("rain")])
    price = torch.tensor([(SEQ_LEN + 1) * data.n_time_features + CALENDAR])
    if isinstance(made.linear, LinearModel):
        own, covariates = torch.zeros(SEQ_LEN, PRED_LEN), torch.ones(1, 2, PRED_LEN)
        made.linear.set_weights(LinearWeights(own, covariates, rain, price))
    return made


LINEAR = ["past of load", "past of rain", "past and future of price"]
ALL = [
    *(f"past of {name}" for name in ("load", "wind", "rain")),
    *(f"past and future of {name}" for name in ("price", "tariff")), "calendar",
]  # fmt: skip


def test_the_linear_model_alone(data: DataModule) -> None:
    assert list_inputs(model(data), data, untrained=True) == LINEAR
    assert list_inputs(model(data), data, untrained=False) == ALL


def test_what_is_named_is_what_moves_the_forecast(data: DataModule) -> None:
    made, batch = model(data).eval(), data.windows["test"].gather(torch.arange(4))
    inputs = {"past": batch.past, "past_time": batch.past_time, "future_time": batch.future_time}
    before = made(**inputs)
    columns = {
        "past of load": ("past", 0), "past of wind": ("past", 1), "past of rain": ("past", 2),
        "past and future of price": ("future_time", CALENDAR),
        "past and future of tariff": ("future_time", CALENDAR + 1),
        "calendar": ("future_time", 0),
    }  # fmt: skip
    named = list_inputs(made, data, untrained=True)
    for text, (part, column) in columns.items():
        changed = inputs[part].clone()
        changed[..., column] += torch.randn(changed.shape[:2])
        assert torch.equal(made(**{**inputs, part: changed}), before) == (text not in named), text


def test_which_future_covariates_are_read_after_the_origin(data: DataModule) -> None:
    made, both = model(data), {0: True, 1: True}
    assert covariates_of_model(made, data.scaled, untrained=True) == {0: True}
    assert covariates_of_model(made, data.scaled, untrained=False) == both
    partly = model(data, tokens="independent", future_calendar=False)
    assert covariates_of_model(partly, data.scaled, untrained=False) == {0: True, 1: False}
    assert covariates_of_linear(without_covariates(torch.zeros(SEQ_LEN, PRED_LEN)), data.scaled) == {}
