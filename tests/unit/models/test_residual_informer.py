from collections.abc import Sequence
from typing import Any

import pytest
import torch

from forecast.models import ResidualInformer
from forecast.models.base import WarmStart
from forecast.models.embedding import HARMONICS
from forecast.models.linear_model import LinearWeights, without_covariates
from forecast.models.residual import ResidualModel, arrange_quantiles
from tests.support.long_variants import every_nth
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


class FakeWarmStart(WarmStart):
    """A warm start with a given linear model, and the gaps between quantiles that raw outputs of zero stand for."""

    target_index: Sequence[int] = ()
    time_feature_names: Sequence[str] = FEATURES

    def __init__(self, weight: torch.Tensor, target_index: Sequence[int], n_quantiles: int) -> None:
        self.weight, self.target_index, self.n_quantiles = weight, target_index, n_quantiles

    def own_past_weight(self) -> torch.Tensor:
        return self.weight

    def linear_weights(self) -> LinearWeights:
        return without_covariates(self.weight)

    def error_quantiles(self, forecast: Any) -> torch.Tensor:
        gap = torch.nn.functional.softplus(torch.tensor(-1.0))
        return gap * torch.arange(self.n_quantiles).expand(len(self.target_index), -1)


def made(
    kind: str = "full", *, trained: bool = True, targets: tuple[int, ...] = (3, 1), **sizes: Any
) -> ResidualInformer:
    """A model with a random linear model; if `trained`, its head has random weights too."""
    torch.manual_seed(0)
    settings = {**SIZES, **sizes}
    model = ResidualInformer(attention=slots(kind), **settings)
    weight = torch.randn(settings["seq_len"], settings["pred_len"]) / settings["seq_len"]
    model.warm_start(FakeWarmStart(weight, targets, model.n_quantiles))
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


@pytest.mark.parametrize("tokens", ["mixed", "independent", "joint"])
@pytest.mark.parametrize("stride", [2, 3, 6])
def test_steps_share_time_features_as_if_they_had_equal_ones(tokens: str, stride: int) -> None:
    """Groups have the calendar features of their middle step, the later one of two, and the mean of the covariate."""
    past, past_time, future_time = inputs()
    model, read = made(tokens=tokens, time_stride=stride), 36
    model.time_embedding.set_calendar_features(FEATURES[:2])  # the third one is a covariate
    shared = past_time.clone()
    for first in range(SIZES["seq_len"] - read, SIZES["seq_len"], stride):
        group, middle = past_time[:, first : first + stride], {2: 1, 3: 1, 6: 3}[stride]
        shared[:, first : first + stride, :2] = group[:, [middle], :2]
        shared[:, first : first + stride, 2] = group[..., 2].mean(1, keepdim=True)
    by_step = made(tokens=tokens, time_stride=1)
    by_step.load_state_dict(model.state_dict())
    torch.testing.assert_close(
        model(past, past_time, future_time), by_step(past, shared, future_time), atol=1e-5, rtol=1e-4
    )
    assert not torch.allclose(model(past, past_time, future_time), by_step(past, past_time, future_time))


@pytest.mark.parametrize(("patch_len", "asked", "used"), [(24, 6, 6), (16, 6, 4), (7, 6, 1), (64, 6, 5)])
def test_the_stride_divides_the_patch(patch_len: int, asked: int, used: int) -> None:
    assert made(seq_len=50, patch_len=patch_len, time_stride=asked).time_stride == used


@pytest.mark.parametrize("kind", ATTENTION_TYPES)
def test_no_window_depends_on_another(kind: str) -> None:
    model = made(kind)
    past, past_time, future_time = inputs()
    alone = torch.cat([model(*(x[i : i + 1] for x in (past, past_time, future_time))) for i in range(BATCH)])
    torch.testing.assert_close(model(past, past_time, future_time), alone, atol=1e-5, rtol=1e-4)


ALL = {"n_targets": 5, "targets": (0, 1, 2, 3, 4)}
SOME: dict[str, Any] = {"n_targets": 2, "targets": (3, 1), "n_quantiles": 3}  # the others are covariates
OF_ONE: dict[str, Any] = {"n_targets": 1, "targets": (4,), "n_quantiles": 3}


@pytest.mark.parametrize("sizes", every_nth([SOME, ALL, OF_ONE], 3), ids=["covariates", "M", "MS"])
@pytest.mark.parametrize("tokens", ["independent", "joint"])
@pytest.mark.parametrize("kind", ATTENTION_TYPES)
def test_tokens_of_one_variable_each(kind: str, tokens: str, sizes: dict[str, Any]) -> None:
    """Shape, gradients and independent windows with several sequences to a window, or a sequence of several series."""
    model = made(kind, tokens=tokens, **sizes)
    past, past_time, future_time = inputs()
    together = model(past, past_time, future_time)
    alone = torch.cat([model(*(x[i : i + 1] for x in (past, past_time, future_time))) for i in range(BATCH)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    assert together.shape == (BATCH, SIZES["pred_len"], sizes["n_targets"] * sizes.get("n_quantiles", 1))
    model.train()(past, past_time, future_time).square().mean().backward()
    assert without_gradient(model) == []


@pytest.mark.parametrize("tokens", ["mixed", "independent", "joint"])
def test_which_variables_have_a_say(tokens: str) -> None:
    past, *times = inputs()
    changed = past.clone()
    changed[..., 2] += torch.randn(BATCH, SIZES["seq_len"])
    model = made(tokens=tokens, **ALL)
    moved = (model(changed, *times) - model(past, *times)).abs().amax(dim=(0, 1)) > 0
    assert moved.tolist() == [tokens != "independent"] * 2 + [True] + [tokens != "independent"] * 2
    model = made(tokens=tokens, **OF_ONE)
    assert torch.equal(model(changed, *times), model(past, *times)) == (tokens == "independent")


def test_independent_variables_are_all_forecast_alike() -> None:
    model = made(tokens="independent", **ALL)
    past, *times = inputs()
    order = [3, 0, 4, 1, 2]
    torch.testing.assert_close(model(past[..., order], *times), model(past, *times)[..., order])
    one = made(tokens="independent", **OF_ONE)(past, *times)
    alone = made(tokens="independent", **{**OF_ONE, "n_features": 1, "targets": (0,)})
    torch.testing.assert_close(one, alone(past[..., 4:], *times))


@pytest.mark.parametrize("kind", ["full", "linear", "fastformer"])
def test_joint_tokens_know_their_variable(kind: str) -> None:
    """Two variables of the same values differ by their names alone; which of them comes first is nothing."""
    model = made(kind, tokens="joint", **ALL)
    past, *times = inputs()
    past[..., 3] = past[..., 0]
    forecast = model(past, *times)
    assert not torch.allclose(forecast[..., 3], forecast[..., 0], atol=1e-3)
    assert model.channels.variable_embedding is not None
    torch.nn.init.zeros_(model.channels.variable_embedding)
    forecast = model(past, *times)
    torch.testing.assert_close(forecast[..., 3], forecast[..., 0], atol=1e-5, rtol=1e-4)


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


@pytest.mark.parametrize("step", [0, 1, 37])
def test_every_step_of_the_past_counts(step: int) -> None:
    """The first two lie before the first whole patch: only the linear model reads them."""
    model = made()
    past, past_time, future_time = inputs()
    changed = past.clone()
    changed[:, step] += 1
    assert (model(changed, past_time, future_time) - model(past, past_time, future_time)).abs().max() > 1e-3


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


def test_a_covariate_has_no_waves() -> None:
    embedding, time = made().time_embedding.eval(), inputs()[1]
    embedding.set_calendar_features(["hour", "day of week"])
    embedding(time).square().sum().backward()
    assert embedding.hidden.weight.grad is not None
    features, *waves = embedding.hidden.weight.grad.abs().sum(0).split([3, 3 * HARMONICS, 3 * HARMONICS])
    assert (features > 0).all()
    for wave in waves:
        assert ((wave.view(3, HARMONICS) > 0) == torch.tensor([[True], [True], [False]])).all()


def test_quantiles_lie_apart_in_units_of_the_window() -> None:
    """Of one target's three outputs the middle one forecasts its column; the others say how far quantiles lie apart."""
    model = made(**OF_ONE)
    past, *times = inputs()
    before, after = (arrange_quantiles(model(window, *times), 1) for window in (past, 9 * past + 100))
    torch.testing.assert_close(after[..., 1], 9 * before[..., 1] + 100, atol=1e-2, rtol=1e-3)
    torch.testing.assert_close(after.diff(), 9 * before.diff(), atol=1e-3, rtol=1e-3)


def test_quantiles_begin_where_they_are_told_to() -> None:
    model = made(trained=False, **OF_ONE)
    model.set_quantile_gaps(
        torch.tensor([[-200.0, 1.0, 1.5]])
    )  # a flat window's deviation is next to nothing
    past, *times = inputs()
    scale = model.window_std(past - past.mean(1, keepdim=True))[..., 4:, None]
    gaps = arrange_quantiles(model(past, *times), 1).diff() / scale
    torch.testing.assert_close(gaps, torch.tensor([201.0, 0.5]).expand_as(gaps), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("tokens", ["mixed", "independent"])
def test_a_target_without_values_has_the_mean_gaps_of_the_others(tokens: str) -> None:
    model = made(trained=False, n_quantiles=3, tokens=tokens)
    model.set_quantile_gaps(torch.tensor([[-1.0, 0.0, 2.0], [torch.nan] * 3]))
    past, *times = inputs()
    scale = model.window_std(past - past.mean(1, keepdim=True))[..., list(model.target_index), None]
    gaps = arrange_quantiles(model(past, *times), 2).diff() / scale
    torch.testing.assert_close(gaps, torch.tensor([1.0, 2.0]).expand_as(gaps), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("label_len", [5, 13])
def test_the_labels_are_whole_patches(label_len: int) -> None:
    assert made(label_len=label_len).label_len == label_len // 6 * 6


@pytest.mark.parametrize("attention_type", ["full", "nystrom"])
def test_the_queries_of_a_layer_are_those_that_it_answers(attention_type: str) -> None:
    """With one decoder layer, cross-attention of independent queries answers the horizon alone."""
    torch.manual_seed(0)
    model = ResidualInformer(attention=slots("full", cross=attention_type), **SIZES)
    lengths = {layer.slot: len(layer.query_steps) for layer in model.attention_layers()}
    is_cut = attention_type == "full"
    assert lengths == {"encoder": 6, "decoder": 5, "cross": 3 if is_cut else 5}


def test_a_window_shorter_than_a_patch_is_one_token() -> None:
    model = made(patch_len=39)
    assert (model.patch_len, model.past_tokens, model.future_tokens) == (38, 1, 1)
