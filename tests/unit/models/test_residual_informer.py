from collections.abc import Sequence
from typing import Any

import pytest
import torch

from forecast.models import ResidualInformer
from forecast.models.base import WarmStart
from forecast.models.linear_model import without_covariates
from forecast.models.residual import ResidualModel, arrange_quantiles
from tests.support.models import ATTENTION_TYPES, slots, without_gradient

pytestmark = pytest.mark.slow

# All sizes distinct, so that no swapped axis can pass; neither length is a multiple of the patch.
SIZES: dict[str, Any] = {
    "n_features": 5,
    "n_targets": 2,
    "n_time_features": 3,
    "seq_len": 38,
    "label_len": 13,
    "pred_len": 17,
    "patch_len": 6,
    "d_model": 12,
    "n_heads": 4,
    "d_ff": 18,
    "d_calendar": 7,
    "dropout": 0.0,
}
BATCH = 8
FEATURES = ("hour", "day of month", "day of year")


def warm_start(
    weight: torch.Tensor, targets: Sequence[int], n_quantiles: int, names: Sequence[str] = FEATURES
) -> WarmStart:
    """A warm start with a given linear model, and the gaps between quantiles that raw outputs of zero stand for."""
    gap = torch.nn.functional.softplus(torch.tensor(-1.0))
    quantiles = gap * torch.arange(n_quantiles).expand(len(targets), -1)
    return WarmStart(targets, names, without_covariates(weight), lambda forecast: quantiles)


def made(
    kind: str = "full", *, trained: bool = True, targets: tuple[int, ...] = (3, 1), **sizes: Any
) -> ResidualInformer:
    """A model with a random linear model; if `trained`, its head has random weights too."""
    torch.manual_seed(0)
    settings = {**SIZES, **sizes}
    model = ResidualInformer(attention=slots(kind), **settings)
    weight = torch.randn(settings["seq_len"], settings["pred_len"]) / settings["seq_len"]
    model.warm_start(warm_start(weight, targets, model.n_quantiles))
    if trained:
        torch.nn.init.normal_(model.head.out.weight)
    return model.eval()


def inputs(batch: int = BATCH) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    past = 3 + 2 * torch.randn(batch, SIZES["seq_len"], SIZES["n_features"])
    times = (
        torch.rand(batch, SIZES[name], SIZES["n_time_features"]) - 0.5 for name in ("seq_len", "pred_len")
    )
    return past, *times


def check_is_linear_model(model: ResidualModel, columns: list[int]) -> None:
    """An untrained model forecasts these columns as its linear model does; with quantiles, as their median."""
    past, *times = inputs()
    mean = past.mean(1, keepdim=True)
    assert model.linear is not None
    by_hand = torch.einsum("blc,lp->bpc", past - mean, model.linear.weight) + mean
    found = model(past, *times)
    if model.n_quantiles > 1:
        found = arrange_quantiles(found, len(columns))[..., model.n_quantiles // 2]
    torch.testing.assert_close(found, by_hand[..., columns])
    assert torch.equal(model.forecast_untrained(past, *times), found)  # without the correction


@pytest.mark.parametrize("tokens", ["mixed", "independent", "joint"])
def test_before_training_it_is_the_linear_model(tokens: str) -> None:
    columns = [3, 1] if tokens == "mixed" else [3]
    sizes = {} if tokens == "mixed" else {"n_targets": 1, "targets": (3,)}
    check_is_linear_model(made(trained=False, tokens=tokens, **sizes), columns)


@pytest.mark.parametrize("kind", ATTENTION_TYPES)
def test_shape_and_gradients(kind: str) -> None:
    model = made(kind).train()
    forecast = model(*inputs())
    assert forecast.shape == (BATCH, SIZES["pred_len"], SIZES["n_targets"])
    forecast.square().mean().backward()
    assert without_gradient(model) == []


@pytest.mark.parametrize("kind", ATTENTION_TYPES)
def test_matched_models_have_the_parameters_of_full_attention(kind: str) -> None:
    """Up to half a unit of the feed-forward in each of the layers."""

    def count(name: str, match: str | None) -> int:
        return sum(p.numel() for p in made(name, match=match).parameters())

    full = count("full", None)
    assert count("full", "parameters") == full
    layers = len(made(kind).encoder.layers) + len(made(kind).decoder)
    assert abs(count(kind, "parameters") - full) <= layers * (2 * SIZES["d_model"] + 1) / 2
    assert count("none", None) < count("none", "parameters")


@pytest.mark.parametrize("kind", ATTENTION_TYPES)
def test_no_window_depends_on_another(kind: str) -> None:
    model = made(kind)
    past, past_time, future_time = inputs()
    alone = torch.cat([model(*(x[i : i + 1] for x in (past, past_time, future_time))) for i in range(BATCH)])
    torch.testing.assert_close(model(past, past_time, future_time), alone, atol=1e-5, rtol=1e-4)


SOME: dict[str, Any] = {"n_targets": 2, "targets": (3, 1), "n_quantiles": 3}  # the others are covariates
OF_ONE: dict[str, Any] = {"n_targets": 1, "targets": (4,), "n_quantiles": 3}


def test_level_and_scale_of_a_window_come_back() -> None:
    model = made()
    past, *times = inputs()
    torch.testing.assert_close(
        model(7 * past - 40, *times), 7 * model(past, *times) - 40, atol=2e-3, rtol=1e-3
    )
    without = made(normalize=False)
    assert not torch.allclose(without(7 * past - 40, *times), 7 * without(past, *times) - 40, atol=1)


def test_each_step_of_the_horizon_hears_its_own_calendar() -> None:
    model = made()
    past, past_time, future_time = inputs()
    before = model(past, past_time, future_time)
    changed = future_time.clone()
    changed[:, 9] = -changed[:, 9]
    moved = (model(past, past_time, changed) - before).abs().amax(dim=(0, 2))
    assert moved.argmax() == 9
    deaf = made(future_calendar=False)
    torch.testing.assert_close(deaf(past, past_time, changed), deaf(past, past_time, future_time))


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
