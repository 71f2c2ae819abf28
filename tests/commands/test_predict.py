"""Forecasts of a trained model, compared with the network applied by hand, in every mode and for every kind of data."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast import Model, load
from forecast.data.time_features import time_features
from forecast.evaluation.conformal import Calibration
from forecast.inference.predict import recursive_windows
from forecast.system.errors import CheckpointError, ConfigError, ForecastError
from tests.support.commands import answer, train_here, trained
from tests.support.csv_files import write_csv

SEQ, PRED = 12, 5  # tests.support.commands.TINY


@pytest.fixture
def frame(run: Path) -> Any:
    return pd.read_csv(run.parents[1] / "load.csv", parse_dates=["date"], index_col="date")


@pytest.fixture
def model(run: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.chdir(run.parents[1])
    return load(run)


def by_hand(model: Model, past: Any) -> pd.DataFrame:
    """The forecast after `past`: the network between scaling and unscaling in NumPy."""
    center, scale = model.scaler.center.numpy(), model.scaler.scale.numpy()
    history = past.iloc[-SEQ:]
    dates = pd.date_range(history.index[-1], periods=PRED + 1, freq="h")[1:]
    inputs = [
        ((history.to_numpy() - center) / scale),
        time_features(pd.DatetimeIndex(history.index), "h"),
        time_features(dates, "h"),
    ]
    with torch.no_grad():
        scaled = model.network(*(torch.from_numpy(part).float()[None] for part in inputs))
    return pd.DataFrame(scaled[0].double().numpy() * scale + center, index=dates, columns=past.columns)


def test_the_steps_after_the_end(model: Model, frame: Any) -> None:
    found = model.predict()
    assert found.index.name == "date"
    assert list(found.columns) == ["load", "temperature"]
    pd.testing.assert_frame_equal(
        found, by_hand(model, frame), check_names=False, check_freq=False, rtol=1e-5
    )
    pd.testing.assert_frame_equal(found, model.predict(frame))


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


def test_dates_in_several_columns_are_written_as_they_are_read(
    run: Path, frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forecast can be appended to the file, which then is forecast from there."""
    parts = ["year", "month", "day", "hour"]
    dates = pd.DataFrame({part: getattr(frame.index, part) for part in parts})
    file = pd.concat([dates, frame.reset_index(drop=True)], axis=1)
    file.to_csv(tmp_path / "parts.csv", index=False)
    given = (f"checkpoint={run}", "data.path=parts.csv", f"data.date_column=[{','.join(parts)}]", "levels=[]")
    assert answer(monkeypatch, "predict", tmp_path, *given) == 0
    found = pd.read_csv(tmp_path / "forecast.csv")
    assert list(found.columns) == list(file.columns)
    pd.concat([file, found]).to_csv(tmp_path / "parts.csv", index=False)
    assert answer(monkeypatch, "predict", tmp_path, *given, "output=next.csv") == 0
    after = pd.to_datetime(pd.read_csv(tmp_path / "next.csv")[parts])
    assert after.tolist() == list(pd.date_range(frame.index[-1], periods=2 * PRED + 1, freq="h")[PRED + 1 :])


def test_a_longer_horizon_reads_its_own_forecasts(model: Model, frame: Any) -> None:
    found = model.predict(horizon=12)
    parts, past = [], frame
    for _ in range(3):
        parts.append(by_hand(model, past))
        past = pd.concat([past, parts[-1]])
    np.testing.assert_allclose(found, pd.concat(parts).iloc[:12], rtol=1e-4)
    np.testing.assert_allclose(model.predict(horizon=3), found.iloc[:3], rtol=1e-5)


def test_a_level_that_is_not_stored_is_calibrated_on_the_training_data(model: Model) -> None:
    stored, new = model.predict(levels=[80]), model.predict(levels=[79.5, 80])
    np.testing.assert_allclose(new["load-lo-80"], stored["load-lo-80"], rtol=1e-4)
    assert (new["load-lo-79.5"].to_numpy() >= new["load-lo-80"].to_numpy() - 1e-9).all()


def test_intervals_beyond_pred_len_are_from_recursive_forecasts(model: Model, frame: Any) -> None:
    horizon, level = 11, 50
    found = model.predict(horizon=horizon, levels=[level])
    (first,), (last,) = model.data().rows["val"]
    errors = []
    for origin in range(first, last - horizon + 1):
        recursive = model.predict(frame.iloc[:origin], horizon=horizon)
        truth = frame[recursive.columns].to_numpy()[origin : origin + horizon]
        errors.append(truth - recursive.to_numpy())
    horizons = 1 + (len(errors) - 1) / horizon
    calibration = Calibration.fit(torch.tensor(np.array(errors)), [level], horizons=horizons)
    offsets = calibration.offsets[
        calibration.quantiles.index(0.25), :, list(recursive.columns).index("load")
    ].numpy()
    np.testing.assert_allclose(found["load-lo-50"], found["load"].to_numpy() + offsets, rtol=1e-4)


def test_trained_quantiles_are_the_bounds(quantile_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(quantile_run.parents[1])
    model = load(quantile_run)
    assert model.refitted is not None
    found = model.predict(levels=[60, 95])
    columns = ["load-lo-95", "load-lo-60", "load", "load-hi-60", "load-hi-95"]
    assert (np.diff(found[columns].to_numpy(), axis=1) >= 0).all()
    conformal = model.predict(levels=[60], intervals="conformal")
    assert not np.allclose(conformal["load-lo-60"], found["load-lo-60"])
    pd.testing.assert_frame_equal(
        model.predict(levels=[50, 60]), model.predict(levels=[50, 60], intervals="conformal")
    )
    assert len(model.predict(levels=[60], horizon=9)) == 9


def test_one_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = trained(tmp_path, "features=MS", "data.target=temperature", "attention=nystrom")
    monkeypatch.chdir(tmp_path)
    model = load(folder)
    found = model.predict(levels=[80])
    assert list(found.columns) == ["temperature", "temperature-lo-80", "temperature-hi-80"]
    frame: Any = pd.read_csv("load.csv", parse_dates=["date"], index_col="date")
    pd.testing.assert_frame_equal(model.predict(frame, levels=[80]), found)
    with pytest.raises(ConfigError):
        model.predict(horizon=13)


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


def test_another_file_is_forecast_with_the_scaler_of_training(
    model: Model, frame: Any, tmp_path: Path
) -> None:
    later = (frame.iloc[-40:] * 3).set_axis(pd.date_range("2030-05-05", periods=40, freq="h"))
    later.insert(0, "unused", "x")
    later.to_csv(tmp_path / "later.csv", index_label="date")
    table = model.read_panel({"root": str(tmp_path), "path": "later.csv"})
    assert table.columns == ("load", "temperature")
    found = model.predict(later)
    assert found.index[0] == pd.Timestamp("2030-05-06 16:00")
    np.testing.assert_allclose(found, by_hand(model, later.drop(columns="unused")), rtol=1e-5)


def test_it_writes_a_table_and_a_picture_once(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, frame: Any, model: Model
) -> None:
    options = (f"checkpoint={run}", f"data.path={run.parents[1] / 'load.csv'}")
    assert answer(monkeypatch, "predict", tmp_path, *options) == 0
    out = capsys.readouterr().out
    assert "5 steps, every hour, 2024-01-13 12:00:00 to 2024-01-13 16:00:00" in out
    cells = (tmp_path / "forecast.csv").read_text().splitlines()[1].split(",")[1:]
    assert all(cell == format(float(str(np.float32(cell))), ".12g") for cell in cells), cells
    assert "80%, 95%, conformal" in out
    found = pd.read_csv(tmp_path / "forecast.csv", parse_dates=["date"], index_col="date")
    expected = model.predict(frame, levels=[80, 95])
    pd.testing.assert_frame_equal(found, expected, check_freq=False, rtol=1e-6, check_index_type=False)
    assert (tmp_path / "forecast.png").stat().st_size > 10_000
    before = (tmp_path / "forecast.csv").read_bytes()
    assert answer(monkeypatch, "predict", tmp_path, *options, "horizon=3") == 2
    assert (tmp_path / "forecast.csv").read_bytes() == before
    assert answer(monkeypatch, "predict", tmp_path, *options, "horizon=3", "overwrite=true") == 0
    assert len(pd.read_csv(tmp_path / "forecast.csv")) == 3


HOSTILE = {
    "a function": {"_target_": "pandas.read_pickle", "filepath_or_buffer": "evil.pickle"},
    "in a tuple": ({"_target_": "pathlib.Path.touch"},),
    "in an interpolation": "${oc.create:{_target_:pandas.read_pickle}}",
    "ours, but no model": {"_target_": "forecast.data.read_table", "path": "x"},
}


@pytest.mark.parametrize(
    ("how", "where"),
    zip(HOSTILE, ["model.attention.encoder", "model.dropout", "data.fill", "data.split"], strict=True),
)
def test_a_checkpoint_is_data_and_runs_nothing(run: Path, tmp_path: Path, how: str, where: str) -> None:
    content = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)
    *path, last = where.split(".")
    settings = content["hyper_parameters"]
    for key in path:
        settings = settings[key]
    settings[last] = HOSTILE[how]
    torch.save(content, tmp_path / "hostile.ckpt")
    with pytest.raises(CheckpointError):
        load(tmp_path / "hostile.ckpt").read_panel()


def test_a_checkpoint_chooses_no_download(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own address and hash, a checkpoint could replace any file that it names."""
    content = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)
    data = content["hyper_parameters"]["data"]
    (tmp_path / "precious").write_text("kept")
    data |= {
        "_target_": "forecast.data.downloaded_data",
        "name": "etth1",
        "root": str(tmp_path),
        "path": "precious",
    }
    data |= {"url": f"file://{tmp_path}/other", "hash": "0" * 64, "by_hand": None}
    torch.save(content, tmp_path / "hostile.ckpt")
    with pytest.raises(ForecastError):
        load(tmp_path / "hostile.ckpt").predict()
    assert (tmp_path / "precious").read_text() == "kept"


def test_recursive_intervals_come_from_all_validation_rows_whatever_the_stride(model: Model) -> None:
    every, third = (recursive_windows(model.data({"eval_stride": stride}), 8).starts for stride in (1, 3))
    (first,), (last,) = model.data().rows["val"]
    assert every == third == [range(first - SEQ, last - 8 - SEQ + 1)]


def test_a_new_file_is_read_with_the_dates_of_training(tmp_path: Path, monkeypatch, capsys) -> None:
    """Days up to the 12th do not show which number is the day."""
    write_csv(tmp_path / "load.csv", rows=320)  # to 14 January
    frame = pd.read_csv(tmp_path / "load.csv", parse_dates=["date"]).rename(columns={"date": "Date"})
    frame.to_csv(tmp_path / "load.csv", index=False, date_format="%d/%m/%Y %H:%M")
    assert train_here(monkeypatch, tmp_path, "trainer.max_epochs=1", "logger=[]") == 0
    assert "warning: " in capsys.readouterr().err  # the column is found by its content
    new = frame.assign(Date=pd.date_range("2024-02-01", periods=len(frame), freq="h"))[:280]  # to the 12th
    new.to_csv(tmp_path / "iso.csv", index=False)
    new.to_csv(tmp_path / "new.csv", index=False, date_format="%d/%m/%Y %H:%M")
    (run,) = (tmp_path / "runs").iterdir()
    model = load(run)
    expected = model.predict(new.set_index("Date"))
    assert expected.index[0] == pd.Timestamp("2024-02-12 16:00")
    base = [f"checkpoint={model.path}", "data.path=new.csv", "output=-"]
    capsys.readouterr()
    assert answer(monkeypatch, "predict", tmp_path, *base, "levels=[]") == 0
    told = capsys.readouterr()
    assert "warning: " not in told.err  # the run knows the column
    written = pd.read_csv(io.StringIO(told.out), index_col="Date", parse_dates=True)
    pd.testing.assert_frame_equal(written, expected, check_freq=False, rtol=1e-6)
    assert (
        answer(monkeypatch, "predict", tmp_path, *base, "data.day_first=false") == 2
    )  # days of twelve months, with gaps
    assert capsys.readouterr().out == ""
