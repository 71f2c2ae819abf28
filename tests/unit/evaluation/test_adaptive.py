"""Offsets that follow the errors of earlier forecasts, compared with a loop over single values."""

import numpy as np
import pytest
import torch

from forecast.evaluation.conformal import MAX_RATE, RATE, Calibration, adapt

STEPS, TARGETS = 5, 2


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return Calibration.fit(drawn(60, STEPS, TARGETS), horizons=60)


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
                while (
                    used < origin and used * stride + step < origin * stride
                ):  # the row is known at the origin
                    error = errors[used, step, target]
                    for i, probability in enumerate(calibration.quantiles):
                        if not np.isnan(error):
                            q[i] += rate * (probability - (error <= q[i]))
                    used += 1
                offsets[origin, :, step, target] = np.sort(q)
    return offsets


@pytest.mark.parametrize("stride", [1, 2, 3, 7])
def test_offsets_are_those_of_a_loop(calibration: Calibration, stride: int) -> None:
    errors = 2 * drawn(3, 30, STEPS, TARGETS, seed=1) + 0.5
    errors[0, 4:6] = torch.nan
    found = torch.stack(list(adapt(calibration, errors, stride)), dim=1)  # (series, origins + 1, ...)
    assert found.shape == (3, 31, len(calibration.quantiles), STEPS, TARGETS)
    for series in range(3):
        expected = by_hand(calibration, errors[series].double().numpy(), stride)
        np.testing.assert_allclose(found[series], expected, atol=1e-5)
    assert not torch.equal(found[:, -1], found[:, 0])


@pytest.mark.parametrize("stride", [1, 3])
def test_an_error_moves_no_offset_before_it_is_known(calibration: Calibration, stride: int) -> None:
    errors = drawn(1, 20, STEPS, TARGETS, seed=2)
    before = list(adapt(calibration, errors, stride))
    for origin, step in ((0, 0), (3, 4), (11, 2)):
        changed = errors.clone()
        changed[0, origin, step] += 100.0
        after = list(adapt(calibration, changed, stride))
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            is_known = origin * stride + step < number * stride
            assert torch.equal(old, new) or is_known
            others = [s for s in range(STEPS) if s != step]
            assert torch.equal(old[:, :, others], new[:, :, others])
        assert not torch.equal(before[-1], after[-1])


def test_coverage_under_drift_is_nearer_to_the_level() -> None:
    calibration = Calibration.fit(drawn(500, STEPS, 1), horizons=500)
    scale = torch.linspace(1.0, 2.0, 3_000)[:, None, None]
    errors = (scale * drawn(3_000, STEPS, 1, seed=4) + scale - 1)[None]  # wider, and of growing bias
    low, high = (calibration.quantiles.index(p) for p in (0.1, 0.9))

    def coverage(offsets: torch.Tensor) -> float:
        held = (offsets[:, low] <= errors[0]) & (errors[0] <= offsets[:, high])
        return held.float().mean().item()

    fixed = calibration.offsets.expand(3_000, *calibration.offsets.shape)
    adaptive = torch.stack([offsets[0] for offsets in adapt(calibration, errors, 10)][:-1])
    assert coverage(fixed) < 0.62
    assert 0.76 < coverage(adaptive) < 0.82
