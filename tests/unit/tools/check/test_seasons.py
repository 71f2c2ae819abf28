"""Peaks of the autocorrelation."""

import numpy as np
import pytest
import scipy.signal

from forecast.tools.check.seasons import find_peaks, measure_prominence


@pytest.mark.parametrize("seed", range(20))
def test_peaks_and_prominences_are_those_of_scipy(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(size=random.integers(3, 200)).cumsum()
    if seed % 2:
        values = np.round(values)  # runs of equal values
    peaks, found = scipy.signal.find_peaks(values, prominence=0)
    assert find_peaks(values).tolist() == peaks.tolist()
    np.testing.assert_allclose(
        [measure_prominence(values, peak) for peak in peaks.tolist()], found["prominences"]
    )


def test_a_constant_has_no_peak() -> None:
    assert len(find_peaks(np.ones(9))) == 0
