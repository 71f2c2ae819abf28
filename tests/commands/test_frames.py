"""The Python interface with DataFrames, of pandas and of other libraries."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast import Model, fit, load
from forecast.runs.folder import read_metrics

polars = pytest.importorskip("polars")

TINY = [
    "model.d_hidden=8", "trainer.max_epochs=1", "windows_per_epoch=64", "logger=[]",
    "pictures=false", "data.split=[0.6,0.2,0.2]",
]  # fmt: skip
SETTINGS: dict[str, Any] = {
    "target": "sold", "date_column": "date", "model": "mlp", "seq_len": 12, "label_len": 6, "pred_len": 5,
    "future_covariates": ["price"], "overrides": TINY,
}  # fmt: skip


def sales() -> pd.DataFrame:
    """Two series of 150 days, with a price that is known five days ahead."""
    random, dates = np.random.default_rng(0), pd.date_range("2021-01-01", periods=155, freq="D")
    sold, price = random.normal(size=(2, 2, 155))
    sold[:, 150:] = np.nan
    columns = ("shop", "date", "sold", "price")
    parts = [dict(zip(columns, (shop, dates, sold[n], price[n]), strict=True)) for n, shop in enumerate("ab")]
    return pd.concat(map(pd.DataFrame, parts), ignore_index=True)


def test_forecasts_are_frames_of_the_same_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = polars.from_pandas(sales())
    model = fit(frame, **SETTINGS, id_column="shop")
    expected, found = model.predict(sales(), levels=[80]), model.predict(frame, levels=[80])
    assert type(found) is type(frame)
    table = found.to_pandas()
    assert table.columns.tolist() == ["shop", "date", "sold", "sold-lo-80", "sold-hi-80"]
    assert len(table) == 10
    np.testing.assert_array_equal(table["shop"], expected.index)
    np.testing.assert_array_equal(table["date"].to_numpy("datetime64[s]"), expected["date"].to_numpy("datetime64[s]"))
    np.testing.assert_array_equal(table[["sold", "sold-lo-80"]], expected[["sold", "sold-lo-80"]])
    assert model.evaluate(frame)["test"] == model.evaluate(sales())["test"]


def test_a_table_has_its_dates_in_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = sales()[:155].drop(columns="shop")
    history, future = table[:150], table[150:].drop(columns="sold")
    model = fit(polars.from_pandas(history), **SETTINGS)
    found = model.predict(polars.from_pandas(history), future=polars.from_pandas(future))
    expected = model.predict(history.set_index("date"), future=future.set_index("date"))
    assert found.columns == ["date", "sold"]
    np.testing.assert_array_equal(found["sold"], expected["sold"])
    assert found["date"].to_list() == [date.to_pydatetime() for date in expected.index]


# ---- a notebook

QUICK: dict[str, Any] = {
    "model": "mlp", "seq_len": 12, "label_len": 6, "pred_len": 5, "max_epochs": 1, "windows_per_epoch": 64,
    "logger": [], "pictures": False, "split": [0.6, 0.2, 0.2], "overrides": ["model.d_hidden=8"],
}  # fmt: skip


@pytest.fixture(scope="module")
def nixtla() -> Any:
    """Two series of 150 and 143 days, with the columns of Nixtla's libraries."""
    names = {"shop": "unique_id", "date": "ds", "sold": "y"}
    frame = sales().drop(columns="price").dropna().rename(columns=names)
    return frame[:-7]


@pytest.fixture(scope="module")
def model(nixtla: Any, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return fit(nixtla, output_root=str(tmp_path_factory.mktemp("runs")), season=7, lr=0.01, **QUICK)


@pytest.fixture(scope="module")
def refitted(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model of a table of two columns, one with a name of HTML, which was refitted on all rows."""
    table: Any = sales()[:150].drop(columns="shop")
    table.columns = ["date", "<b>sold", "price"]
    folder = tmp_path_factory.mktemp("runs")
    return fit(table.assign(note="a"), target="<b>sold", drop=["note"], refit="full", output_root=str(folder), **QUICK)


def test_a_notebook_completes_the_names() -> None:
    assert {"fit", "load"} <= {*dir(forecast)}


def test_a_frame_of_the_usual_names_needs_no_options(model: Model, nixtla: Any) -> None:
    assert (model.data_state["ids"], model.target_columns, model.season) == (["a", "b"], ["y"], 7)
    assert (model.config["trainer"]["max_epochs"], model.config["optimizer"]["lr"]) == (1, 0.01)
    pd.testing.assert_frame_equal(model.predict(), model.predict(nixtla))
    with pytest.raises(ValueError, match="it was trained on a DataFrame: give one"):
        load(model.path).predict()
    with pytest.raises(ValueError, match="a plot has no sample paths"):
        model.plot(samples=20)


@pytest.mark.parametrize("name", ["model", "refitted"])
def test_the_scores_are_those_of_the_run(name: str, request: pytest.FixtureRequest) -> None:
    """Of the tested model, also after a refit; a backtest with stride 1 has the windows of the test."""
    model: Model = request.getfixturevalue(name)
    run = read_metrics(model.path.parents[1])
    again, scores, backtest = model.evaluate(), model.scores(), model.backtest(stride=1)
    assert again["test"] == run["test"] == scores.loc["model"].to_dict()
    for forecaster, expected in {"model": run["test"], **run["baselines"]}.items():
        assert scores.loc[forecaster, "mse"] == expected["mse"]
        assert backtest.loc[forecaster, "mse"] == pytest.approx(expected["mse"], rel=1e-5)


def test_cross_validation_forecasts_from_each_cutoff(model: Model, nixtla: Any) -> None:
    found: Any = model.cross_validation(4, n_windows=3, step_size=2)
    baselines = ["naive", "seasonal_naive", "linear"]
    assert found.columns.tolist() == ["unique_id", "ds", "cutoff", "y", "model", *baselines]
    ends, steps = nixtla.groupby("unique_id")["ds"].max(), [np.timedelta64(n, "D") for n in (9, 7, 5)]
    for (name, cutoff), rows in found.groupby(["unique_id", "cutoff"]):
        series = nixtla[nixtla["unique_id"] == name]
        ahead = model.predict(series[series["ds"] <= cutoff])[:4]
        np.testing.assert_allclose(rows["model"], ahead["y"], rtol=1e-4, atol=1e-5)
        assert rows["ds"].tolist() == ahead["ds"].tolist()
        assert rows["y"].tolist() == pytest.approx(series[series["ds"] > cutoff]["y"][:4].tolist(), rel=1e-4)
    expected = [(name, end - step) for name, end in ends.items() for step in steps]
    assert found.groupby(["unique_id", "cutoff"]).size().to_dict() == dict.fromkeys(expected, 4)


def test_a_table_has_the_names_of_its_targets_as_ids(refitted: Model) -> None:
    found: Any = refitted.cross_validation(5)
    assert found["unique_id"].unique().tolist() == ["<b>sold"]
    assert found["ds"].max() == pd.Timestamp("2021-05-30")


def test_a_notebook_shows_the_model_and_its_forecast(refitted: Model) -> None:
    shown = refitted._repr_html_()
    assert "<b>sold" not in shown
    text = str(refitted)
    assert text.splitlines()[0] == "forecast   <b>sold: 5 steps, one every day"
    assert "refitted on all 150 rows" in text
    assert f"<td>{refitted.scores().loc['model', 'mse']:.4g}</td>" in shown
    (axes,) = refitted.plot(levels=[80]).axes
    drawn: dict[Any, Any] = {line.get_label(): line for line in axes.lines}
    assert {"measured", "forecast"} <= drawn.keys()
    np.testing.assert_allclose(drawn["forecast"].get_ydata()[-5:], refitted.predict()["<b>sold"])
    assert "80% interval" in axes.get_legend_handles_labels()[1]
    importance = refitted.explain()
    assert set(importance["input"]) >= {"<b>sold", "price"}
    assert importance["mse"].is_monotonic_decreasing


def test_a_saved_model_is_loaded_with_the_tested_one(refitted: Model, tmp_path: Path) -> None:
    refitted.save(tmp_path / "kept" / "sold")
    found, frame = load(tmp_path / "kept" / "sold"), refitted.frame
    pd.testing.assert_frame_equal(found.predict(frame, levels=[80]), refitted.predict(levels=[80]))
    assert found.evaluate(frame)["test"] == refitted.evaluate(frame)["test"]
    pd.testing.assert_frame_equal(found.scores(), refitted.scores())


def test_a_splitter_chooses_the_rows(tmp_path: Path) -> None:
    """Positions of rows, as those of scikit-learn's `TimeSeriesSplit`."""
    frame = sales()[:150].set_index("date")[["sold"]]
    for train, test in [(np.arange(140), np.arange(140, 145))]:
        model = fit(frame.iloc[train], output_root=str(tmp_path), **QUICK)
        errors = model.predict() - frame.iloc[test]
        assert errors["sold"].notna().sum() == len(test)
