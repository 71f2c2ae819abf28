import io

import numpy as np
import pytest
import torch
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from forecast.data.scaler import Scaler, fit_scaler

VALUES = np.random.default_rng(0).gamma(2.0, 3.0, size=(400, 3)) * [1, 100, 0.01] + [0, 1e6, -5]
COLUMNS = ("a", "b", "c")


def fit(kind: str, values: np.ndarray, columns: tuple[str, ...] = COLUMNS) -> Scaler:
    """The scaler of one series, fitted to all rows."""
    return fit_scaler(values, columns, np.array([0]), np.array([len(values)]), kind=kind)


@pytest.mark.parametrize(
    ("kind", "reference"),
    [("standard", StandardScaler()), ("minmax", MinMaxScaler()), ("robust", RobustScaler())],
)
def test_scalers_are_those_of_scikit_learn(kind: str, reference):
    scaler = fit(kind, VALUES[:300], COLUMNS)
    expected = reference.fit(VALUES[:300]).transform(VALUES)
    np.testing.assert_allclose(
        scaler.transform(torch.from_numpy(VALUES), series=0), expected, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("kind", ["standard", "minmax", "robust", "none"])
def test_inverse_brings_back_the_units(kind: str):
    scaler = fit(kind, VALUES[:300], COLUMNS)
    scaled = scaler.transform(torch.from_numpy(VALUES), series=0).reshape(20, 20, 3)
    series = torch.zeros(20, dtype=torch.int64)
    np.testing.assert_allclose(scaler.inverse(scaled, series).reshape(400, 3), VALUES, rtol=1e-12)
    part = scaler.select_columns([2, 0])
    np.testing.assert_allclose(
        part.inverse(scaled[..., [2, 0]], series).reshape(400, 2), VALUES[:, [2, 0]], rtol=1e-12
    )


@pytest.mark.filterwarnings("ignore:.*scaled by 1:UserWarning")
@pytest.mark.parametrize("kind", ["standard", "minmax", "robust"])
def test_a_constant_column_is_scaled_by_one(kind: str):
    values = VALUES.copy()
    values[:, 1] = 7.0
    scaler = fit(kind, values, COLUMNS)
    assert scaler.scale[0, 1] == 1.0
    assert (scaler.transform(torch.from_numpy(values), series=0)[:, 1] == 0).all()


def test_state_loads_as_plain_tensors():
    scaler = fit("robust", VALUES, COLUMNS)
    file = io.BytesIO()
    torch.save(scaler.state_dict(), file)
    file.seek(0)
    loaded = Scaler.from_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(loaded.center, scaler.center)
    assert torch.equal(loaded.scale, scaler.scale)


def test_demand_that_is_mostly_none_is_scaled_by_its_deviation() -> None:
    """Its interquartile range is zero."""
    values = np.zeros((100, 1))
    values[::10] = 30.0
    scaler = fit("robust", values, ("y",))
    assert scaler.scale.item() == pytest.approx(values.std())
    first, last = np.array([0, 100]), np.array([100, 200])
    two = fit_scaler(np.concatenate([values, 2 * values]), ("y",), first, last, kind="robust")
    assert two.scale[:, 0].tolist() == pytest.approx([values.std(), 2 * values.std()])
