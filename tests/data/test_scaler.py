import io

import numpy as np
import pytest
import torch
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from forecast.data.scaler import Scaler
from forecast.data.series_scaler import SeriesScaler
from forecast.errors import ConfigError

VALUES = np.random.default_rng(0).gamma(2.0, 3.0, size=(400, 3)) * [1, 100, 0.01] + [0, 1e6, -5]
COLUMNS = ("a", "b", "c")


@pytest.mark.parametrize(
    ("kind", "reference"),
    [("standard", StandardScaler()), ("minmax", MinMaxScaler()), ("robust", RobustScaler())],
)
def test_scalers_are_those_of_scikit_learn(kind: str, reference):
    scaler = Scaler.fit(kind, VALUES[:300], COLUMNS)
    expected = reference.fit(VALUES[:300]).transform(VALUES)
    np.testing.assert_allclose(scaler.transform(torch.from_numpy(VALUES)), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["standard", "minmax", "robust", "none"])
def test_inverse_brings_back_the_units(kind: str):
    scaler = Scaler.fit(kind, VALUES[:300], COLUMNS)
    scaled = scaler.transform(torch.from_numpy(VALUES)).reshape(20, 20, 3)
    np.testing.assert_allclose(scaler.inverse(scaled).reshape(400, 3), VALUES, rtol=1e-12)
    part = scaler.select([2, 0])
    np.testing.assert_allclose(
        part.inverse(scaled[..., [2, 0]]).reshape(400, 2), VALUES[:, [2, 0]], rtol=1e-12
    )


@pytest.mark.parametrize("kind", ["standard", "minmax", "robust"])
def test_a_constant_column_is_scaled_by_one_with_a_warning(kind: str):
    values = VALUES.copy()
    values[:, 1] = 7.0
    with pytest.warns(UserWarning, match="constant in the training rows, so scaled by 1: b"):
        scaler = Scaler.fit(kind, values, COLUMNS)
    assert scaler.scale[1] == 1.0
    assert (scaler.transform(torch.from_numpy(values))[:, 1] == 0).all()


def test_state_loads_as_plain_tensors():
    scaler = Scaler.fit("robust", VALUES, COLUMNS)
    file = io.BytesIO()
    torch.save(scaler.state_dict(), file)
    file.seek(0)
    loaded = Scaler.from_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(loaded.center, scaler.center)
    assert torch.equal(loaded.scale, scaler.scale)


def test_another_scaler_is_refused():
    with pytest.raises(ConfigError, match=r"data\.scaler=log is not one of standard, minmax, robust, none"):
        Scaler.fit("log", VALUES, COLUMNS)


def test_demand_that_is_mostly_none_is_scaled_by_its_deviation() -> None:
    """Its interquartile range is zero."""
    values = np.zeros((100, 1))
    values[::10] = 30.0
    scaler = Scaler.fit("robust", values, ("y",))
    assert scaler.scale.item() == pytest.approx(values.std())
    one = SeriesScaler.fit("robust", "series", values, np.array([0]), np.array([100]), ("y",))
    assert one.scale.item() == pytest.approx(values.std())
