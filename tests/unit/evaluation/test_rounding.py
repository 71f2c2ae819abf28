"""The digits of forecasts, which files and answers of the server print."""

import numpy as np

from forecast.evaluation.scores import round_values


def test_values_have_the_shortest_digits_of_float32() -> None:
    values = np.random.default_rng(0).normal(size=(2, 50, 3)) * 10.0 ** np.arange(-3, 3).reshape(2, 1, 3)
    values[0, 0] = np.nan, np.inf, -0.0
    found = round_values(values, np.full((2, 1, 3), 1e9))
    expected = [str(float(str(value))) for value in values.astype(np.float32).ravel()]
    assert list(map(str, found.ravel().tolist())) == expected
