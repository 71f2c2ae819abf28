"""Covariates of a table of one series, from training to every other command."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.inference.model import load
from forecast.system.errors import ConfigError
from tests.support.commands import TINY, answer, only

ROWS = 400
COVARIATES = ("data.columns=[load]", "data.past_covariates=[wind]", "data.future_covariates=[temperature]")


def table() -> pd.DataFrame:
    """A load that follows the temperature of the same hour."""
    random = np.random.default_rng(0)
    temperature = 10 + random.normal(size=ROWS).cumsum() / 5
    dates = pd.date_range("2024-01-01", periods=ROWS, freq="h", name="date")
    noise, wind = random.normal(size=(2, ROWS))
    return pd.DataFrame(
        {"load": 100 - 3 * temperature + noise, "wind": wind, "temperature": temperature}, dates
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with history.csv, ahead.csv of the next 8 temperatures, and a run trained on the history."""
    folder = tmp_path_factory.mktemp("covariates")
    table().iloc[:-8].to_csv(folder / "history.csv")
    table()[["temperature"]].iloc[-8:].to_csv(folder / "ahead.csv")
    with pytest.MonkeyPatch.context() as patch:
        options = ("data=csv", "data.path=history.csv", *COVARIATES, "logger=[]", "trainer.max_epochs=2")
        assert answer(patch, "train", folder, *TINY, *options) == 0
    only(folder, "runs/*").rename(folder / "run")
    return folder


def forecast_of(folder: Path, name: str = "forecast.csv") -> pd.DataFrame:
    return pd.read_csv(folder / name, index_col="date", parse_dates=True)


def test_the_model_reads_and_forecasts_what_the_options_say(place: Path) -> None:
    model = load(place / "run")
    assert (model.target_columns, model.feature_columns) == (["load"], ["load", "wind"])
    assert model.data_state["future_covariates"] == ["temperature"]


def test_future_covariates_come_from_a_file_or_from_rows_at_the_end(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = (f"output={tmp_path}/a.csv", f"future={place}/ahead.csv")
    assert answer(monkeypatch, "predict", place, "checkpoint=run", *ahead) == 0
    longer = table()
    longer.iloc[-8:, :2] = np.nan
    longer.to_csv(tmp_path / "longer.csv")
    rows = (f"output={tmp_path}/b.csv", f"data.path={tmp_path}/longer.csv")
    assert answer(monkeypatch, "predict", place, "checkpoint=run", *rows) == 0
    assert list(forecast_of(tmp_path, "a.csv").index) == list(table().index[-8:-3])
    pd.testing.assert_frame_equal(forecast_of(tmp_path, "a.csv"), forecast_of(tmp_path, "b.csv"))


def test_a_forecast_without_its_future_covariates_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert answer(monkeypatch, "predict", place, "checkpoint=run") == 2
    assert "temperature" in capsys.readouterr().err.splitlines()[-1]
    assert not (place / "forecast.csv").exists()


def test_covariates_after_the_horizon_change_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    model, frame = forecast.load("run"), table()
    changed = frame.copy()
    changed.iloc[305:, 2] += 1e6
    changed.iloc[300:, :2] -= 1e6
    found = [model.predict(one, start=frame.index[300])["load"].to_numpy() for one in (frame, changed)]
    np.testing.assert_array_equal(found[0], found[1])
    changed.iloc[304, 2] += 1.0  # the last step of the horizon
    assert (model.predict(changed, start=frame.index[300])["load"].to_numpy() != found[0]).any()


@pytest.mark.parametrize(
    ("command", "options", "made"),
    [
        ("evaluate", ("split=test", "output={}/scores.json"), "scores.json"),
        ("backtest", ("steps=20", "output_root={}/runs"), "runs/*/backtest.json"),
        ("explain", ("window=last", "output={}/why"), "why/index.html"),
        ("export", ("output={}/model.onnx",), "model.json"),
    ],
)
def test_every_command_reads_the_covariates(
    command: str,
    options: tuple[str, ...],
    made: str,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = [option.format(tmp_path) for option in options]
    assert answer(monkeypatch, command, place, "checkpoint=run", *given) == 0
    assert len(list(tmp_path.glob(made))) == 1


def test_a_data_frame_and_its_future(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = table()
    model = forecast.fit(
        frame.iloc[:-8], past_covariates=["wind"], future_covariates=["temperature"], attention="full",
        overrides=[*TINY, "trainer.max_epochs=1", "logger=[]", "callbacks.progress.refresh_rate=0"],
    )  # fmt: skip
    assert model.target_columns == ["load"]
    one = model.predict(frame.iloc[:-8], future=frame[["temperature"]].iloc[-8:])
    longer = frame.copy()
    longer.iloc[-8:, :2] = np.nan
    other = model.predict(longer)
    pd.testing.assert_frame_equal(one, other)
    with pytest.raises(ConfigError, match="give the DataFrame too"):
        model.predict(future=frame)


def test_many_series_in_a_data_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pd.concat(
        [table().reset_index().assign(shop=name, load=lambda f: f["load"] * 2) for name in "ab"]
    )
    model = forecast.fit(
        frame, id_column="shop", date_column="date", target="load", attention="full",
        overrides=[*TINY, "trainer.max_epochs=1", "logger=[]", "callbacks.progress.refresh_rate=0"],
    )  # fmt: skip
    ids = model.predict(frame).index
    assert ids.value_counts().to_dict() == {"a": 5, "b": 5}
