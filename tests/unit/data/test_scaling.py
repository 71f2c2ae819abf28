import numpy as np
import pytest
import torch

from forecast.data.scaler import Scaler, fit_scaler

VALUES = np.random.default_rng(0).gamma(2.0, 3.0, size=(400, 3)) * [1, 100, 0.01] + [0, 1e6, -5]
COLUMNS = ("a", "b", "c")


def fit(kind: str, values: np.ndarray) -> Scaler:
    """The scaler of one series, fitted to all rows."""
    return fit_scaler(values, COLUMNS[: values.shape[1]], np.array([0]), np.array([len(values)]), kind=kind)


@pytest.mark.parametrize("kind", ["standard", "minmax", "robust", "none"])
def test_inverse_brings_back_the_units(kind: str):
    scaler = fit(kind, VALUES[:300])
    scaled = scaler.transform(torch.from_numpy(VALUES), series=0).reshape(20, 20, 3)
    series = torch.zeros(20, dtype=torch.int64)
    np.testing.assert_allclose(scaler.inverse(scaled, series).reshape(400, 3), VALUES, rtol=1e-12)
    part = scaler.select_columns([2, 0])
    np.testing.assert_allclose(
        part.inverse(scaled[..., [2, 0]], series).reshape(400, 2), VALUES[:, [2, 0]], rtol=1e-12
    )


def test_demand_that_is_mostly_none_is_scaled_by_its_deviation() -> None:
    """Its interquartile range is zero."""
    values = np.zeros((100, 1))
    values[::10] = 30.0
    scaler = fit("robust", values)
    assert scaler.scale.item() == pytest.approx(values.std())
    first, last = np.array([0, 100]), np.array([100, 200])
    two = fit_scaler(np.concatenate([values, 2 * values]), ("y",), first, last, kind="robust")
    assert two.scale[:, 0].tolist() == pytest.approx([values.std(), 2 * values.std()])
