"""The digits of forecasts."""

import numpy as np
import pytest

from forecast.inference.forecast import round_values


@pytest.mark.parametrize(
    ("spread", "given", "expected"),
    [
        (2.0, [12.300000190734863, -0.0199999995529652], [12.3, -0.02]),
        (20.0, [1.7e9 + 1.2500001, 1.7e9 + 20.5], [1.7e9 + 1.25, 1.7e9 + 20.5]),
        (1.0, [1e7 + 0.3000001, 1e7 + 0.9], [1e7 + 0.3, 1e7 + 0.9]),
        (1e37, [1e39, 2e39], [1e39, 2e39]),
        (np.nan, [12.300000190734863, 1e39], [12.3, 1e39]),
        (0.0, [12.300000190734863, 1e7], [12.3, 1e7]),
        (1.8e-15, [12.300000190734863, 12.42300033569336], [12.3, 12.423]),  # of 48 equal numbers
    ],
)
def test_values_have_the_digits_that_models_compute(
    spread: float, given: list[float], expected: list[float]
) -> None:
    found = round_values(np.array(given)[None, :, None], np.full((1, 1, 1), spread))
    np.testing.assert_array_equal(found[0, :, 0], expected)
