"""The networks that correct the linear model: on patches with a decoder, on patches with a flat head, a perceptron."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from forecast.models import PatchEncoder, ResidualInformer, ResidualMLP
from forecast.models.base import WarmStart
from forecast.models.linear_model import without_covariates
from forecast.models.residual import ResidualModel, arrange_quantiles
from tests.support.models import ATTENTION_TYPES, slots, without_gradient

pytestmark = pytest.mark.slow

# All sizes distinct, so that no swapped axis can pass; neither length is a multiple of the patch.
SIZES: dict[str, Any] = {
    "n_features": 5, "n_time_features": 3, "seq_len": 38, "pred_len": 17, "d_calendar": 7, "dropout": 0.0,
}  # fmt: skip
ON_PATCHES = {"patch_len": 6, "d_model": 12, "n_heads": 4, "d_ff": 18}
SIZES_OF: dict[type[ResidualModel], dict[str, int]] = {
    ResidualInformer: {**ON_PATCHES, "label_len": 13},
    PatchEncoder: {**ON_PATCHES, "d_hidden": 14},
    ResidualMLP: {"d_hidden": 12},
}
BATCH = 8
FEATURES = ("hour", "day of month", "day of year")
LAYOUTS = [(model, tokens) for model in SIZES_OF for tokens in model.layouts]


def warm_start(weight: Tensor, targets: Sequence[int], n_quantiles: int, names: Sequence[str] = FEATURES) -> WarmStart:
    """A warm start with a given linear model, and the gaps between quantiles that raw outputs of zero stand for."""
    gap = torch.nn.functional.softplus(torch.tensor(-1.0))
    quantiles = gap * torch.arange(n_quantiles).expand(len(targets), -1)
    return WarmStart(targets, names, without_covariates(weight), lambda forecast: quantiles)


def made(
    cls: type[ResidualModel] = ResidualInformer, kind: str = "full", *, calendar: int = 3, trained: bool = True,
    **sizes: Any,
) -> Any:  # fmt: skip
    """A model of columns 3 and 1 with a random linear model; if `trained`, its head has random weights too."""
    torch.manual_seed(0)
    model = cls(attention=slots(kind), n_targets=2, **{**SIZES, **SIZES_OF[cls], **sizes})
    model.warm_start(warm_start(torch.randn(38, 17) / 38, (3, 1), model.n_quantiles, FEATURES[:calendar]))
    if trained:
        torch.nn.init.normal_(model.out.weight)
    return model.eval()


def inputs() -> tuple[Tensor, ...]:
    torch.manual_seed(1)
    past = 3 + 2 * torch.randn(BATCH, 38, 5)
    return past, torch.rand(BATCH, 38, 3) - 0.5, torch.rand(BATCH, 17, 3) - 0.5


@pytest.mark.parametrize("n_quantiles", [1, 3])
@pytest.mark.parametrize(("cls", "tokens"), LAYOUTS)
def test_before_training_it_is_the_linear_model(cls: type[ResidualModel], tokens: str, n_quantiles: int) -> None:
    """With quantiles, their median is."""
    model, (past, *times) = made(cls, trained=False, tokens=tokens, n_quantiles=n_quantiles), inputs()
    mean = past.mean(1, keepdim=True)
    by_hand = torch.einsum("blc,lp->bpc", past - mean, model.linear.weight) + mean
    found = model(past, *times)
    if n_quantiles > 1:
        found = arrange_quantiles(found, 2)[..., n_quantiles // 2]
    torch.testing.assert_close(found, by_hand[..., [3, 1]])
    assert torch.equal(model.forecast_untrained(past, *times), found)  # without the correction


@pytest.mark.parametrize(
    ("cls", "kind", "tokens"),
    [
        *((ResidualInformer, kind, "mixed") for kind in ATTENTION_TYPES),
        *((PatchEncoder, kind, "independent") for kind in ATTENTION_TYPES),
        *((ResidualMLP, "full", tokens) for tokens in ResidualMLP.layouts),
    ],
)
def test_every_parameter_learns_and_windows_are_independent(cls: type[ResidualModel], kind: str, tokens: str) -> None:
    model, x = made(cls, kind, tokens=tokens), inputs()
    together = model(*x)
    assert together.shape == (BATCH, 17, 2)
    alone = torch.cat([model(*(part[i : i + 1] for part in x)) for i in range(BATCH)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    model.train()(*x).square().mean().backward()
    assert without_gradient(model) == []


@pytest.mark.parametrize(("cls", "tokens"), LAYOUTS)
def test_every_step_of_the_past_influences_the_correction(cls: type[ResidualModel], tokens: str) -> None:
    """38 steps hold six patches of 6: networks on patches read the two oldest steps only in the window's scale."""
    model, (past, past_time, future_time) = made(cls, tokens=tokens), inputs()
    linear = torch.randn(BATCH, 17, 5, requires_grad=True)
    model.correct(past.requires_grad_(), linear, past_time, future_time).square().sum().backward()
    assert past.grad is not None
    assert linear.grad is not None
    unread = 0 if cls is ResidualMLP else 2
    assert (past.grad.abs().amax((0, 2)) > 0).tolist() == [False] * unread + [True] * (38 - unread)
    assert (linear.grad[..., [1, 3]].abs().amax((0, 2)) > 0).all()


@pytest.mark.parametrize("kind", ATTENTION_TYPES)
def test_matched_models_have_the_parameters_of_full_attention(kind: str) -> None:
    """Up to half a unit of the feed-forward in each of the layers."""

    def count(name: str, match: str | None) -> int:
        return sum(p.numel() for p in made(kind=name, match=match).parameters())

    full = count("full", None)
    assert count("full", "parameters") == full
    layers = len(made(kind=kind).encoder.layers) + len(made(kind=kind).decoder)
    assert abs(count(kind, "parameters") - full) <= layers * (2 * ON_PATCHES["d_model"] + 1) / 2
    assert count("none", None) < count("none", "parameters")


def test_level_and_scale_of_a_window_come_back() -> None:
    model, (past, *times) = made(), inputs()
    torch.testing.assert_close(model(7 * past - 40, *times), 7 * model(past, *times) - 40, atol=2e-3, rtol=1e-3)
    without = made(normalize=False)
    assert not torch.allclose(without(7 * past - 40, *times), 7 * without(past, *times) - 40, atol=1)


def test_each_step_of_the_horizon_hears_its_own_calendar() -> None:
    model, (past, past_time, future_time) = made(), inputs()
    changed = future_time.clone()
    changed[:, 9] = -changed[:, 9]
    moved = model(past, past_time, changed) - model(past, past_time, future_time)
    assert moved.abs().amax(dim=(0, 2)).argmax() == 9
    deaf = made(future_calendar=False)
    torch.testing.assert_close(deaf(past, past_time, changed), deaf(past, past_time, future_time))
    flat = made(PatchEncoder)
    before = flat(past, past_time, future_time)
    assert torch.equal(flat(past, past_time + 0.1, future_time), before)
    assert not torch.equal(flat(past, past_time, future_time + 0.1), before)


@pytest.mark.parametrize("tokens", PatchEncoder.layouts)
def test_attention_layers_name_the_steps_of_their_tokens(tokens: str) -> None:
    layers = made(PatchEncoder, tokens=tokens).attention_layers()
    steps = [5, 11, 17, 23, 29, 35, 41, 47, 53]  # middles of six patches of the past and three of the horizon
    variables = 6  # five columns and the time features
    for number, layer in enumerate(layers):
        assert layer.name == f"encoder.layers.{number}.attention"
        expected = steps * (variables if tokens == "joint" else 1)
        if over_variables := tokens == "axes" and number == 1:
            expected = steps[-1:] * variables
        assert layer.slot == ("variables" if over_variables else "encoder")
        np.testing.assert_array_equal(layer.queries.steps, expected)
    assert len(layers) == 2


def test_a_covariate_is_read_at_each_step_relative_to_its_past() -> None:
    """The second and third time features are covariates: the level of their past does not reach the first layer."""
    model, (past, past_time, future_time) = made(ResidualMLP, calendar=1), inputs()
    read = model.time_embedding.relative_covariates(past_time, future_time)
    shifted = model.time_embedding.relative_covariates(past_time + 5, future_time + 5)
    torch.testing.assert_close(read, shifted, atol=1e-5, rtol=1e-4)
    assert (read[..., 0] == 0).all()
    torch.testing.assert_close(read[:, :38, 1:].mean(1), torch.zeros(BATCH, 2), atol=1e-5, rtol=0)
    before = model(past, past_time, future_time)
    for place in (0, 1):
        for step in (0, 16):
            times = [past_time.clone(), future_time.clone()]
            times[place][:, step, 2] += 1
            assert not torch.equal(model(past, *times), before)


def test_time_features_that_identify_a_day_are_shifted_only_in_training() -> None:
    embedding, time = made().time_embedding, inputs()[1]
    assert torch.equal(embedding(time), embedding(time))
    embedding.train()
    assert set(embedding.jitter) == {1, 2}
    for feature in (1, 2):
        embedding.jitter = {feature: 0.1}
        assert not torch.equal(embedding(time), embedding(time))
    embedding.set_calendar_features(["hour", "day of week"])
    assert torch.equal(embedding(time), embedding(time))
