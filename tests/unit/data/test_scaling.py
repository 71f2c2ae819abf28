import numpy as np
import pytest
import torch

from forecast.data import scaler
from forecast.data.scaler import Scaler, fit_scaler
from forecast.data.source import Domain
from forecast.evaluation.errors import ErrorSums, window_errors
from tests.support.calibrations import calibrate_errors
from tests.support.long_files import long_frame, long_frame_data

RANDOM = np.random.default_rng(0)
COUNTS = np.concatenate([[0.0, 0.0, 1.0], np.round(RANDOM.lognormal(3, 1.5, 500))])
PRICES = np.concatenate([RANDOM.normal(40, 10, 400), [-130.0, 900.0]])


def scaler_of(kind: str, values: np.ndarray, lower: float = -np.inf, upper: float = np.inf) -> Scaler:
    location, shape = scaler.fit(kind, values)
    parts = (torch.tensor([[number]], dtype=torch.float64) for number in (5.0, 2.0, location, shape))
    center, scale, *parameters = parts
    return Scaler(center, scale, Domain((kind,), (lower,), (upper,)), *parameters)


@pytest.mark.parametrize(
    ("kind", "values"), [("log1p", COUNTS), ("asinh", PRICES), ("asinh", COUNTS), ("none", PRICES)]
)
def test_the_inverse_is_exact(kind: str, values: np.ndarray) -> None:
    scaler = scaler_of(kind, values)
    data = torch.from_numpy(values)[:, None]
    scaled = scaler.transform(data, 0)
    np.testing.assert_allclose(scaler.inverse(scaled, 0), data, rtol=1e-12, atol=1e-12)
    order = np.argsort(values)
    assert (np.diff(scaled[order, 0]) >= 0).all()


def test_transforms_are_those_of_numpy() -> None:
    def transformed(kind: str, values: np.ndarray) -> np.ndarray:
        parameters = (torch.tensor([number], dtype=torch.float64) for number in scaler.fit(kind, values))
        return scaler.apply(torch.from_numpy(values)[:, None], (kind,), *parameters)[:, 0].numpy()

    np.testing.assert_allclose(transformed("log1p", COUNTS), np.log1p(COUNTS), rtol=1e-14)
    median = np.median(PRICES)
    deviation = np.median(abs(PRICES - median)) / 0.6744897501960817  # of the standard normal
    np.testing.assert_allclose(transformed("asinh", PRICES), np.arcsinh((PRICES - median) / deviation), rtol=1e-12)


def test_clipped_forecasts_return_as_the_bounds() -> None:
    scaler = scaler_of("log1p", COUNTS, lower=0.0, upper=50.0)
    forecast = torch.linspace(-30, 30, 61, dtype=torch.float32)[None, :, None]
    series = torch.zeros(1, dtype=torch.int64)
    units, clipped = scaler.inverse(forecast, series), scaler.clip(forecast, series)
    assert units.min() == 0
    assert units.max() == 50
    torch.testing.assert_close(scaler.inverse(clipped, series), units)
    inside = (units > 0) & (units < 50)
    assert torch.equal(clipped[inside], forecast[inside])
    quantiles = forecast[..., None] + torch.tensor([-1.0, 0.0, 1.0])
    for i, part in enumerate(quantiles.unbind(-1)):
        assert torch.equal(scaler.clip(quantiles, series)[..., i], scaler.clip(part, series))


@pytest.mark.parametrize("scale_by", ["series", "all"])
def test_each_series_has_its_own_parameters(scale_by: str) -> None:
    frame = long_frame()
    sizes = {"name": "mine", "seq_len": 6, "pred_len": 3, "split": [0.7, 0.1, 0.2]}
    data = long_frame_data(frame, **sizes, transform="asinh", scale_by=scale_by)
    data.setup()
    first, last = data.rows["train"]
    values = np.asarray(data.panel.values)[:, 0]
    rows = [values[a:b] for a, b in zip(first, last, strict=True)]
    for s in range(len(rows)):
        fitted = scaler.fit("asinh", rows[s] if scale_by == "series" else np.concatenate(rows))
        assert (data.scaler.location[s, 0], data.scaler.shape[s, 0]) == pytest.approx(fitted)
        transformed = np.arcsinh((rows[s] - fitted[0]) / fitted[1])
        if scale_by == "series":
            assert data.scaler.center[s, 0].item() == pytest.approx(transformed.mean(), abs=1e-9)
            assert data.scaler.scale[s, 0].item() == pytest.approx(transformed.std())


def test_scores_in_units_are_those_of_inverted_values() -> None:
    scaler = scaler_of("log1p", COUNTS)
    scaler.error_unit[:] = 7.0
    generator = torch.Generator().manual_seed(0)
    prediction, target = torch.randn(2, 9, 4, 1, generator=generator)
    series = torch.zeros(9, dtype=torch.int64)
    sums = ErrorSums(4, scaler, torch.tensor([[3.0]]))
    sums.update(prediction, target, series)
    found = sums.compute().scores()
    each = window_errors(prediction, target, scaler, series)
    np.testing.assert_allclose(each.mean(0), [found["mse"], found["mae"]], rtol=1e-6)
    y_hat, y = (np.expm1(part.double().numpy() * 2 + 5) for part in (prediction, target))
    error = np.abs(y - y_hat)
    expected = {
        "mse": (error**2).mean() / 7**2,
        "mae": error.mean() / 7,
        "rmse_raw": np.sqrt((error**2).mean()),
        "mae_raw": error.mean(),
        "smape": (200 * error / (np.abs(y) + np.abs(y_hat))).mean(),
        "wape": error.sum() / np.abs(y).sum(),
        "mase": error.mean() / 3,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5)


def test_offsets_of_a_refit_are_equal_in_transformed_units() -> None:
    calibration = calibrate_errors(torch.randn(60, 3, 1), horizons=20)
    old, new = scaler_of("log1p", COUNTS), scaler_of("log1p", COUNTS)
    new.scale *= 4
    torch.testing.assert_close(calibration.rescaled(old, new).offsets, calibration.offsets / 4)
    other = scaler_of("asinh", PRICES), scaler_of("asinh", PRICES + 10)
    torch.testing.assert_close(calibration.rescaled(*other).offsets, calibration.offsets)


def test_demand_that_is_mostly_none_is_scaled_by_its_deviation() -> None:
    """Its interquartile range is zero."""
    values = np.zeros((100, 1))
    values[::10] = 30.0
    scaler = fit_scaler(values, ("y",), np.array([0]), np.array([100]), kind="robust")
    assert scaler.scale.item() == pytest.approx(values.std())
    first, last = np.array([0, 100]), np.array([100, 200])
    two = fit_scaler(np.concatenate([values, 2 * values]), ("y",), first, last, kind="robust")
    assert two.scale[:, 0].tolist() == pytest.approx([values.std(), 2 * values.std()])
