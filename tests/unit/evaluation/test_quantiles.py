import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import mean_pinball_loss

from forecast.evaluation.intervals import crps_weights, pinball
from forecast.evaluation.levels import bounds, probabilities
from forecast.models.residual import arrange_quantiles


def test_bounds_of_a_level_hold_it_in_the_middle() -> None:
    assert bounds(80) == (0.1, 0.9)
    assert bounds(95) == (0.025, 0.975)


def test_probabilities_are_symmetric_about_a_median() -> None:
    at = probabilities([95, 80, 33])
    assert at[len(at) // 2] == 0.5
    assert at == tuple(sorted(at))
    assert np.allclose(np.add(at, at[::-1]), 1)
    assert {0.025, 0.975, 0.335, 0.665} < set(at)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 11]), st.sampled_from([0.01, 1.0, 30.0]))
def test_quantiles_never_cross_and_the_middle_output_is_the_median(seed: int, n: int, size: float) -> None:
    raw = size * torch.randn(2, 5, 3 * n, generator=torch.Generator().manual_seed(seed))
    quantiles = arrange_quantiles(raw, n_targets=3)
    assert quantiles.shape == (2, 5, 3, n)
    assert (quantiles.diff(dim=-1) >= 0).all()
    assert torch.equal(quantiles[..., n // 2], raw.unflatten(-1, (3, n))[..., n // 2])


def test_bfloat16_outputs_are_held_to_the_probabilities_asked_for() -> None:
    quantiles = arrange_quantiles(torch.zeros(1, 1, 3, dtype=torch.bfloat16), 1)
    assert quantiles.dtype == torch.float32
    loss = pinball(quantiles, torch.full((1, 1, 1), 100.0), [0.005, 0.5, 0.995])
    assert loss[..., 2].item() == pytest.approx(0.995 * (100 - quantiles[..., 2].item()))


def test_every_output_has_a_gradient() -> None:
    raw = torch.randn(2, 4, 2 * 5, requires_grad=True)
    pinball(
        arrange_quantiles(raw, 2), torch.randn(2, 4, 2), probabilities([], others=[0.1, 0.3, 0.7, 0.9])
    ).mean().backward()
    assert raw.grad is not None
    assert (raw.grad != 0).all()


def test_pinball_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    target, quantile = rng.normal(size=200), rng.normal(size=(200, 3))
    ours = pinball(torch.tensor(quantile), torch.tensor(target), [0.1, 0.5, 0.8]).mean(0)
    for i, p in enumerate([0.1, 0.5, 0.8]):
        assert ours[i].item() == pytest.approx(mean_pinball_loss(target, quantile[:, i], alpha=p))


@pytest.mark.slow
def test_training_with_pinball_finds_the_quantiles_of_a_distribution() -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(20_000, 1, 1, generator=generator)
    at = probabilities([80], others=[0.25, 0.75])
    raw = torch.zeros(1, 1, len(at), requires_grad=True)
    optimizer = torch.optim.Adam([raw], lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        pinball(arrange_quantiles(raw, 1).expand(len(target), -1, -1, -1), target, at).mean().backward()
        optimizer.step()
    np.testing.assert_allclose(arrange_quantiles(raw, 1).detach().flatten(), norm.ppf(at), atol=0.04)


def test_crps_of_many_quantiles_is_the_closed_form_of_a_normal_forecast() -> None:
    at = [(i + 0.5) / 999 for i in range(999)]
    target = torch.tensor([-1.3, 0.0, 0.4, 2.5], dtype=torch.float64)
    quantiles = torch.tensor(norm.ppf(at)).expand(4, -1)
    ours = pinball(quantiles, target, at) @ crps_weights(at)
    y = target.numpy()  # Gneiting and Raftery 2007, equation 21
    closed = y * (2 * norm.cdf(y) - 1) + 2 * norm.pdf(y) - 1 / math.sqrt(math.pi)
    np.testing.assert_allclose(ours, closed, atol=2e-3)
    assert crps_weights(probabilities([80, 95])).sum().item() == pytest.approx(2)
