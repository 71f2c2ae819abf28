import math

import numpy as np
import pytest
import torch

from forecast.evaluation.baselines import Naive
from forecast.evaluation.conformal import (
    MAX_RATE,
    POOLING,
    PROBABILITIES,
    RATE,
    Calibration,
    adapt,
    calibrate,
    calibrated_levels,
    fit_level_factors,
    interpolate_factors,
    p_of_equal_signs,
    pooled_offsets,
    step_offsets,
)
from forecast.evaluation.scores import DECILES, bounds
from tests.support.calibrations import calibrate_errors


def draw_errors(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_offsets_of_steps_are_the_ranks_that_split_conformal_prediction_takes() -> None:
    errors = draw_errors(57, 3, 2)
    found = step_offsets(errors, PROBABILITIES)
    ordered = errors.sort(dim=0).values
    for i, p in enumerate(PROBABILITIES):
        rank = math.floor(58 * p + 1e-9) if p < 0.5 else math.ceil(58 * p - 1e-9)
        assert torch.equal(found[i], ordered[min(max(rank, 1), 57) - 1])


def test_a_bias_that_few_windows_do_not_prove_does_not_move_the_pooled_offsets() -> None:
    errors = draw_errors(9, 4, 1) + 1
    at = (0.1, 0.5, 0.9)
    unproven = pooled_offsets(errors, at, horizons=1)  # two windows less than all overlap
    assert torch.equal(unproven[0], -unproven[2])
    assert (unproven[1] == 0).all()
    share = (errors.abs() <= unproven[2]).float().mean().item()
    assert share == pytest.approx(0.8, abs=1 / errors.numel())
    many = draw_errors(400, 4, 1) + 1
    proven = pooled_offsets(many, at, horizons=100)
    for place, p in enumerate(at):
        assert (many <= proven[place]).float().mean().item() == pytest.approx(p, abs=0.02)


def test_steps_without_errors_do_not_change_the_pooled_offsets_of_others() -> None:
    errors = draw_errors(9, 4, 1)
    exact, missing = torch.zeros(9, 3, 1), torch.full((9, 1, 1), torch.nan)
    found = pooled_offsets(torch.cat([errors, exact, missing], dim=1), DECILES, horizons=1)
    torch.testing.assert_close(found[:, :4], pooled_offsets(errors, DECILES, horizons=1))
    assert (found[:, 4:7] == 0).all()
    assert found[:, 7].isnan().all()


def test_few_horizons_give_pooled_offsets_and_many_give_those_of_steps() -> None:
    errors = draw_errors(21, 4, 1).exp() - 0.5
    few, many = (calibrate_errors(errors, horizons=horizons) for horizons in (1, 1e6))
    torch.testing.assert_close(many.offsets, step_offsets(errors, PROBABILITIES), rtol=1e-3, atol=1e-3)
    high = few.quantiles.index(bounds(80)[1])
    assert (few.offsets[high] > 1.3 * pooled_offsets(errors, few.quantiles, horizons=1)[high]).all()  # widened
    for horizons in (1, 5, 30, 1e6):
        assert (calibrate_errors(errors, horizons=horizons).offsets.diff(dim=0) >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("level", [50, 80, 95])
def test_coverage_is_at_least_the_level_on_exchangeable_errors(level: int) -> None:
    generator = torch.Generator().manual_seed(level)
    inside = []
    for _ in range(200):  # calibrate on 60 skewed errors, look at one new one each
        errors = torch.randn(61, 8, 1, generator=generator).exp() - 1
        found = calibrate_errors(errors[:60], [level], horizons=60)
        low, high = (found.offsets[found.quantiles.index(p)] for p in bounds(level))
        inside.append(((low <= errors[60]) & (errors[60] <= high)).float().mean())
    # symmetric pooled intervals cover more than the level where errors are skewed
    assert level / 100 - 0.015 < torch.stack(inside).mean().item() < min(0.99, level / 100 + 0.09)


def test_every_validation_window_counts(etth1) -> None:
    windows, baseline = etth1.windows["val"], Naive()
    found = calibrate(lambda batch: baseline(windows, batch), windows, etth1.target_scaler, batch_size=100)
    values = np.asarray(windows.values[:])
    first = windows.starts[0].start + windows.seq_len
    origins = np.arange(first, first + len(windows))
    future = values[origins[:, None] + np.arange(windows.pred_len)]
    forecasts = np.broadcast_to(values[origins - 1][:, None], future.shape)
    horizons = 1 + (len(windows) - 1) / windows.pred_len
    expected = Calibration.fit(torch.tensor(forecasts), torch.tensor(future), horizons=horizons)
    torch.testing.assert_close(found.offsets, expected.offsets)
    assert found.windows == len(windows)


def test_a_calibration_survives_a_checkpoint() -> None:
    found = calibrate_errors(torch.randn(40, 3, 2), horizons=14)
    again = Calibration.from_state_dict(found.state_dict())
    assert again.supports(95)
    assert not again.supports(99)
    assert (again.quantiles, again.windows) == (found.quantiles, found.windows)
    assert torch.equal(again.offsets, found.offsets)
    forecast = torch.randn(5, 3, 2)
    around = found.around(forecast)
    assert around.shape == (5, 3, 2, len(PROBABILITIES))
    assert torch.equal(around[1, 2, 0], forecast[1, 2, 0] + found.offsets[:, 2, 0])


def test_levels_that_too_few_windows_cannot_give_are_left_out() -> None:
    found = calibrate_errors(draw_errors(9, 2, 1), [80, 95], horizons=5)  # 18 errors, of the 39 that 95% needs
    with pytest.warns(UserWarning, match="95% needs 20 validation windows to calibrate on, and there are 9: left"):
        assert calibrated_levels(found, [80, 95]) == (80,)
    with pytest.warns(UserWarning, match="80% needs"):
        assert calibrated_levels(calibrate_errors(draw_errors(2, 24, 1), horizons=1), [80]) == ()
    enough = calibrate_errors(draw_errors(20, 2, 1), horizons=10)
    assert calibrated_levels(enough, [95]) == calibrated_levels(enough.first(1), [95]) == (95,)


def test_missing_values_have_no_sign() -> None:
    """A step without values changes no test of signs: neither as zeros in the mean of a window nor as a window."""
    errors = torch.randn(60, 2, generator=torch.Generator().manual_seed(0)) + 0.5
    errors[::5] = torch.nan
    with_gaps = torch.cat([errors, torch.full((60, 3), torch.nan)], dim=1)
    assert p_of_equal_signs(with_gaps, 6) == p_of_equal_signs(errors, 6)
    assert p_of_equal_signs(errors, 6) < 0.2


def test_intervals_are_as_wide_as_the_errors_at_the_level_of_the_forecast() -> None:
    """A solar plant: a forecast of zero at night is exact, and errors of the day grow with the forecast."""
    hours = (torch.arange(24) + torch.arange(4_500)[:, None]) % 24
    forecasts = (hours - 6.0).clamp(0, 12)[..., None]
    truth = forecasts + 0.3 * forecasts * draw_errors(4_500, 24, 1)
    found = Calibration.fit(forecasts[:4_000], truth[:4_000], [80], horizons=4_000 / 24)
    forecast, values, hour = forecasts[4_000:], truth[4_000:], hours[4_000:]
    low, high = (found.around(forecast)[..., found.quantiles.index(p)] for p in (0.1, 0.9))
    width, inside = (high - low)[..., 0], ((low <= values) & (values <= high))[..., 0]
    assert width[hour <= 6].max() < 0.1 * width[hour > 6].mean()
    for each in (9, 12, 18):
        assert inside[hour == each].float().mean().item() == pytest.approx(0.8, abs=0.15)
    few = Calibration.fit(forecasts[:2], truth[:2], horizons=1)
    assert few.factors(forecasts).log().abs().max() < 0.15 * found.factors(forecasts).log().abs().max()


def test_factors_of_levels_are_the_root_mean_square_of_relative_errors() -> None:
    forecasts = draw_errors(500, 4, 2, seed=1)
    errors = forecasts.exp() * draw_errors(500, 4, 2, seed=2)
    knots, logs = fit_level_factors(forecasts, errors, horizons=500)  # no windows overlap
    relative = errors / errors.square().mean(0).sqrt()
    for target in range(2):
        order = forecasts[..., target].flatten().argsort().view(10, 200)
        of_level, square = (each[..., target].flatten()[order] for each in (forecasts, relative.square()))
        torch.testing.assert_close(knots[:, target], of_level.mean(1))
        number = {int(place): level for level, places in enumerate(order) for place in places}
        walk = torch.tensor([number[place] for place in range(2_000)]).view(500, 4)
        entered = torch.cat([walk[:, 0], walk[:, 1:][walk[:, 1:] != walk[:, :-1]]]).bincount()
        expected = entered / (entered + POOLING) * square.mean(1).sqrt().log()
        torch.testing.assert_close(logs[:, target], expected, rtol=1e-4, atol=1e-4)
    between = interpolate_factors((knots[2:3] + knots[3:4]) / 2, knots, logs)
    torch.testing.assert_close(between.log(), (logs[2:3] + logs[3:4]) / 2)
    beyond = interpolate_factors(torch.full((1, 2), 99.0), knots, logs)
    torch.testing.assert_close(beyond.log(), logs[-1:])


def test_equal_forecasts_are_in_one_level() -> None:
    """Demand of which most is zero."""
    forecasts = torch.tensor([0.0] * 7 + [1.0, 2.0, 3.0]).repeat(60)[torch.randperm(600)].view(60, 10, 1)
    knots, _ = fit_level_factors(forecasts, draw_errors(60, 10, 1), horizons=60)
    assert knots[:, 0].tolist() == [0, 1, 2, *[3] * 7]


# ---- adaptive offsets, compared with a loop over single values

STEPS, TARGETS = 5, 2


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate_errors(draw_errors(60, STEPS, TARGETS), horizons=60)


def by_hand(calibration: Calibration, errors: np.ndarray, stride: int) -> np.ndarray:
    """The offsets (origins + 1, quantiles, steps, n_targets) of one series: a loop over values and dates."""
    origins = len(errors)
    offsets = np.empty((origins + 1, len(calibration.quantiles), STEPS, TARGETS))
    first = calibration.offsets.double().numpy()
    low, high = (calibration.quantiles.index(p) for p in (0.1, 0.9))
    for step in range(STEPS):
        for target in range(TARGETS):
            rate = min(stride * RATE, MAX_RATE) * (first[high, step, target] - first[low, step, target])
            q, used = first[:, step, target].copy(), 0
            for origin in range(origins + 1):
                while used < origin and used * stride + step < origin * stride:  # the row is known at the origin
                    error = errors[used, step, target]
                    for i, probability in enumerate(calibration.quantiles):
                        if not np.isnan(error):
                            q[i] += rate * (probability - (error <= q[i]))
                    used += 1
                offsets[origin, :, step, target] = np.sort(q)
    return offsets


@pytest.mark.parametrize("stride", [1, 2, 3, 7])
def test_offsets_are_those_of_a_loop(calibration: Calibration, stride: int) -> None:
    errors = 2 * draw_errors(3, 30, STEPS, TARGETS, seed=1) + 0.5
    errors[0, 4:6] = torch.nan
    found = torch.stack(list(adapt(calibration, errors, stride)), dim=1)  # (series, origins + 1, ...)
    assert found.shape == (3, 31, len(calibration.quantiles), STEPS, TARGETS)
    for series in range(3):
        expected = by_hand(calibration, errors[series].double().numpy(), stride)
        np.testing.assert_allclose(found[series], expected, atol=1e-5)
    assert not torch.equal(found[:, -1], found[:, 0])


def test_coverage_under_drift_is_nearer_to_the_level() -> None:
    calibration = calibrate_errors(draw_errors(500, STEPS, 1), horizons=500)
    scale = torch.linspace(1.0, 2.0, 3_000)[:, None, None]
    errors = (scale * draw_errors(3_000, STEPS, 1, seed=4) + scale - 1)[None]  # wider, and of growing bias
    low, high = (calibration.quantiles.index(p) for p in (0.1, 0.9))

    def coverage(offsets: torch.Tensor) -> float:
        held = (offsets[:, low] <= errors[0]) & (errors[0] <= offsets[:, high])
        return held.float().mean().item()

    fixed = calibration.offsets.expand(3_000, *calibration.offsets.shape)
    adaptive = torch.stack([offsets[0] for offsets in adapt(calibration, errors, 10)][:-1])
    assert coverage(fixed) < 0.62
    assert 0.76 < coverage(adaptive) < 0.82
