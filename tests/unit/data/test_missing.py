"""Missing values: completed in the past of a window, left missing in the truth, counted nowhere."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import DataModule, frame_data
from forecast.data.source import FILLS
from forecast.data.windows import SEASONS_BACK, Fill
from forecast.evaluation.baselines import FittedBaselines
from tests.support.windows import set_up

SEASON = 4


def expected(past: np.ndarray, method: str, zero: float, limit: int | None) -> np.ndarray:
    """One column of one window, completed value by value."""
    measured = np.flatnonzero(~np.isnan(past))
    mean = past[measured].mean() if len(measured) else 0.0
    completed, last = past.copy(), len(past) - 1
    shifts = [k * SEASON for k in (*range(-1, -SEASONS_BACK - 1, -1), *range(1, SEASONS_BACK + 1))]
    for t in np.flatnonzero(np.isnan(past)):
        before, after = measured[measured < t], measured[measured > t]
        line = np.nan
        if len(before) and len(after):
            line = np.interp(t, [before[-1], after[0]], [past[before[-1]], past[after[0]]])
        phases = [past[t + s] for s in shifts if 0 <= t + s <= last]
        seasonal = next((value for value in phases if not np.isnan(value)), np.nan)
        previous = past[before[-1]] if len(before) else np.nan
        near = before[-1] if len(before) else after[0] if len(after) else 0
        seasons = [s for s in shifts if min(t, near) + s >= 0 and max(t, near) + s <= last]
        changed = [past[near] + past[t + s] - past[near + s] for s in seasons]
        at_end = next((value for value in changed if not np.isnan(value)), np.nan)
        rows_of_gap = (after[0] if len(after) else len(past)) - (before[-1] if len(before) else -1) - 1
        is_short = rows_of_gap <= SEASON // 4
        choices = {
            "linear": [line, previous],
            "previous": [previous],
            "seasonal": [seasonal, previous],
            "auto": [line, at_end, seasonal, previous] if is_short else [seasonal, previous],
            "zero": [zero],
            "none": [],
        }[method]
        if limit is not None and method != "zero" and len(before) and t - before[-1] > limit:
            choices = []
        completed[t] = next((value for value in choices if not np.isnan(value)), mean)
    return completed


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("method", FILLS)
def test_completed_value_by_value(method: str, limit: int | None) -> None:
    generator = np.random.default_rng(0)
    past = generator.normal(size=(40, 17, 2))
    past[generator.random(past.shape) < generator.choice([0.1, 0.5, 0.9], size=(40, 1, 1))] = np.nan
    past[0] = np.nan
    series = torch.from_numpy(generator.integers(0, 3, size=40))
    zero = torch.from_numpy(generator.normal(size=(3, 2)))
    fill = Fill((method, method), SEASON, limit, zero)
    found = fill.complete(torch.from_numpy(past), series).numpy()
    for i, window in enumerate(past):
        for c in range(2):
            value = float(zero[series[i], c])
            np.testing.assert_allclose(found[i, :, c], expected(window[:, c], method, value, limit))


def holes(share: float, rows: int = 600, columns: int = 2, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    t = np.arange(rows)[:, None]
    values = 5 + np.sin(2 * np.pi * t / 24) + 0.1 * generator.normal(size=(rows, columns))
    values[generator.random(values.shape) < share] = np.nan
    values[[0, -1]] = 5.0
    dates = pd.date_range("2024-01-01", periods=rows, freq="h", name="date")
    return pd.DataFrame(values, dates, [f"c{i}" for i in range(columns)])


def ready(frame: pd.DataFrame, **options: Any) -> DataModule:
    given: dict[str, Any] = {"seq_len": 48, "pred_len": 12, "split": [0.6, 0.2, 0.2], **options}
    return set_up(frame_data(frame, name="frame", **given))


def test_the_truth_stays_missing_and_the_past_is_complete() -> None:
    frame = holes(0.3)
    data = ready(frame)
    windows = data.windows["test"]
    batch = windows.gather(torch.arange(len(windows)))
    assert batch.past.isfinite().all()
    scaled = (frame.to_numpy() - data.scaler.center.numpy()) / data.scaler.scale.numpy()
    for i, origin in enumerate(windows.origins(batch.index).tolist()):
        np.testing.assert_allclose(batch.future[i], scaled[origin : origin + 12], rtol=1e-5)
        past = scaled[origin - 48 : origin]
        np.testing.assert_array_equal(windows.measured(batch.index)[i], ~np.isnan(past))
        np.testing.assert_allclose(batch.past[i].numpy()[~np.isnan(past)], past[~np.isnan(past)], rtol=1e-5)


@pytest.mark.parametrize("kind", ["standard", "minmax", "robust"])
def test_scalers_count_measured_values(kind: str) -> None:
    frames = [holes(0.4, columns=1, seed=seed) * (1 + seed) for seed in range(3)]
    parts = [frame.reset_index().assign(id=f"s{i}") for i, frame in enumerate(frames)]
    data = pd.concat(parts, ignore_index=True)
    module = ready(data, scaler=kind, id_column="id", date_column="date", target="c0")
    for s, frame in enumerate(frames):
        first, last = (int(rows[s]) for rows in module.rows["train"])
        rows = frame.iloc[: last - first].dropna()
        low, median, high = np.percentile(rows, [25, 50, 75])
        center, scale = {
            "standard": (rows.mean(), rows.std(ddof=0)),
            "minmax": (rows.min(), rows.max() - rows.min()),
            "robust": (median, high - low),
        }[kind]
        np.testing.assert_allclose(module.scaler.center[s], center)
        np.testing.assert_allclose(module.scaler.scale[s], scale)


def test_baselines_read_measured_values() -> None:
    frame = holes(0.0)
    frame.iloc[-20:-12, 0] = np.nan  # the last window forecasts the last 12 rows
    frame.iloc[-30, 1] = np.nan
    data = ready(frame, season=24)
    windows = data.windows["test"]
    batch = windows.gather(torch.tensor([len(windows) - 1]))
    baselines = FittedBaselines.fit(data).baselines()
    scaled = (frame.to_numpy() - data.scaler.center.numpy()) / data.scaler.scale.numpy()
    naive = baselines["naive"](windows, batch)[0]
    np.testing.assert_allclose(naive[:, 0], np.full(12, scaled[-21, 0]), rtol=1e-5)
    seasonal = baselines["seasonal_naive"](windows, batch)[0]
    wanted = scaled[-36:-24].copy()
    wanted[6, 1] = scaled[-54, 1]  # a season earlier
    np.testing.assert_allclose(seasonal, wanted, rtol=1e-5)
