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
)
from forecast.evaluation.levels import bounds


def test_offsets_are_the_ranks_that_split_conformal_prediction_takes() -> None:
    errors = torch.randn(57, 3, 2, generator=torch.Generator().manual_seed(0))
    found = Calibration.fit(errors, levels=[80, 90, 66])
    assert found.windows == 57
    for i, p in enumerate(found.quantiles):
        for step in range(3):
            for target in range(2):
                ordered = sorted(errors[:, step, target].tolist())
                exact = 58 * p
                rank = math.floor(exact + 1e-9) if p < 0.5 else math.ceil(exact - 1e-9)
                assert found.offsets[i, step, target].item() == ordered[min(max(rank, 1), 57) - 1]
    assert (found.offsets.diff(dim=0) >= 0).all()
    assert found.has([80, 90, 66, 95, 98, 99])
    assert not found.has([85.5])


@pytest.mark.slow
@pytest.mark.parametrize("level", [50, 80, 95])
def test_coverage_is_at_least_the_level_on_exchangeable_errors(level: int) -> None:
    generator = torch.Generator().manual_seed(level)
    inside = []
    for _ in range(400):  # calibrate on 60 skewed errors, look at one new one each
        errors = torch.randn(61, 8, 1, generator=generator).exp()
        found = Calibration.fit(errors[:60], [level])
        low, high = (found.offsets[found.quantiles.index(p)] for p in bounds(level))
        inside.append(((low <= errors[60]) & (errors[60] <= high)).float().mean())
    assert level / 100 - 0.01 < torch.stack(inside).mean().item() < level / 100 + 0.05


def test_every_validation_window_counts(etth1) -> None:
    windows, baseline = etth1.windows["val"], Naive()
    found = calibrate(lambda batch: baseline(windows, batch), windows, etth1.target_scaler, batch_size=100)
    values = np.asarray(windows.values[:]).astype(np.float64)
    first = windows.starts[0].start + windows.seq_len
    origins = np.arange(first, first + len(windows))
    step, variable = 4, 2
    errors = values[origins + step, variable] - values[origins - 1, variable]
    for p in (0.1, 0.9):
        rank = (math.floor if p < 0.5 else math.ceil)(round((len(errors) + 1) * p, 6))
        expected = np.sort(errors)[rank - 1]
        assert found.offsets[found.quantiles.index(p), step, variable].item() == pytest.approx(
            expected, abs=1e-6
        )
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
    found = Calibration.fit(torch.randn(20, 2, 1), [80, 95])
    assert calibrated_levels(found, [80, 95]) == (80,)
    assert calibrated_levels(Calibration.fit(torch.randn(39, 2, 1), [95]), [95]) == (95,)
