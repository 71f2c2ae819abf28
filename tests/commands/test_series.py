"""Many series from the command line: training, scores and forecasts, with and without known future covariates."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast import load
from tests.support.commands import TINY, only, run_command

SERIES, ROWS, PRED_LEN = 8, 100, 5
SETTINGS = (
    *TINY, "data=long", "data.path=sales.parquet", "logger=[]", "callbacks.progress.refresh_rate=0",
    "attention=full", "optimizer.lr=0.003", "model.dropout=0.0", "model.d_model=16",
)  # fmt: skip


def train(folder: Path, *overrides: str) -> str:
    """Run the command in `folder`, within this process; what it printed."""
    with redirect_stdout(io.StringIO()) as printed:
        assert run_command("train", folder, *SETTINGS, *overrides) == 0
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


def test_evaluate_gives_the_runs_own_numbers(run: Path, capsys) -> None:
    given = (f"checkpoint={run}", f"output={run}/again.json")
    assert run_command("evaluate", run.parents[1], *given) == 0
    again, first = json.loads((run / "again.json").read_text()), metrics(run)
    for part in (lambda m: m["test"], lambda m: m["baselines"]["seasonal_naive"]):
        assert part(again) == pytest.approx(part(first), rel=1e-6)
    widths = [found["intervals"]["conformal"]["80"]["width_raw"] for found in (again, first)]
    assert widths[0] == pytest.approx(widths[1], rel=1e-6)
    names = ("again_by_series.parquet", "errors_by_series.parquet")
    found, expected = (pd.read_parquet(run / name) for name in names)
    pd.testing.assert_frame_equal(found, expected)
    assert "8 tested" in capsys.readouterr().out


def test_every_series_is_forecast_after_its_end(run: Path, place: Path) -> None:
    options = (f"checkpoint={run}", "levels=[80]", f"output={run}/next.csv")
    assert run_command("predict", place, *options) == 0
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
    parts = (f"data.path={run}/history.csv", f"future={run}/ahead.csv", "data.ids=[shop_3]")
    assert run_command("predict", place, f"checkpoint={run}", *parts, f"output={run}/one.csv") == 0
    one = pd.read_csv(run / "one.csv")
    np.testing.assert_allclose(one["y"], table.loc[table["unique_id"] == "shop_3", "y"], rtol=1e-5)


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
