import math

import numpy as np
import pytest
import torch

from forecast.evaluation import conformal
from forecast.evaluation.baselines import Naive
from forecast.evaluation.conformal import (
    PROBABILITIES,
    Calibration,
    calibrate,
    calibrated_levels,
    pooled_offsets,
    step_offsets,
)
from forecast.evaluation.levels import bounds


def draw_errors(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_offsets_of_steps_are_the_ranks_that_split_conformal_prediction_takes() -> None:
    errors = draw_errors(57, 3, 2)
    at = PROBABILITIES
    found = step_offsets(errors, errors.isfinite().sum(0), at)
    for i, p in enumerate(at):
        for step in range(3):
            for target in range(2):
                ordered = sorted(errors[:, step, target].tolist())
                exact = 58 * p
                rank = math.floor(exact + 1e-9) if p < 0.5 else math.ceil(exact - 1e-9)
                assert found[i, step, target].item() == ordered[min(max(rank, 1), 57) - 1]


def test_pooled_offsets_are_symmetric_quantiles_of_relative_errors_over_all_steps() -> None:
    errors = draw_errors(9, 4, 2) * torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None] + 0.5
    found = pooled_offsets(errors, (0.1, 0.5, 0.9)).numpy()
    values = errors.double().numpy()
    scale = np.sqrt((values**2).mean(0))
    bound = np.quantile(np.abs(values) / scale, 0.8) * scale
    np.testing.assert_allclose(found[2], bound, rtol=1e-6)
    np.testing.assert_allclose(found[0], -bound, rtol=1e-6)
    assert (found[1] == 0).all()


@pytest.mark.parametrize(("windows", "spacing", "horizons"), [(21, 1, 6), (21, 2, 11), (21, 9, 21)])
def test_pooled_offsets_count_less_the_more_horizons_the_windows_cover(
    windows: int, spacing: int, horizons: int
) -> None:
    errors = draw_errors(windows, 4, 1)
    found = Calibration.fit(errors, spacing=spacing)
    assert found.windows == windows
    of_steps = step_offsets(errors, errors.isfinite().sum(0), PROBABILITIES)
    pooled = pooled_offsets(errors, PROBABILITIES) * math.sqrt(1 + 1 / horizons)
    weight = horizons / (horizons + 30)
    torch.testing.assert_close(found.offsets, weight * of_steps + (1 - weight) * pooled)
    assert (found.offsets.diff(dim=0) >= 0).all()


def test_a_calibration_has_the_usual_levels_and_those_asked_for() -> None:
    found = Calibration.fit(draw_errors(57, 3, 2), levels=[80, 90, 66])
    assert found.has([80, 90, 66, 95, 98, 99])
    assert not found.has([85.5])


def test_few_windows_with_a_common_error_do_not_move_the_interval_to_one_side() -> None:
    """Neighbouring windows share their error, as after a change of level that does not last."""
    inside = []
    for seed in range(200):
        level = draw_errors(2, seed=seed)  # of the validation rows, and of the test
        steps = 0.3 * draw_errors(8, 12, 1, seed=1000 + seed)
        found = Calibration.fit(level[0] + steps[:7], [80])
        low, high = (found.offsets[found.quantiles.index(p)] for p in bounds(80))
        error = level[1] + steps[7]
        inside.append(((low <= error) & (error <= high)).float().mean())
    assert 0.6 < torch.stack(inside).mean().item() < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("level", [50, 80, 95])
def test_coverage_is_at_least_the_level_on_exchangeable_errors(level: int) -> None:
    generator = torch.Generator().manual_seed(level)
    inside = []
    for _ in range(400):  # calibrate on 60 skewed errors with median 0, look at one new one each
        errors = torch.randn(61, 8, 1, generator=generator).exp() - 1
        found = Calibration.fit(errors[:60], [level], spacing=8)
        low, high = (found.offsets[found.quantiles.index(p)] for p in bounds(level))
        inside.append(((low <= errors[60]) & (errors[60] <= high)).float().mean())
    # symmetric pooled intervals cover more than the level where errors are skewed
    assert level / 100 - 0.01 < torch.stack(inside).mean().item() < level / 100 + 0.09


def test_every_validation_window_counts(etth1) -> None:
    windows, baseline = etth1.windows["val"], Naive()
    found = calibrate(lambda batch: baseline(windows, batch), windows, etth1.target_scaler, batch_size=100)
    values = np.asarray(windows.values[:])
    first = windows.starts[0].start + windows.seq_len
    origins = np.arange(first, first + len(windows))
    future = values[origins[:, None] + np.arange(windows.pred_len)]
    expected = Calibration.fit(torch.from_numpy(future - values[origins - 1][:, None]))
    torch.testing.assert_close(found.offsets, expected.offsets)
    assert found.windows == len(windows)


def test_more_errors_than_the_limit_use_every_nth_window(etth1, monkeypatch) -> None:
    windows, baseline = etth1.windows["val"], Naive()
    monkeypatch.setattr(conformal, "MAX_ERRORS", 100 * 24 * 7)
    assert (
        calibrate(lambda batch: baseline(windows, batch), windows, etth1.target_scaler, batch_size=64).windows
        <= 100
    )


def test_a_calibration_survives_a_checkpoint() -> None:
    found = Calibration.fit(torch.randn(40, 3, 2))
    again = Calibration.from_state_dict(found.state_dict())
    assert (again.quantiles, again.windows) == (found.quantiles, found.windows)
    assert torch.equal(again.offsets, found.offsets)
    forecast = torch.randn(5, 3, 2)
    around = found.around(forecast)
    assert around.shape == (5, 3, 2, len(PROBABILITIES))
    assert torch.equal(around[1, 2, 0], forecast[1, 2, 0] + found.offsets[:, 2, 0])


@pytest.mark.filterwarnings("ignore:levels.*left out:UserWarning")
def test_levels_that_too_few_windows_cannot_give_are_left_out() -> None:
    found = Calibration.fit(draw_errors(9, 2, 1), [80, 95])  # 18 errors, of the 39 that 95% needs
    assert calibrated_levels(found, [80, 95]) == (80,)
    assert calibrated_levels(Calibration.fit(draw_errors(20, 2, 1), [95]), [95]) == (95,)
    assert calibrated_levels(Calibration.fit(draw_errors(2, 24, 1), [80]), [80]) == ()
