from typing import Any

import pytest
import torch

from forecast.models import ResidualMLP
from tests.support.models import without_gradient
from tests.unit.models.test_residual_informer import (
    BATCH,
    FEATURES,
    check_is_linear_model,
    inputs,
    warm_start,
)

# All sizes distinct, so that no swapped axis can pass.
SIZES: dict[str, Any] = {
    "n_features": 5, "n_targets": 2, "n_time_features": 3, "seq_len": 38, "pred_len": 17, "d_hidden": 12,
    "d_calendar": 7, "dropout": 0.0,
}  # fmt: skip


def made(
    *, trained: bool = True, targets: tuple[int, ...] = (3, 1), calendar: int = 3, **sizes: Any
) -> ResidualMLP:
    """A model with a random linear model; if `trained`, its head has random weights too."""
    torch.manual_seed(0)
    model = ResidualMLP(**{**SIZES, "n_targets": len(targets), **sizes})
    weight = torch.randn(38, 17) / 38
    model.warm_start(warm_start(weight, targets, model.n_quantiles, FEATURES[:calendar]))
    if trained:
        torch.nn.init.normal_(model.out.weight)
    return model.eval()


@pytest.mark.parametrize("n_quantiles", [1, 3])
@pytest.mark.parametrize("tokens", ["mixed", "independent"])
def test_before_training_it_is_the_linear_model(tokens: str, n_quantiles: int) -> None:
    check_is_linear_model(made(trained=False, tokens=tokens, n_quantiles=n_quantiles), [3, 1])


@pytest.mark.parametrize("tokens", ["mixed", "independent"])
def test_every_parameter_learns_and_no_window_depends_on_another(tokens: str) -> None:
    model, (past, past_time, future_time) = made(tokens=tokens), inputs()
    together = model(past, past_time, future_time)
    alone = torch.cat([model(*(x[i : i + 1] for x in (past, past_time, future_time))) for i in range(BATCH)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    model.train()(past, past_time, future_time).square().mean().backward()
    assert without_gradient(model) == []


def test_a_covariate_is_read_at_each_step_relative_to_its_past() -> None:
    """The second and third time features are covariates: the level of their past does not reach the first layer."""
    model, (past, past_time, future_time) = made(calendar=1), inputs()
    read = model.time_embedding.relative_covariates(past_time, future_time)
    shifted = model.time_embedding.relative_covariates(past_time + 5, future_time + 5)
    torch.testing.assert_close(read, shifted, atol=1e-5, rtol=1e-4)
    assert (read[..., 0] == 0).all()
    torch.testing.assert_close(read[:, :38, 1:].mean(1), torch.zeros(BATCH, 2), atol=1e-5, rtol=0)
    before = model(past, past_time, future_time)
    for steps, covariates in ((past_time, past_time.clone()), (future_time, future_time.clone())):
        for step in (0, 16):
            covariates[:, step, 2] += 1
            times = (covariates, future_time) if steps is past_time else (past_time, covariates)
            assert not torch.equal(model(past, *times), before)
