"""Many series from the command line: training, scores and forecasts, with and without known future covariates."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast import load
from forecast.evaluation.significance import diebold_mariano
from forecast.reports.compare.run_folders import FinishedRun
from forecast.reports.compare.task import Entry, Task
from forecast.system.errors import DataError
from tests.support.commands import TINY, answer, only
from tests.support.long_files import long_frame

SERIES, ROWS, PRED_LEN = 8, 100, 5
SETTINGS = (
    *TINY, "data=long", "data.path=sales.parquet", "logger=[]", "callbacks.progress.refresh_rate=0",
    "attention=full", "optimizer.lr=0.003", "model.dropout=0.0", "model.d_model=16",
)  # fmt: skip


def train(folder: Path, *overrides: str) -> str:
    """Run the command in `folder`, within this process; what it printed."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        assert answer(patch, "train", folder, *SETTINGS, *overrides) == 0
    return printed.getvalue()


def sales(folder: Path) -> None:
    """Daily sales that depend on a price, with a sign that depends on the region; 5 more days have a price."""
    random, parts = np.random.default_rng(4), []
    for s in range(SERIES):
        price = random.normal(size=ROWS + PRED_LEN)
        y = 50 * (s + 1) + (s + 1) * price * (1 if s % 2 else -1)
        y[ROWS:] = np.nan
        parts.append(pd.DataFrame({
            "unique_id": f"shop_{s}", "ds": pd.date_range("2024-01-01", periods=ROWS + PRED_LEN), "y": y,
            "price": 3 + price, "region": ["north", "south"][s % 2],
        }))  # fmt: skip
    pd.concat(parts).to_parquet(folder / "sales.parquet", index=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("series")
    sales(folder)
    return folder


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    """A run on prices and regions."""
    known = ("data.future_covariates=[price]", "data.static_covariates=[region]", "trainer.max_epochs=10")
    printed = train(place, *known)
    assert "covariates future covariates price; static region" in printed
    assert "8 series, 800 rows (100 each), every day" in printed
    return only(place, "runs/*")


def metrics(folder: Path) -> dict:
    return json.loads((folder / "metrics.json").read_text())


def test_future_covariates_are_used(run: Path, place: Path, tmp_path: Path) -> None:
    """The price decides the value, and nothing else foretells it."""
    train(tmp_path, f"data.path={place / 'sales.parquet'}", "trainer.max_epochs=3")
    assert metrics(run)["test"]["mse"] < 0.25
    assert metrics(only(tmp_path, "runs/*"))["test"]["mse"] > 0.8


def test_static_covariates_are_used(run: Path, place: Path) -> None:
    """The region tells in which sense the price counts: a new series in the other region is forecast otherwise."""
    frame = pd.read_parquet(place / "sales.parquet")
    one = frame[frame["unique_id"] == "shop_3"].assign(unique_id="new")
    here, there = (
        load(run).predict(one.assign(region=region))["y"].to_numpy() for region in ("south", "north")
    )
    assert np.abs(here - there).mean() > 0.1 * here.std(ddof=1)


def test_every_series_is_scored(run: Path) -> None:
    content, table = metrics(run), pd.read_parquet(run / "errors_by_series.parquet")
    windows = pd.read_parquet(run / "errors_by_window.parquet")
    assert list(table["unique_id"]) == [f"shop_{s}" for s in range(SERIES)]
    assert table["windows"].to_numpy().sum() == len(windows) == content["n_windows"]["test"]
    mean = windows.groupby("unique_id", observed=True, sort=False)[["model_mse", "linear_mae"]].mean()
    np.testing.assert_allclose(table[["model_mse", "linear_mae"]], np.asarray(mean), rtol=1e-6)
    assert content["test"]["mse"] == pytest.approx(windows["model_mse"].mean(), rel=1e-6)
    assert content["test"]["mase"] == pytest.approx(table["model_mase"].mean(), rel=1e-6)
    assert content["baselines"]["linear"]["rmse_raw"] == pytest.approx(
        table["linear_rmse_raw"].mean(), rel=1e-6
    )


def test_evaluate_gives_the_runs_own_numbers(run: Path, monkeypatch, capsys) -> None:
    assert (
        answer(monkeypatch, "evaluate", run.parents[1], f"checkpoint={run}", f"output={run}/again.json") == 0
    )
    again, first = json.loads((run / "again.json").read_text()), metrics(run)
    assert again["test"] == pytest.approx(first["test"], rel=1e-6)
    assert again["baselines"]["seasonal_naive"] == pytest.approx(
        first["baselines"]["seasonal_naive"], rel=1e-6
    )
    assert again["intervals"]["conformal"]["80"]["width_raw"] == pytest.approx(
        first["intervals"]["conformal"]["80"]["width_raw"], rel=1e-6
    )
    table, here = (
        pd.read_parquet(run / name) for name in ("again_by_series.parquet", "errors_by_series.parquet")
    )
    pd.testing.assert_frame_equal(table, here)
    assert "8 tested" in capsys.readouterr().out


def test_every_series_is_forecast_after_its_end(run: Path, place: Path, monkeypatch) -> None:
    options = (f"checkpoint={run}", "levels=[80]", f"output={run}/next.csv")
    assert answer(monkeypatch, "predict", place, *options) == 0
    table = pd.read_csv(run / "next.csv", parse_dates=["ds"])
    assert list(table.columns) == ["unique_id", "ds", "y", "y-lo-80", "y-hi-80"]
    assert len(table) == SERIES * PRED_LEN
    assert (run / "next.png").stat().st_size > 5_000
    assert list(table["ds"][:PRED_LEN]) == list(pd.date_range("2024-04-10", periods=PRED_LEN))
    frame = pd.read_parquet(place / "sales.parquet")
    price = frame.groupby("unique_id", sort=False)["price"].tail(PRED_LEN).to_numpy() - 3
    number = table["unique_id"].str.removeprefix("shop_").astype(int)
    expected = 50 * (number + 1) + (number + 1) * price * np.where(number % 2, 1, -1)
    error = (table["y"] - expected) / (number + 1)
    assert np.square(error).mean() < 0.3  # the values vary by 1 in these units
    inside = (table["y-lo-80"] <= expected) & (expected <= table["y-hi-80"])
    assert 0.5 < inside.mean() <= 1

    whole = load(run).predict(frame, levels=[80])
    np.testing.assert_allclose(whole["y-hi-80"], table["y-hi-80"], rtol=1e-5)
    end = pd.Timestamp("2024-04-09")
    history, ahead = frame[frame["ds"] <= end], frame.loc[frame["ds"] > end, ["unique_id", "ds", "price"]]
    history.to_csv(run / "history.csv", index=False)
    ahead.to_csv(run / "ahead.csv", index=False)
    parts = (
        f"data.path={run}/history.csv",
        f"future={run}/ahead.csv",
        "data.ids=[shop_3]",
        f"output={run}/one.csv",
    )
    assert answer(monkeypatch, "predict", place, f"checkpoint={run}", "levels=[80]", *parts) == 0
    one = pd.read_csv(run / "one.csv")
    np.testing.assert_allclose(one["y"], table.loc[table["unique_id"] == "shop_3", "y"], rtol=1e-5)


def test_a_new_series_is_forecast_on_its_own_scale(run: Path, place: Path) -> None:
    frame = pd.read_parquet(place / "sales.parquet")
    model = load(run)
    one = frame[frame["unique_id"] == "shop_3"].assign(unique_id="shop_new")
    ten = one.assign(y=10 * one["y"])
    forecast, tenfold = model.predict(one), model.predict(ten)
    np.testing.assert_allclose(tenfold["y"], 10 * forecast["y"], rtol=1e-4)
    assert set(forecast.index) == {"shop_new"}


def test_another_file_has_ids_and_covariates_of_its_own(run: Path, place: Path, tmp_path: Path) -> None:
    model = load(run)
    model.config["data"] |= {"ids": ["shop_0"], "static_path": "old.csv", "future_path": "old.csv"}
    frame = pd.read_parquet(place / "sales.parquet")
    one = frame[frame["unique_id"] == "shop_3"].assign(unique_id="new")
    one.to_csv(tmp_path / "new.csv", index=False)
    assert list(model.read_panel({"path": str(tmp_path / "new.csv")}).ids) == ["new"]
    assert set(model.predict(one).index) == {"new"}
    one.drop(columns="region").to_csv(tmp_path / "bare.csv", index=False)
    bare = {"path": str(tmp_path / "bare.csv")}
    with pytest.raises(DataError):
        model.read_panel(bare)
    one[["unique_id", "region"]][:1].to_csv(tmp_path / "static.csv", index=False)
    panel = model.read_panel({**bare, "static_path": str(tmp_path / "static.csv"), "ids": ["new"]})
    assert list(panel.static["region"]) == ["south"]


@pytest.mark.long
def test_sampled_epochs_go_on_exactly_where_a_run_stopped(place: Path, tmp_path: Path) -> None:
    """Two epochs of sampled windows at one go, and one after the other: the same weights."""
    options = ("data.windows_per_epoch=64", "data.eval_stride=7", f"data.path={place / 'sales.parquet'}")
    scores = []
    for name, stops in (("whole", ("2",)), ("parts", ("1", "2"))):
        (tmp_path / name).mkdir()
        for epochs in stops:
            more = (f"trainer.max_epochs={epochs}", "schedule=constant")
            if epochs != stops[0]:
                more = (*more, f"checkpoint={only(tmp_path / name, 'runs/*')}")
            printed = train(tmp_path / name, *options, *more)
            assert "64 training windows per epoch; one in 7 windows in validation and test" in printed
        newest = max((tmp_path / name).glob("runs/*"), key=lambda folder: folder.stat().st_mtime)
        scores.append(metrics(newest)["test"])
    assert scores[0] == scores[1]


def test_a_comparison_counts_the_windows_of_one_date_once() -> None:
    random = np.random.default_rng(0)
    dates = np.tile(pd.date_range("2024-01-01", periods=80), 30)
    keep = random.random(len(dates)) < 0.8  # series begin and end on dates of their own
    shocks = np.tile(random.normal(size=80), 30)  # that all series share
    tables = {}
    for name, better in (("a", 0.0), ("b", 0.1)):
        losses = 5 + better + shocks * (2 if name == "a" else 1) + 0.1 * random.normal(size=len(dates))
        tables[name] = pd.DataFrame({"unique_id": np.repeat(np.arange(30), 80), "forecast_start": dates,
                                     "model_mse": losses})[keep]  # fmt: skip
    facts, no = {"pred_len": 4, "eval_stride": 1, "test": {"mse": 0.0}}, pd.DataFrame()
    runs = {
        name: FinishedRun(Path(name), "", None, facts, {}, no, no, no, table)
        for name, table in tables.items()
    }
    entries = [Entry(name, [run]) for name, run in runs.items()]
    task = Task("made", entries[:1], entries[1:], {}, {})
    assert all(len(entry.tested_losses) == 80 for entry in entries)
    for entry in entries:
        assert entry.tested_losses.mean() == pytest.approx(tables[entry.name]["model_mse"].mean())
    sums = [table.groupby("forecast_start")["model_mse"].sum() * 80 / len(table) for table in tables.values()]
    expected = diebold_mariano(sums[1].to_numpy(), sums[0].to_numpy(), 4)
    found = task.differences["b"]
    assert found.p_value == pytest.approx(expected.p_value)
    assert found.p_value > 0.05
    alone = diebold_mariano(tables["b"]["model_mse"].to_numpy(), tables["a"]["model_mse"].to_numpy(), 4)
    assert alone.p_value < found.p_value  # as one chain, the windows would say more than they know


def test_a_mistake_in_a_long_file_is_one_line_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    frame = long_frame()
    frame.loc[9, "y"] = np.inf
    frame.to_csv(tmp_path / "sales.csv", index=False)
    assert answer(monkeypatch, "train", tmp_path, *SETTINGS, "data.path=sales.csv") == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "runs").exists()
