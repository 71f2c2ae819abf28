"""Transforms and bounds of targets, compared with NumPy and SciPy."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from forecast.data import DataModule, csv_data, scaler
from forecast.data.domain import Domain, choose_domain
from forecast.data.scaler import Scaler
from forecast.data.scaling import fit_scaler
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.conformal import Calibration
from forecast.evaluation.errors import ErrorSums, window_errors
from forecast.evaluation.intervals import IntervalSums
from forecast.evaluation.levels import probabilities
from tests.support.long_files import long_frame, long_frame_data

RANDOM = np.random.default_rng(0)
COUNTS = np.concatenate([[0.0, 0.0, 1.0], np.round(RANDOM.lognormal(3, 1.5, 500))])
ASINH = Domain(("asinh",), (-np.inf,), (np.inf,))
PRICES = np.concatenate([RANDOM.normal(40, 10, 400), [-130.0, 900.0]])
SIZES = {"name": "mine", "seq_len": 20, "pred_len": 6, "split": [0.7, 0.1, 0.2]}


def scaler_of(kind: str, values: np.ndarray, lower: float = -np.inf, upper: float = np.inf) -> Scaler:
    """A scaler of one series and column, fitted to all values."""
    location, shape = scaler.fit(kind, values)
    parts = (torch.tensor([[number]], dtype=torch.float64) for number in (5.0, 2.0, location, shape))
    center, scale, *parameters = parts
    return Scaler(center, scale, Domain((kind,), (lower,), (upper,)), *parameters)


@pytest.mark.parametrize(
    ("kind", "values"),
    [("log1p", COUNTS), ("boxcox", COUNTS + 0.5), ("asinh", PRICES), ("asinh", COUNTS), ("none", PRICES)],
)
def test_the_inverse_is_exact(kind: str, values: np.ndarray) -> None:
    scaler = scaler_of(kind, values)
    data = torch.from_numpy(values)[:, None]
    scaled = scaler.transform(data, 0)
    np.testing.assert_allclose(scaler.inverse(scaled, 0), data, rtol=1e-12, atol=1e-12)
    order = np.argsort(values)
    assert (np.diff(scaled[order, 0]) >= 0).all()


def test_transforms_are_those_of_numpy_and_scipy() -> None:
    def transformed(kind: str, values: np.ndarray) -> np.ndarray:
        parameters = (torch.tensor([number], dtype=torch.float64) for number in scaler.fit(kind, values))
        return scaler.apply(torch.from_numpy(values)[:, None], (kind,), *parameters)[:, 0].numpy()

    np.testing.assert_allclose(transformed("log1p", COUNTS), np.log1p(COUNTS), rtol=1e-14)
    median = np.median(PRICES)
    deviation = stats.median_abs_deviation(PRICES) / stats.norm.ppf(0.75)
    np.testing.assert_allclose(
        transformed("asinh", PRICES), np.arcsinh((PRICES - median) / deviation), rtol=1e-12
    )
    _, power = scaler.fit("boxcox", COUNTS + 0.5)
    np.testing.assert_allclose(
        transformed("boxcox", COUNTS + 0.5), stats.boxcox(COUNTS + 0.5, power), rtol=1e-12
    )


@pytest.mark.parametrize("power", [0.1, 0.3, 0.5, 1.0])
def test_the_power_has_the_largest_likelihood(power: float) -> None:
    values = np.random.default_rng(1).normal(8, 1, 4000).clip(1) ** (1 / power)
    _, found = scaler.fit("boxcox", values)
    assert found == pytest.approx(stats.boxcox_normmax(values, method="mle"), abs=0.05)


def test_a_constant_column_keeps_its_values_apart() -> None:
    assert scaler.fit("asinh", np.full(10, 3.0)) == (0.0, 1.0)
    assert scaler.fit("boxcox", np.full(10, 3.0)) == (0.0, 1.0)
    _, deviation = scaler.fit("asinh", np.array([0.0] * 8 + [5.0]))  # the median deviation is 0
    assert deviation > 0


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


@pytest.mark.parametrize("kind", ["none", "log1p", "boxcox", "asinh"])
def test_one_bound_leaves_the_other_side_alone(kind: str) -> None:
    forecast, series = torch.tensor([[[-4.0], [0.5], [9.0]]]), torch.zeros(1, dtype=torch.int64)
    for lower, upper in ((3.0, np.inf), (0.0, 30.0)):
        scaler = scaler_of(kind, COUNTS + 0.5, lower, upper)
        free = scaler_of(kind, COUNTS + 0.5, 0.0 if kind == "boxcox" else -np.inf)
        expected = free.inverse(forecast, series).clamp(lower, upper)
        torch.testing.assert_close(scaler.inverse(forecast, series), expected)
        torch.testing.assert_close(
            scaler.inverse(scaler.clip(forecast, series), series), expected, rtol=1e-5, atol=1e-5
        )


def test_errors_of_a_new_constant_series_are_measured_in_the_units_of_the_others() -> None:
    values = np.concatenate([PRICES, 3 * PRICES, np.full(50, 7.0)])[:, None]
    starts = np.array([0, len(PRICES)])
    old = fit_scaler(values, ["y"], starts, starts + len(PRICES), kind="standard", domain=ASINH)
    first = np.array([2 * len(PRICES)])
    with pytest.warns(UserWarning, match="constant"):
        new = fit_scaler(values, ["y"], first, first + 50, kind="standard", others=old, domain=ASINH)
    assert new.error_unit.item() == pytest.approx(2 * PRICES.std())
    assert new.scale.item() == pytest.approx(old.scale.median().item(), rel=0.2)


def test_boxcox_forecasts_are_at_least_zero() -> None:
    domain = choose_domain(["y"], ["y"], None, None, "boxcox")
    location, shape = (torch.tensor([[number]], dtype=torch.float64) for number in (0.0, 0.5))
    scaler = Scaler(torch.zeros(1, 1), torch.ones(1, 1), domain, location, shape)
    assert scaler.inverse(torch.tensor([[-5.0], [-2.0], [0.0]]), 0)[:, 0].tolist() == [0.0, 0.0, 1.0]
    assert scaler.clip(torch.tensor([[[-5.0]]]), torch.zeros(1, dtype=torch.int64)).item() == -2


def test_a_state_loads_as_plain_values() -> None:
    scaler, file = scaler_of("asinh", PRICES, lower=-200.0), io.BytesIO()
    torch.save(scaler.state_dict(), file)
    file.seek(0)
    loaded = Scaler.from_state_dict(torch.load(file, weights_only=True))
    assert loaded.domain == scaler.domain
    assert all(map(torch.equal, loaded.tensors, scaler.tensors))


# ---- scores


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


def test_a_monotone_transform_keeps_the_coverage() -> None:
    """Quantiles of log values, inverted, hold as many true values as before; the widths are those of original units."""
    scaler, at = scaler_of("log1p", COUNTS, lower=0.0), probabilities([80])
    generator = torch.Generator().manual_seed(1)
    quantiles = scaler.clip(3 * torch.randn(50, 4, 1, len(at), generator=generator).sort(-1).values, None)
    target = scaler.transform(torch.from_numpy(COUNTS[:200].reshape(50, 4, 1)), None).float()
    sums = IntervalSums(at, [80], scaler, 4)
    sums.update(quantiles, target, torch.zeros(50, dtype=torch.int64))
    found = sums.compute()["80"]
    assert isinstance(found, dict)
    low, high = (scaler.inverse(quantiles[..., at.index(p)], None).numpy()[..., 0] for p in (0.1, 0.9))
    y = COUNTS[:200].reshape(50, 4)
    assert (low >= 0).all()
    assert found["coverage"] == pytest.approx(((low <= y + 1e-4) & (y <= high + 1e-4)).mean())
    assert found["width_raw"] == pytest.approx((high - low).mean(), rel=1e-5)
    assert found["width"] == pytest.approx((high - low).mean() / float(scaler.error_unit), rel=1e-5)
    outside = (np.clip(low - y, 0, None) + np.clip(y - high, 0, None)).mean()
    score = ((high - low).mean() + 2 / 0.2 * outside) / float(scaler.error_unit)
    assert found["score"] == pytest.approx(score, rel=1e-4)


def test_offsets_of_a_refit_are_equal_in_transformed_units() -> None:
    calibration = Calibration.fit(torch.randn(60, 3, 1), horizons=20)
    old, new = scaler_of("log1p", COUNTS), scaler_of("log1p", COUNTS)
    new.scale *= 4
    torch.testing.assert_close(calibration.rescaled(old, new).offsets, calibration.offsets / 4)
    other = scaler_of("asinh", PRICES), scaler_of("asinh", PRICES + 10)
    torch.testing.assert_close(calibration.rescaled(*other).offsets, calibration.offsets)


# ---- data modules


def sales(rows: int = 500) -> pd.DataFrame:
    random = np.random.default_rng(rows)
    dates = pd.date_range("2021-03-01", periods=rows, freq="h")
    values = random.lognormal(1, 1, (rows, 2)).round(3)
    return pd.DataFrame({"date": dates, "load": values[:, 0], "price": values[:, 1] - 3})


def ready(path: Path, frame: pd.DataFrame, **options) -> DataModule:
    frame.to_csv(path, index=False)
    data = csv_data(path=path, **SIZES | options)
    data.setup()
    return data


def test_a_transform_equals_transformed_values_in_the_file(tmp_path: Path) -> None:
    frame = sales()
    logged = frame.assign(load=np.log1p(frame["load"]))
    data = ready(tmp_path / "a.csv", frame, transform={"load": "log1p"})
    other = ready(tmp_path / "b.csv", logged)
    torch.testing.assert_close(data.windows["test"].values[:], other.windows["test"].values[:])
    batch = data.windows["test"].gather(torch.arange(5))
    truth = data.unscale_targets(batch.future, batch.series)
    rows = data.windows["test"].origins(batch.index)[:, None] + torch.arange(6)
    np.testing.assert_allclose(truth, frame[["load", "price"]].to_numpy()[rows.numpy()], rtol=1e-5, atol=1e-5)
    naive = np.abs(np.diff(frame["load"].to_numpy()[:350]))
    fitted = FittedBaselines.fit(ready(tmp_path / "a.csv", frame, transform={"load": "log1p"}, season=1))
    assert fitted.naive_mae[0, 0].item() == pytest.approx(naive.mean(), rel=1e-5)


def test_one_transform_is_for_the_targets(tmp_path: Path) -> None:
    options = {"features": "MS", "target": "price", "transform": "asinh", "lower": -3}
    data = ready(tmp_path / "a.csv", sales(), **options)
    assert data.scaler.domain == Domain(("none", "asinh"), (-np.inf, -3.0), (np.inf, np.inf))
    assert data.target_scaler.domain == Domain(("asinh",), (-3.0,), (np.inf,))


@pytest.mark.parametrize("kind", ["boxcox", "asinh"])
def test_parameters_come_from_the_training_rows(tmp_path: Path, kind: str) -> None:
    """Whatever comes after them: no parameter and no training value moves."""
    frame = sales()
    before = ready(tmp_path / "a.csv", frame, transform={"load": kind})
    frame.loc[350:, "load"] = frame.loc[350:, "load"] * 1000
    after = ready(tmp_path / "b.csv", frame, transform={"load": kind})
    assert all(map(torch.equal, before.scaler.tensors, after.scaler.tensors))
    assert torch.equal(before.scaled.values[torch.arange(350)], after.scaled.values[torch.arange(350)])
    location, shape = scaler.fit(kind, sales()["load"].to_numpy()[:350])
    assert (before.scaler.location[0, 0], before.scaler.shape[0, 0]) == (location, shape)


@pytest.mark.parametrize("scale_by", ["series", "all"])
def test_each_series_has_its_own_parameters(scale_by: str) -> None:
    frame = long_frame()
    data = long_frame_data(
        frame, name="mine", seq_len=6, pred_len=3, split=[0.7, 0.1, 0.2], transform="asinh", scale_by=scale_by
    )
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
    state = data.state_dict()  # a new series takes the transform of the checkpoint, and fits its parameters
    extra = frame[frame["unique_id"] == "a"].assign(unique_id="new", y=lambda part: 7 * part["y"] + 1)
    other = long_frame_data(
        pd.concat([frame, extra]),
        name="mine",
        seq_len=6,
        pred_len=3,
        split=[0.7, 0.1, 0.2],
        scale_by=scale_by,
    )
    other.load_state_dict(state)
    other.setup()
    assert other.scaler.domain == data.scaler.domain
    place = other.panel.ids.get_indexer(data.panel.ids)
    assert torch.equal(other.scaler.shape[place], data.scaler.shape)
    if scale_by == "series":
        new = list(other.panel.ids).index("new")
        (a,), (b,) = (other.rows["train"][i][[new]] for i in (0, 1))
        fitted = scaler.fit("asinh", np.asarray(other.panel.values)[a:b, 0])
        assert (other.scaler.location[new, 0], other.scaler.shape[new, 0]) == pytest.approx(fitted)


def test_zero_as_a_fill_is_zero_in_data_units(tmp_path: Path) -> None:
    frame = sales()
    frame.loc[[100, 101], "load"] = np.nan
    data = ready(tmp_path / "a.csv", frame, transform={"load": "log1p"}, fill="zero")
    past = data.scaled.past(torch.tensor([90]), 20, torch.tensor([0]))
    units = data.scaler.inverse(past, torch.tensor([0]))[0, [10, 11], 0]
    assert units.abs().max() < 1e-6
