"""Forecasts by a baseline in place of the model, and adaptive intervals, compared with the same rules written out."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from forecast import Model, load
from forecast.evaluation.conformal import Calibration, adapt
from forecast.inference.forecasters import choose_forecaster
from forecast.inference.predict import calibration_for
from tests.support.commands import answer

SEQ, PRED = 12, 5  # tests.support.commands.TINY


@pytest.fixture(scope="module")
def frame(run: Path) -> pd.DataFrame:
    return pd.read_csv(run.parents[1] / "load.csv", parse_dates=["date"], index_col="date")


@pytest.fixture
def model(run: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.chdir(run.parents[1])
    return load(run)


def season_of(model: Model) -> int:
    assert model.baselines is not None
    return model.baselines.seasonal_naive_season


@pytest.mark.parametrize("horizon", [3, 30])
def test_the_naive_rules_repeat_rows_of_the_file(model: Model, frame: pd.DataFrame, horizon: int) -> None:
    values, season = frame.to_numpy(), season_of(model)
    found = model.predict(horizon=horizon, baseline="naive")
    assert found.index[0] == frame.index[-1] + pd.Timedelta(hours=1)
    np.testing.assert_allclose(found, np.repeat(values[-1:], horizon, axis=0), rtol=1e-5)
    found = model.predict(horizon=horizon, baseline="seasonal_naive")
    np.testing.assert_allclose(found, values[len(values) - season + np.arange(horizon) % season], rtol=1e-5)
    earlier = model.predict(horizon=horizon, baseline="seasonal_naive", start=frame.index[250])
    np.testing.assert_allclose(
        earlier[["load", "temperature"]], values[250 - season + np.arange(horizon) % season], rtol=1e-5
    )
    np.testing.assert_array_equal(earlier["load-true"], values[250 : 250 + horizon, 0])


def test_the_linear_baseline_reads_its_own_forecasts_beyond_pred_len(
    model: Model, frame: pd.DataFrame
) -> None:
    assert model.baselines is not None
    short = model.predict(baseline="linear")
    long = model.predict(horizon=2 * PRED, baseline="linear")
    np.testing.assert_allclose(long.iloc[:PRED], short, rtol=1e-6)
    again = model.predict(pd.concat([frame, short]), baseline="linear")
    np.testing.assert_allclose(long.iloc[PRED:], again, rtol=1e-4)
    data = model.data()
    windows = data.windows["test"]
    batch = windows.gather(torch.tensor([len(windows) - 1]))
    forecast = model.baselines.baselines()["linear"](windows, batch)
    expected = data.unscale_targets(forecast, batch.series)[0]
    found = model.predict(start=frame.index[-PRED], baseline="linear")
    np.testing.assert_allclose(found[["load", "temperature"]], expected, rtol=1e-5)


@pytest.mark.parametrize("horizon", [11])
def test_the_bounds_of_a_baseline_are_from_its_own_errors(
    model: Model, frame: pd.DataFrame, horizon: int
) -> None:
    found = model.predict(horizon=horizon, levels=[50], baseline="seasonal_naive")
    (first,), (last,) = model.data().rows["val"]
    values, season, steps = frame[model.target_columns].to_numpy(), season_of(model), np.arange(horizon)
    errors = np.array([
        values[origin + steps] - values[origin - season + steps % season]
        for origin in range(first, last - horizon + 1)
    ])  # fmt: skip
    horizons = 1 + (len(errors) - 1) / horizon
    calibration = Calibration.fit(torch.from_numpy(errors), [50], horizons=horizons)
    for side, probability in (("lo", 0.25), ("hi", 0.75)):
        offsets = calibration.offsets[calibration.quantiles.index(probability)].numpy()
        for place, name in enumerate(model.target_columns):
            np.testing.assert_allclose(
                found[f"{name}-{side}-50"] - found[name], offsets[:, place], rtol=1e-3, atol=1e-3
            )


@pytest.mark.parametrize("baseline", [None, "seasonal_naive"])
def test_adaptive_bounds_follow_the_errors_of_the_forecasts_before(
    model: Model, frame: pd.DataFrame, baseline: str | None
) -> None:
    start = 222  # the training rows end at row 210
    options = {"levels": [80], "intervals": "adaptive", "baseline": baseline}
    found = model.predict(start=frame.index[start], **options)
    errors = torch.full((1, start - 210, PRED, 2), torch.nan)
    for number, origin in enumerate(range(210, start)):
        point = model.predict(start=frame.index[origin], baseline=baseline)[
            ["load", "temperature"]
        ].to_numpy()
        error = (frame.to_numpy()[origin : origin + PRED] - point) / model.target_scaler.scale.numpy()
        errors[0, number] = torch.from_numpy(error).float()
    calibration = calibration_for(choose_forecaster(model, baseline), [80], PRED)
    *_, offsets = adapt(calibration, errors, stride=1)
    for probability, name in ((0.1, "load-lo-80"), (0.9, "load-hi-80")):
        offset = offsets[0, calibration.quantiles.index(probability), :, 0] * model.target_scaler.scale[0, 0]
        np.testing.assert_allclose(found[name] - found["load"], offset, rtol=1e-3, atol=1e-3)
    changed = frame.copy()
    changed.iloc[start:] *= 10
    columns = ["load", "load-lo-80", "load-hi-80"]
    same = model.predict(changed, start=frame.index[start], **options)[columns]
    np.testing.assert_array_equal(same, found[columns])
    moved = []
    for value in (1e4, -1e4):  # an error above every bound, and one below
        changed.iloc[215, 0] = value
        other = model.predict(changed, start=frame.index[start], **options)
        moved.append(other[["load-lo-80", "load-hi-80"]].sub(other["load"], axis=0).to_numpy())
    assert (moved[0] != moved[1]).any(axis=1).sum() >= 3  # later errors may bring a bound back


def test_the_lines_repeat_what_the_test_found(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    model: Model,
) -> None:
    assert model.test is not None
    options = (
        f"checkpoint={run}",
        f"data.path={run.parents[1] / 'load.csv'}",
        "levels=[80]",
        "overwrite=true",
    )
    assert answer(monkeypatch, "predict", tmp_path, *options) == 0
    out = capsys.readouterr().out
    coverage = model.test.coverage["conformal"]["80"]
    assert f"test       the 80% interval covered {coverage:.1%} of the values" in out
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["intervals"]["conformal"]["80"]["coverage"] == coverage
    best = metrics["best_baseline"]
    less = 1 - metrics["baselines"][best]["mse"] / metrics["test"]["mse"]
    assert less > 0.01, "the model of one epoch is worse than the best baseline"
    assert f"had {less:.1%} less MSE than the model: baseline={best} forecasts with it" in out
    assert answer(monkeypatch, "predict", tmp_path, *options, "baseline=naive", "intervals=adaptive") == 0
    out = capsys.readouterr().out
    assert "naive in place of the trained model: repeats the last value" in out
    assert "80%, adaptive, moved by the errors of 90 earlier forecasts" in out
    assert "interval covered" not in out  # the test measured no intervals of baselines
    assert "the coverage of its intervals was not measured" in out
