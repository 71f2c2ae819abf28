"""Forecasts of a trained model, compared with the network applied by hand, in every mode and for every kind of data."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast import Model, load
from forecast.data.time_features import time_features
from forecast.evaluation.conformal import Calibration, adapt
from forecast.inference.forecasters import choose_forecaster
from forecast.inference.predict import calibration_for
from forecast.runs.folder import read_metrics
from forecast.system.errors import DataError
from tests.support.commands import run_command

SEQ, PRED = 12, 5  # tests.support.commands.TINY


@pytest.fixture
def frame(run: Path) -> Any:
    return pd.read_csv(run.parents[1] / "load.csv", parse_dates=["date"], index_col="date")


def by_hand(model: Model, past: Any) -> pd.DataFrame:
    """The forecast after `past`: the network between scaling and unscaling in NumPy."""
    center, scale = model.scaler.center.numpy(), model.scaler.scale.numpy()
    history = past.iloc[-SEQ:]
    dates = pd.date_range(history.index[-1], periods=PRED + 1, freq="h", name="date")[1:]
    inputs = [
        ((history.to_numpy() - center) / scale),
        time_features(pd.DatetimeIndex(history.index), "h"),
        time_features(dates, "h"),
    ]
    with torch.no_grad():
        scaled = model.network(*(torch.from_numpy(part).float()[None] for part in inputs))
    return pd.DataFrame(scaled[0].double().numpy() * scale + center, index=dates, columns=past.columns)


def test_the_steps_after_the_end_and_beyond_from_its_own_forecasts(model: Model, frame: Any) -> None:
    found = model.predict()
    pd.testing.assert_frame_equal(found, by_hand(model, frame), check_freq=False, rtol=1e-5)
    pd.testing.assert_frame_equal(found, model.predict(frame))
    longer, parts, past = model.predict(horizon=12), [], frame
    for _ in range(3):
        parts.append(by_hand(model, past))
        past = pd.concat([past, parts[-1]])
    np.testing.assert_allclose(longer, pd.concat(parts).iloc[:12], rtol=1e-4)
    np.testing.assert_allclose(model.predict(horizon=3), found.iloc[:3], rtol=1e-5)


def test_a_forecast_from_an_earlier_date_has_the_true_values(model: Model, frame: Any) -> None:
    found = model.predict(start="2024-01-10 06:00")
    before, truth = frame[:"2024-01-10 05:00"], frame["2024-01-10 06:00":].iloc[:PRED]
    expected = by_hand(model, before)
    for name in frame.columns:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
        np.testing.assert_array_equal(found[f"{name}-true"], truth[name])
        np.testing.assert_allclose(found[f"{name}-error"], found[name] - truth[name])
    edge = model.predict(start=frame.index[-2])
    assert edge["load-true"].notna().tolist() == [True, True, False, False, False]


def test_dates_in_several_columns_are_written_as_they_are_read(run: Path, frame: Any, tmp_path: Path) -> None:
    """The forecast can be appended to the file, which then is forecast from there."""
    parts = ["year", "month", "day", "hour"]
    dates = pd.DataFrame({part: getattr(frame.index, part) for part in parts})
    file = pd.concat([dates, frame.reset_index(drop=True)], axis=1)
    file.to_csv(tmp_path / "parts.csv", index=False)
    given = (f"checkpoint={run}", "data.path=parts.csv", f"data.date_column=[{','.join(parts)}]", "levels=[]")
    assert run_command("predict", tmp_path, *given) == 0
    found = pd.read_csv(tmp_path / "forecast.csv")
    assert list(found.columns) == list(file.columns)
    pd.concat([file, found]).to_csv(tmp_path / "parts.csv", index=False)
    assert run_command("predict", tmp_path, *given, "output=next.csv") == 0
    after = pd.to_datetime(pd.read_csv(tmp_path / "next.csv")[parts])
    assert after.tolist() == list(pd.date_range(frame.index[-1], periods=2 * PRED + 1, freq="h")[PRED + 1 :])


def test_a_forecast_in_the_format_of_its_file_is_appended_to_it(run: Path, frame: Any, tmp_path: Path, capsys) -> None:
    other = frame.rename_axis("Zeit").reset_index().assign(note="x")
    other["Zeit"] = other["Zeit"].dt.strftime("%d.%m.%Y %H:%M")
    file = tmp_path / "last.csv"
    other[[*frame.columns[::-1], "note", "Zeit"]].to_csv(file, sep=";", decimal=",", index=False)
    given = (
        f"checkpoint={run}", "data.path=last.csv", "data.date_column=Zeit", "data.separator=;", "data.decimal=,",
        "data.day_first=true", "levels=[]", "format=as_file",
    )  # fmt: skip
    assert run_command("predict", tmp_path, *given) == 0
    header, *rows = (tmp_path / "forecast.csv").read_text().splitlines(keepends=True)
    text = file.read_text()
    assert header == text.splitlines(keepends=True)[0]
    file.write_text(text + "".join(rows))
    assert run_command("predict", tmp_path, *given, "output=next.csv") == 0
    after = pd.read_csv(tmp_path / "next.csv", sep=";", decimal=",")
    dates = pd.date_range(frame.index[-1], periods=2 * PRED + 1, freq="h")[PRED + 1 :]
    assert after["Zeit"].tolist() == dates.strftime("%d.%m.%Y %H:%M").tolist()
    assert after[list(frame.columns)].notna().to_numpy().all()
    frame.to_parquet(tmp_path / "load.parquet")
    capsys.readouterr()
    given = (f"checkpoint={run}", "data.path=load.parquet", "format=as_file", "output=other.csv")
    assert run_command("predict", tmp_path, *given) == 2
    assert "format=as_file: load.parquet is not a text file" in capsys.readouterr().err


def test_bounds_are_trained_quantiles_and_those_of_samples(quantile_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(quantile_run.parents[1])
    model = load(quantile_run)
    assert model.refitted is not None
    found = model.predict(levels=[60, 95])
    columns = ["load-lo-95", "load-lo-60", "load", "load-hi-60", "load-hi-95"]
    assert (np.diff(found[columns].to_numpy(), axis=1) >= 0).all()
    conformal = model.predict(levels=[60], intervals="conformal")
    assert not np.allclose(conformal["load-lo-60"], found["load-lo-60"])
    pd.testing.assert_frame_equal(model.predict(levels=[50, 60]), model.predict(levels=[50, 60], intervals="conformal"))
    assert len(model.predict(levels=[60], horizon=9)) == 9
    assert model.calibration is not None
    assert model.calibration.ranks is not None  # those of the tested model
    for method in ("quantile", "conformal", "adaptive"):
        found = model.predict(levels=[60, 95], intervals=method)
        paths = model.predict(samples=2_000, levels=[60, 95], intervals=method).groupby(level=0)["load"]
        width = (found["load-hi-95"] - found["load-lo-95"]).mean()
        for name, p in (("load-lo-95", 0.025), ("load-lo-60", 0.2), ("load-hi-95", 0.975)):
            np.testing.assert_allclose(paths.quantile(p), found[name], atol=0.02 * width)


def test_a_forecast_after_missing_values(model: Model, frame: Any) -> None:
    """Values missing before the forecast are completed, and nothing else changes."""
    holes = frame.copy()
    holes.iloc[295, 0] = np.nan
    found, whole = model.predict(holes.drop(frame.index[200])), model.predict(frame)
    assert found.index.equals(whole.index)
    assert np.isfinite(found.to_numpy()).all()
    assert not found.equals(whole)
    mended = frame.copy()
    mended.iloc[295, 0] = (frame.iloc[294, 0] + frame.iloc[296, 0]) / 2  # one row: a line across the gap
    pd.testing.assert_frame_equal(found, model.predict(mended), rtol=1e-5)


def test_it_writes_a_table_and_a_picture_once(run: Path, tmp_path: Path, capsys, frame: Any, model: Model) -> None:
    options = (f"checkpoint={run}", f"data.path={run.parents[1] / 'load.csv'}")
    assert run_command("predict", tmp_path, *options) == 0
    out = capsys.readouterr().out
    assert "5 steps, every hour, 2024-01-13 12:00 to 2024-01-13 16:00" in out
    cells = (tmp_path / "forecast.csv").read_text().splitlines()[1].split(",")[1:]
    assert all(cell == format(float(str(np.float32(cell))), ".12g") for cell in cells), cells
    assert "80%, 95%, conformal" in out
    found = pd.read_csv(tmp_path / "forecast.csv", parse_dates=["date"], index_col="date")
    expected = model.predict(frame, levels=[80, 95])
    pd.testing.assert_frame_equal(found, expected, check_freq=False, rtol=1e-6, check_index_type=False)
    assert (tmp_path / "forecast.png").stat().st_size > 10_000
    before = (tmp_path / "forecast.csv").read_bytes()
    assert run_command("predict", tmp_path, *options, "horizon=3") == 2
    assert (tmp_path / "forecast.csv").read_bytes() == before
    assert run_command("predict", tmp_path, *options, "horizon=3", "overwrite=true") == 0
    assert len(pd.read_csv(tmp_path / "forecast.csv")) == 3
    assert run_command("predict", tmp_path, *options, "horizon=12", "levels=[]", "overwrite=true") == 0
    assert "the model reads its own forecasts\n" in capsys.readouterr().out  # and no intervals


def test_samples_are_paths_around_the_forecast(run: Path, tmp_path: Path, capsys, frame: Any, model: Model) -> None:
    options = (f"checkpoint={run}", f"data.path={run.parents[1] / 'load.csv'}", "samples=50")
    assert run_command("predict", tmp_path, *options) == 0
    out = capsys.readouterr().out
    assert "samples    50 paths, in the order of the errors of 26 validation windows, rough, for these hold 6.0" in out
    assert "forecast.csv, forecast_samples.csv, forecast.png" in out
    found = pd.read_csv(tmp_path / "forecast_samples.csv", parse_dates=["date"], index_col="date")
    assert list(found.columns) == ["sample", "load", "temperature"]
    assert found["sample"].tolist() == np.arange(50).repeat(PRED).tolist()
    again = model.predict(frame, samples=50)
    pd.testing.assert_frame_equal(found, again, check_freq=False, rtol=1e-6, check_index_type=False)
    assert not again.equals(model.predict(frame, samples=50, seed=1))
    assert run_command("predict", tmp_path, *options) == 2  # the files exist
    assert run_command("predict", tmp_path, *options, "output=-") == 0
    assert capsys.readouterr().out.startswith("date,sample,load,temperature\n")
    stored = model.calibration
    assert stored is not None
    model.calibrations["model"] = replace(stored, ranks=None)  # as in a checkpoint of an earlier version
    pd.testing.assert_frame_equal(model.predict(frame, samples=50), again, rtol=1e-3)
    model.calibrations["model"] = replace(stored, horizons=4.9)
    with pytest.raises(DataError, match=r"5 horizons, and these hold 4\.9: train with a larger"):
        model.predict(frame, samples=50)


# ---- baselines in place of the model, and adaptive intervals


@pytest.mark.parametrize("horizon", [3, 30])
def test_the_naive_rules_repeat_rows_of_the_file(model: Model, frame: pd.DataFrame, horizon: int) -> None:
    assert model.baselines is not None
    values, season = frame.to_numpy(), model.baselines.seasonal_naive_season
    found = model.predict(horizon=horizon, baseline="naive")
    np.testing.assert_allclose(found, np.repeat(values[-1:], horizon, axis=0), rtol=1e-5)
    for end, start in ((len(values), None), (250, frame.index[250])):
        found = model.predict(horizon=horizon, baseline="seasonal_naive", start=start)
        expected = values[end - season + np.arange(horizon) % season]
        np.testing.assert_allclose(found[["load", "temperature"]], expected, rtol=1e-5)


@pytest.mark.parametrize("baseline", [None, "seasonal_naive"])
def test_bounds_of_longer_horizons_use_such_errors(model: Model, frame: pd.DataFrame, baseline: str | None) -> None:
    """Of the model from its own forecasts, or of the baseline."""
    horizon, names = 11, model.target_columns
    found = model.predict(horizon=horizon, levels=[50], baseline=baseline)
    (first,), (last,) = model.data().rows["val"]
    forecasts, truth = [], []
    for origin in range(first, last - horizon + 1):
        made = model.predict(frame.iloc[:origin], horizon=horizon, baseline=baseline)
        forecasts.append(made[names].to_numpy())
        truth.append(frame[names].iloc[origin : origin + horizon].to_numpy())
    horizons = 1 + (len(truth) - 1) / horizon
    made, measured = (torch.tensor(np.array(each)) for each in (forecasts, truth))
    calibration = Calibration.fit(made, measured, [50], horizons=horizons)
    factors = calibration.factors(torch.tensor(found[names].to_numpy())).numpy()
    for side, probability in (("lo", 0.25), ("hi", 0.75)):
        offsets = calibration.offsets[calibration.quantiles.index(probability)].numpy()
        for place, name in enumerate(names):
            moved = found[f"{name}-{side}-50"] - found[name]
            np.testing.assert_allclose(moved, (factors * offsets)[:, place], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("baseline", [None, "seasonal_naive"])
def test_adaptive_bounds_follow_the_errors_before(model: Model, frame: pd.DataFrame, baseline: str | None) -> None:
    start = 228  # the training rows end at row 210
    options = {"levels": [80], "intervals": "adaptive", "baseline": baseline}
    found = model.predict(start=frame.index[start], **options)
    calibration = calibration_for(choose_forecaster(model, baseline), [80], PRED)
    center, scale = (each.numpy() for each in (model.target_scaler.center, model.target_scaler.scale))
    find_factors = lambda point: calibration.factors(torch.tensor((point - center) / scale)).numpy()  # noqa: E731
    errors = torch.full((1, start - 210, PRED, 2), torch.nan)
    for number, origin in enumerate(range(210, start)):
        point = model.predict(start=frame.index[origin], baseline=baseline)[["load", "temperature"]].to_numpy()
        error = (frame.to_numpy()[origin : origin + PRED] - point) / scale / find_factors(point)
        errors[0, number] = torch.from_numpy(error).float()
    *_, offsets = adapt(calibration, errors, stride=1)
    for probability, name in ((0.1, "load-lo-80"), (0.9, "load-hi-80")):
        offset = offsets[0, calibration.quantiles.index(probability)].numpy() * scale
        offset = (offset * find_factors(found[["load", "temperature"]].to_numpy()))[:, 0]
        np.testing.assert_allclose(found[name] - found["load"], offset, rtol=1e-3, atol=1e-3)
    changed = frame.copy()
    changed.iloc[start:] *= 10
    columns = ["load", "load-lo-80", "load-hi-80"]
    same = model.predict(changed, start=frame.index[start], **options)[columns]
    np.testing.assert_array_equal(same, found[columns])


def test_the_lines_repeat_what_the_test_found(run: Path, tmp_path: Path, capsys) -> None:
    given = (f"checkpoint={run}", f"data.path={run.parents[1] / 'load.csv'}", "levels=[80]", "overwrite=true")
    assert run_command("predict", tmp_path, *given) == 0
    out, metrics = capsys.readouterr().out, read_metrics(run)
    coverage = metrics["intervals"]["conformal"]["80"]["coverage"]
    assert f"test       the 80% interval covered {coverage:.1%} of the values" in out
    best = metrics["best_baseline"]
    less = 1 - metrics["baselines"][best]["mse"] / metrics["test"]["mse"]
    assert less > 0.01, "the model of one epoch is worse than the best baseline"
    assert f"had {less:.1%} less MSE than the model: baseline={best} forecasts with it" in out
    assert run_command("predict", tmp_path, *given, "baseline=naive", "intervals=adaptive") == 0
    out = capsys.readouterr().out
    assert "80%, adaptive, moved by the errors of 90 earlier forecasts" in out
    assert "the coverage of its intervals was not measured" in out
