import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from forecast.evaluation.intervals import crps_weights, pinball
from forecast.evaluation.scores import probabilities
from forecast.models.residual import arrange_quantiles


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


def test_crps_of_many_quantiles_is_the_closed_form_of_a_normal_forecast() -> None:
    at = [(i + 0.5) / 999 for i in range(999)]
    target = torch.tensor([-1.3, 0.0, 0.4, 2.5], dtype=torch.float64)
    normal = torch.distributions.Normal(0.0, 1.0)
    quantiles = normal.icdf(torch.tensor(at, dtype=torch.float64)).expand(4, -1)
    ours = pinball(quantiles, target, at) @ crps_weights(at)
    # Gneiting and Raftery 2007, equation 21
    density = normal.log_prob(target).exp()
    closed = target * (2 * normal.cdf(target) - 1) + 2 * density - 1 / math.sqrt(math.pi)
    np.testing.assert_allclose(ours, closed, atol=2e-3)
    assert crps_weights(probabilities([80, 95])).sum().item() == pytest.approx(2)
