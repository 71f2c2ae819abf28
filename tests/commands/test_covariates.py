import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.inference.model import load
from forecast.runs.folder import read_metrics
from tests.support.commands import PLAIN, TINY, only, run_command
from tests.support.covariate_file import COVARIATES, FUTURE, UNKNOWN, table
from tests.support.long_files import LENGTHS, long_frame


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with history.csv, ahead.csv of the next 8 temperatures, and a run trained on the history."""
    folder = tmp_path_factory.mktemp("covariates")
    table().iloc[:-8].to_csv(folder / "history.csv")
    table()[FUTURE].iloc[-8:].to_csv(folder / "ahead.csv")
    options = ("data=csv", "data.path=history.csv", *COVARIATES, "logger=[]", "trainer.max_epochs=2")
    assert run_command("train", folder, *TINY, PLAIN, *options) == 0
    only(folder, "runs/*").rename(folder / "run")
    return folder


def forecast_of(folder: Path, name: str = "forecast.csv") -> pd.DataFrame:
    return pd.read_csv(folder / name, index_col="date", parse_dates=True)


def test_the_model_reads_and_forecasts_what_the_options_say(place: Path) -> None:
    model = load(place / "run")
    assert (model.target_columns, model.feature_columns) == (
        ["load"],
        ["load", "wind", "weather=rain", "weather=snow", "weather=sun"],
    )
    assert model.data_state["future_covariates"] == ["temperature", "is_open", "promo=none", "promo=sale"]


def test_the_metrics_name_the_inputs_and_the_linear_baseline_reads_them(place: Path) -> None:
    metrics = read_metrics(place / "run")
    ahead = [f"past and future of {name}" for name in FUTURE]
    assert metrics["inputs_used"] == [*(f"past of {name}" for name in UNKNOWN), *ahead, "calendar"]
    mse = {name: scores["mse"] for name, scores in metrics["baselines"].items()}
    assert mse["linear"] < 0.8 * min(mse["naive"], mse["seasonal_naive"])
    chosen = metrics["linear_models"]["with_covariates"]
    assert chosen["ridge"] > 0
    assert chosen["regressions"] in (1, 2, 3)
    assert "future" in chosen["covariates"]


def test_future_covariates_come_from_a_file_or_from_rows_at_the_end(place: Path, tmp_path: Path) -> None:
    assert run_command("predict", place, "checkpoint=run") == 2  # the future covariates are not known
    assert not (place / "forecast.csv").exists()
    ahead = (f"output={tmp_path}/a.csv", f"future={place}/ahead.csv")
    assert run_command("predict", place, "checkpoint=run", *ahead) == 0
    longer = table()
    longer.iloc[-8:, :3] = np.nan
    longer.to_csv(tmp_path / "longer.csv")
    rows = (f"output={tmp_path}/b.csv", f"data.path={tmp_path}/longer.csv")
    assert run_command("predict", place, "checkpoint=run", *rows) == 0
    assert run_command("predict", place, "checkpoint=run", *ahead, "horizon=6", "overwrite=true") == 2  # of the wind
    assert list(forecast_of(tmp_path, "a.csv").index) == list(table().index[-8:-3])
    pd.testing.assert_frame_equal(forecast_of(tmp_path, "a.csv"), forecast_of(tmp_path, "b.csv"))


def fill_and_repeat(folder: Path, blank: Path, message: str, values: dict[str, object], **format: Any) -> None:
    """Fill the columns of the file that a message names, and run the command at its end."""
    table = pd.read_csv(blank, dtype=str, **format)
    assert table[list(values)].isna().all(axis=None)
    table.assign(**values).to_csv(blank, index=False, **format)
    program, arguments = message.rsplit("and run: ", 1)[1].split(maxsplit=2)[1:]
    assert program == "predict"
    assert run_command("predict", folder, *shlex.split(arguments)) == 0


def test_unknown_covariates_are_written_to_a_file_to_fill(place: Path, tmp_path: Path, capsys) -> None:
    blank = tmp_path / "a_future.csv"
    options = ("checkpoint=run", f"output={tmp_path}/a.csv")
    assert run_command("predict", place, *options) == 2
    message = capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a_future.csv"]
    assert list(pd.read_csv(blank, parse_dates=["date"])["date"]) == list(table().index[-8:-3])
    empty = tmp_path / "empty.csv"
    empty.write_bytes(blank.read_bytes())
    fill_and_repeat(place, blank, message, {"temperature": 9.5, "is_open": "True", "promo": "sale"})
    assert list(forecast_of(tmp_path, "a.csv").index) == list(table().index[-8:-3])
    blank.write_text("mine")
    assert run_command("predict", place, *options, "overwrite=true") == 2
    assert "give their rows with future=; a model" in capsys.readouterr().err
    assert run_command("predict", place, *options, "overwrite=true", f"future={empty}") == 2
    assert f"pred_len): fill in {empty}; start=" in capsys.readouterr().err
    assert blank.read_text() == "mine"


def test_a_file_to_fill_has_the_ids_and_the_form_of_the_data(series_run: Path, tmp_path: Path, capsys) -> None:
    known = long_frame()
    known["ds"] = known["ds"].dt.strftime("%d.%m.%Y")
    known.to_csv(tmp_path / "data.csv", sep=";", decimal=",", index=False)
    form = ("data.path=data.csv", "data.separator=;", "data.decimal=,")
    assert run_command("predict", tmp_path, f"checkpoint={series_run}", *form) == 2
    message = capsys.readouterr().err
    blank = tmp_path / "forecast_future.csv"
    assert blank.read_text().splitlines()[:2] == ["unique_id;ds;price", "a;10.02.2024;"]
    fill_and_repeat(tmp_path, blank, message, {"price": "5,5"}, sep=";")
    ids = pd.read_csv(tmp_path / "forecast.csv", dtype=str)["unique_id"]
    assert sorted(ids.unique()) == sorted(LENGTHS)


def test_every_command_reads_the_covariates(place: Path, tmp_path: Path) -> None:
    for command, made, *options in (
        ("evaluate", "scores.json", "split=test", f"output={tmp_path}/scores.json"),
        ("backtest", "runs/*/backtest.json", "steps=20", f"output_root={tmp_path}/runs"),
        ("explain", "why/index.html", "window=last", f"output={tmp_path}/why"),
    ):
        assert run_command(command, place, "checkpoint=run", *options) == 0
        assert len(list(tmp_path.glob(made))) == 1


def test_covariates_after_the_horizon_change_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    model, frame = forecast.load("run"), table()
    changed = frame.copy()
    changed.loc[changed.index[305:], FUTURE] = [1e6, True, "none"]
    changed.loc[changed.index[300:], UNKNOWN] = [-1e6, -1e6, "snow"]
    found = [model.predict(one, start=frame.index[300])["load"].to_numpy() for one in (frame, changed)]
    np.testing.assert_array_equal(found[0], found[1])
    flipped = {"none": "sale", "sale": "none"}[frame["promo"].iloc[304]]
    for name, value in zip(FUTURE, (99.0, not frame["is_open"].iloc[304], flipped), strict=True):
        last = frame.copy()
        last.loc[last.index[304], name] = value  # the last step of the horizon
        assert (model.predict(last, start=frame.index[300])["load"].to_numpy() != found[0]).any()


@pytest.mark.slow
def test_the_linear_baseline_of_a_refit_is_fitted_to_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The load follows the temperature; its level, and with it the scale, changes after the training rows."""
    random, dates = np.random.default_rng(0), pd.date_range("2024-01-01", periods=600, freq="h")
    temperature = random.normal(size=600)
    load_column = 2 * temperature + np.where(np.arange(600) < 450, 0, 40) + 0.1 * random.normal(size=600)
    frame = pd.DataFrame({"date": dates, "load": load_column, "temperature": temperature})
    frame.to_csv(tmp_path / "load.csv", index=False)
    options = (
        *TINY, "data=csv", "data.path=load.csv", "data.columns=[load]", "data.future_covariates=[temperature]",
        "refit=full", "logger=[]", "pictures=false", "trainer.max_epochs=1", "hydra.run.dir=run",
    )  # fmt: skip
    assert run_command("train", tmp_path, *options) == 0
    monkeypatch.chdir(tmp_path)
    model = forecast.load("run")
    assert model.refitted is not None
    found = [model.predict(start=start, baseline="linear") for start in dates[480:590:5]]
    errors = np.concatenate([each["load-error"].to_numpy() for each in found])
    assert np.sqrt(np.mean(errors**2)) < 1  # without the temperature, 2


# ---- future covariates that are forecasts themselves, or known for some steps only

ROWS, KNOWN, PRED_LEN = 300, 2, 5
OPTIONS = (
    "data=csv", "data.columns=[load]", "data.future_covariates=[temperature]",
    "data.as_of={temperature: told}", f"data.known_steps={KNOWN}", "logger=[]", "trainer.max_epochs=1",
    "callbacks.progress.refresh_rate=0", "attention=full",
)  # fmt: skip
START = 290  # row of the first forecast step, within the test rows


def told_table() -> pd.DataFrame:
    """A load that follows the temperature of the same hour, which is forecast with an error."""
    frame = table()[["load", "temperature"]][:ROWS]
    return frame.assign(told=frame["temperature"] + np.random.default_rng(1).normal(size=ROWS))


def changed(column: str, rows: slice) -> pd.DataFrame:
    frame = told_table()
    frame.iloc[rows, frame.columns.get_loc(column)] += 40.0
    return frame


@pytest.fixture(scope="module")
def told_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known")
    told_table().to_csv(folder / "table.csv")
    given = (*TINY, *OPTIONS, "data.path=table.csv", "pictures=false", "hydra.run.dir=run")
    assert run_command("train", folder, *given) == 0
    return folder


@pytest.fixture
def model(told_place: Path, monkeypatch: pytest.MonkeyPatch) -> forecast.Model:
    monkeypatch.chdir(told_place)
    return forecast.load("run")


def test_a_category_is_named_by_its_column(place: Path) -> None:
    model = forecast.load(place / "run")
    assert "=" not in repr(model)
    with pytest.raises(ValueError, match=r"\([^=]*\), whose .*: train without them .*, or with pred_len=\d+ if the"):
        model.predict(table(), horizon=2 * PRED_LEN)


def test_fewer_known_steps_than_in_training_give_a_warning(model: forecast.Model) -> None:
    told = told_table().iloc[START : START + 1][["told"]]
    with pytest.warns(UserWarning, match="is known for 1 step, and was known for 2 in training: give future=FILE"):
        model.predict(told_table().iloc[:START], future=told)


@pytest.mark.parametrize("horizon", [PRED_LEN, 3 * PRED_LEN - 1])
def test_forecasts_read_what_was_known_at_their_origin(model: forecast.Model, horizon: int) -> None:
    """Beyond pred_len too, where steps of the first horizon are in the past of the second one."""
    start, history = told_table().index[START - 8], START - 8

    def found(frame: pd.DataFrame) -> np.ndarray:
        return model.predict(frame, start=start, horizon=horizon)["load"].to_numpy()

    before = found(told_table())
    assert len(before) == horizon
    for column, first in {"temperature": history, "told": history + KNOWN}.items():
        np.testing.assert_array_equal(found(changed(column, slice(first, None))), before, err_msg=column)
    for column, row in {"temperature": history - 1, "told": history + KNOWN - 1}.items():
        assert (found(changed(column, slice(row, row + 1))) != before).any(), column


def test_past_forecasts_read_no_measured_future(told_place: Path) -> None:
    after = slice(ROWS - PRED_LEN, None)
    found = []
    for name, frame in enumerate((told_table(), changed("temperature", after), changed("told", after))):
        folder = told_place / str(name)
        folder.mkdir()
        frame.to_csv(folder / "other.csv")
        given = ("checkpoint=run", f"data.path={folder}/other.csv", f"output_root={folder}", "steps=5")
        assert run_command("backtest", told_place, *given) == 0
        found.append(only(folder, "*/forecasts.parquet").read_bytes())
    assert found[0] == found[1]
    assert found[0] != found[2]
