from typing import Any

import numpy as np
import pytest
import torch

from forecast.models import PatchEncoder
from tests.support.models import ATTENTION_TYPES, slots, without_gradient
from tests.unit.models.test_residual_informer import BATCH, check_is_linear_model, inputs, warm_start

# All sizes distinct, so that no swapped axis can pass; neither length is a multiple of the patch.
SIZES: dict[str, Any] = {
    "n_features": 5, "n_time_features": 3, "seq_len": 38, "pred_len": 17, "patch_len": 6, "d_model": 12, "n_heads": 4,
    "d_ff": 18, "d_hidden": 14, "d_calendar": 7, "dropout": 0.0,
}  # fmt: skip
TOKENS = pytest.mark.parametrize("tokens", ["mixed", "independent", "joint", "axes"])


def made(
    kind: str = "full",
    *,
    variables: str | None = None,
    trained: bool = True,
    targets: tuple[int, ...] = (3, 1),
    **sizes: Any,
) -> PatchEncoder:
    """A model with a random linear model; if `trained`, its head has random weights too.

    `variables` is the attention type of layers over variables; None: the slots have none, as in older checkpoints.
    """
    torch.manual_seed(0)
    attention = slots(kind)
    if variables is not None:
        attention["variables"] = {"encoder": slots(variables)["encoder"]}
    model = PatchEncoder(attention=attention, **{**SIZES, "n_targets": len(targets), **sizes})
    model.warm_start(warm_start(torch.randn(38, 17) / 38, targets, model.n_quantiles))
    if trained:
        torch.nn.init.normal_(model.out.weight)
    return model.eval()


@pytest.mark.parametrize("n_quantiles", [1, 3])
@TOKENS
def test_before_training_it_is_the_linear_model(tokens: str, n_quantiles: int) -> None:
    check_is_linear_model(made(trained=False, tokens=tokens, n_quantiles=n_quantiles), [3, 1])


@pytest.mark.parametrize("kind", ATTENTION_TYPES)
def test_every_parameter_learns_and_no_window_depends_on_another(kind: str) -> None:
    model, (past, past_time, future_time) = made(kind), inputs()
    together = model(past, past_time, future_time)
    alone = torch.cat([model(*(x[i : i + 1] for x in (past, past_time, future_time))) for i in range(BATCH)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    model.train()(past, past_time, future_time).square().mean().backward()
    assert without_gradient(model) == []


def test_the_correction_reads_the_calendar_of_the_horizon_but_not_of_the_past() -> None:
    model, (past, past_time, future_time) = made(), inputs()
    before = model(past, past_time, future_time)
    assert torch.equal(model(past, past_time + 0.1, future_time), before)
    assert not torch.equal(model(past, past_time, future_time + 0.1), before)


@TOKENS
def test_attention_layers_name_the_steps_of_their_tokens(tokens: str) -> None:
    model = made(tokens=tokens)
    steps = [5, 11, 17, 23, 29, 35, 41, 47, 53]  # middles of six patches of the past and three of the horizon
    variables = 6  # five columns and the time features
    for number, layer in enumerate(model.attention_layers()):
        assert layer.name == f"encoder.layers.{number}.attention"
        expected = steps * (variables if tokens == "joint" else 1)
        if over_variables := tokens == "axes" and number == 1:
            expected = steps[-1:] * variables
        assert layer.slot == ("variables" if over_variables else "encoder")
        np.testing.assert_array_equal(layer.query_steps, expected)
    assert len(model.attention_layers()) == 2


@pytest.mark.parametrize("tokens", ["joint", "axes"])
def test_covariates_of_the_past_and_the_horizon_are_one_more_variable(tokens: str) -> None:
    model, (past, past_time, future_time) = made(tokens=tokens), inputs()
    before = model(past, past_time, future_time)
    changed = past_time.clone()
    changed[:, 3] += 1  # a step of the oldest patch
    assert not torch.equal(model(past, changed, future_time), before)
    assert model.channels.n_variables == 6
    without = made(tokens=tokens, n_time_features=0)
    assert without.channels.n_variables == 5
    assert without(past, past_time[..., :0], future_time[..., :0]).shape == before.shape
