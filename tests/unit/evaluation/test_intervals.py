import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data.scaler import Scaler
from forecast.evaluation.conformal import PROBABILITIES, Calibration
from forecast.evaluation.intervals import IntervalSums, crps_weights, make_interval_sums, pinball
from forecast.evaluation.scores import DECILES, explain_misses, probabilities
from forecast.models.residual import arrange_quantiles
from tests.support.calibrations import calibrate_errors


def test_scores_are_those_of_plain_loops_whatever_the_batches() -> None:
    generator = torch.Generator().manual_seed(0)
    at = probabilities([80, 95])
    quantiles = torch.randn(7, 4, 3, len(at), generator=generator).sort(dim=-1).values
    target = torch.randn(7, 4, 3, generator=generator)
    scale = torch.tensor([[1.0, 10.0, 0.5], [2.0, 1.0, 3.0]])
    series = torch.tensor([0, 1, 1, 0, 0, 1, 0])
    sums = IntervalSums(at, [80, 95], Scaler(torch.zeros_like(scale), scale), 4)
    covered = [sums.update(quantiles[part], target[part], series[part])[1] for part in (slice(0, 5), slice(5, 7))]
    scores, by_window = sums.compute(), torch.cat(covered, dim=1)

    q, y = quantiles.numpy(), target.numpy()
    for place, (level, (low, high)) in enumerate({80: (0.1, 0.9), 95: (0.025, 0.975)}.items()):
        lower, upper = q[..., at.index(low)], q[..., at.index(high)]
        found, inside = scores[str(level)], (lower <= y) & (y <= upper)
        assert isinstance(found, dict)
        assert found["coverage"] == pytest.approx(inside.mean())
        np.testing.assert_allclose(by_window[place], inside.mean((1, 2)))
        assert found["above"] == pytest.approx((y > upper).mean())
        assert found["below"] == pytest.approx((y < lower).mean())
        np.testing.assert_allclose(sums.coverage_by("step")[place], inside.mean((0, 2)))
        np.testing.assert_allclose(sums.coverage_by("variable")[place], inside.mean((0, 1)))
        assert found["width"] == pytest.approx((upper - lower).mean(), rel=1e-5)
        assert found["width_raw"] == pytest.approx(((upper - lower) * scale[series][:, None].numpy()).mean(), rel=1e-5)
        outside = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
        assert found["score"] == pytest.approx((upper - lower + 2 / (1 - level / 100) * outside).mean(), rel=1e-5)
    over = [y - q[..., at.index(p)] for p in DECILES]
    losses = [np.maximum(p * each, (p - 1) * each).mean() for p, each in zip(DECILES, over, strict=True)]
    assert scores["pinball"] == pytest.approx(np.mean(losses), rel=1e-5)


def test_missing_values_do_not_count_in_the_coverage_of_steps_and_variables() -> None:
    """The third variable has no true value; the others have different numbers of them at each step."""
    at = probabilities([80])
    low, high = at.index(0.1), at.index(0.9)
    quantiles = torch.randn(9, 4, 3, len(at)).sort(dim=-1).values
    target = torch.randn(9, 4, 3)
    target[:5, 0, 0] = target[:2, 3, 1] = math.nan
    target[..., 2] = math.nan
    sums = IntervalSums(at, [80], Scaler(torch.zeros(1, 3), torch.ones(1, 3)), 4)
    sums.update(quantiles, target, torch.zeros(9, dtype=torch.int64))
    inside = ((quantiles[..., low] <= target) & (target <= quantiles[..., high])).double()
    inside[target.isnan()] = math.nan
    by_variable = torch.stack([inside[..., i].nanmean() for i in range(3)])
    by_step = torch.stack([inside[:, step].nanmean(0)[:2].mean() for step in range(4)])
    torch.testing.assert_close(sums.coverage_by("variable")[0], by_variable, equal_nan=True)
    torch.testing.assert_close(sums.coverage_by("step")[0], by_step)


@pytest.mark.parametrize("at", [probabilities([]), probabilities([80, 95]), probabilities([80], PROBABILITIES)])
def test_one_forecast_has_one_score_however_many_quantiles_are_known_of_it(at: tuple[float, ...]) -> None:
    """Of the standard normal, whose CRPS is 1/√π (Gneiting and Raftery 2007)."""
    normal = torch.distributions.Normal(0.0, 1.0)
    quantiles = normal.icdf(torch.tensor(at)).expand(4_000, 1, 1, -1)
    target = normal.icdf((torch.arange(4_000) + 0.5) / 4_000)[:, None, None]
    sums = IntervalSums(at, [80], Scaler(torch.zeros(1, 1), torch.ones(1, 1)), 1)
    sums.update(quantiles, target, torch.zeros(4_000, dtype=torch.int64))
    assert sums.compute()["crps"] == pytest.approx(0.5907, abs=1e-3)
    assert sums.compute()["crps"] == pytest.approx(torch.pi**-0.5, rel=0.05)


@pytest.mark.parametrize(
    ("scale", "shift", "horizons", "causes"),
    [
        (1.0, 0.0, 100, []),
        (2.5, 0.0, 3, ["points less than its level: ", "the errors are 2.5 times", "which hold 3.0 horizons"]),
        (1.0, -1.5, 100, ["0.3% of the values lie above it, "]),
        (0.4, 0.0, 100, ["20 points more than its level: ", "the errors are 0.4 times"]),
    ],
)
def test_a_coverage_off_its_level_is_explained(scale: float, shift: float, horizons: float, causes: list[str]) -> None:
    generator = torch.Generator().manual_seed(0)
    errors = torch.randn(2_000, 1, 1, generator=generator)
    calibration = calibrate_errors(errors, horizons=horizons)
    kept = Calibration.from_state_dict(calibration.state_dict())
    sums = IntervalSums(kept.quantiles, [80], Scaler(torch.zeros(1, 1), torch.ones(1, 1)), 1, kept)
    target = scale * torch.randn(20_000, 1, 1, generator=generator) + shift
    sums.update(kept.around(torch.zeros_like(target)), target, torch.zeros(len(target), dtype=torch.int64))
    misses = explain_misses({"conformal": sums.compute()})
    assert bool(misses) == bool(causes)
    line = misses.get("conformal", "")
    assert [cause for cause in causes if cause not in line] == []


def test_each_method_scores_the_levels_that_it_has() -> None:
    calibration = calibrate_errors(torch.randn(20, 5, 2), [80, 99], horizons=4)
    trained = (0.005, *DECILES, 0.995)
    scaler = Scaler(torch.zeros(1, 2), torch.ones(1, 2))
    with pytest.warns(UserWarning, match="99% needs"):
        sums = make_interval_sums(calibration, trained, [80, 99], scaler, 5)
    assert {method: each.levels for method, each in sums.items()} == {"conformal": (80,), "quantile": (80, 99)}


@settings(max_examples=30)
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
