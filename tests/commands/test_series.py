"""Many series, in a long file or a store: training, scores and forecasts."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast import Model, load
from forecast.inference.forecasters import choose_forecaster
from forecast.inference.predict import predict
from forecast.runs.folder import read_metrics
from tests.support.commands import TINY, only, run_command, run_training
from tests.support.long_files import LENGTHS, long_frame, long_frame_data

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
def shop_run(place: Path) -> Path:
    known = ("data.future_covariates=[price]", "data.static_covariates=[region]", "trainer.max_epochs=10")
    printed = train(place, *known)
    assert "covariates future covariates price; static region" in printed
    assert "8 series, 800 rows (100 each), every day" in printed
    return only(place, "runs/*")


def flatten(content: dict) -> dict[str, float]:
    return pd.json_normalize(content).iloc[0].dropna().to_dict()


def test_evaluate_gives_the_runs_own_numbers(shop_run: Path, capsys) -> None:
    given = (f"checkpoint={shop_run}", f"output={shop_run}/again.json")
    assert run_command("evaluate", shop_run.parents[1], *given) == 0
    again, first = json.loads((shop_run / "again.json").read_text()), read_metrics(shop_run)
    for part in ("test", "baselines", "intervals"):
        assert flatten(again[part]) == pytest.approx(flatten(first[part]), rel=1e-6)
    names = ("again_by_series.parquet", "errors_by_series.parquet")
    found, expected = (pd.read_parquet(shop_run / name) for name in names)
    pd.testing.assert_frame_equal(found, expected)
    assert "8 tested" in capsys.readouterr().out


def test_every_series_is_forecast_after_its_end(shop_run: Path, place: Path) -> None:
    options = (f"checkpoint={shop_run}", "levels=[80]", f"output={shop_run}/next.csv")
    assert run_command("predict", place, *options) == 0
    table = pd.read_csv(shop_run / "next.csv", parse_dates=["ds"])
    assert list(table.columns) == ["unique_id", "ds", "y", "y-lo-80", "y-hi-80"]
    assert len(table) == SERIES * PRED_LEN
    assert (shop_run / "next.png").stat().st_size > 5_000
    assert list(table["ds"][:PRED_LEN]) == list(pd.date_range("2024-04-10", periods=PRED_LEN))
    frame = pd.read_parquet(place / "sales.parquet")
    price = frame.groupby("unique_id", sort=False)["price"].tail(PRED_LEN).to_numpy() - 3
    number = table["unique_id"].str.removeprefix("shop_").astype(int)
    expected = 50 * (number + 1) + (number + 1) * price * np.where(number % 2, 1, -1)
    error = (table["y"] - expected) / (number + 1)
    assert np.square(error).mean() < 0.3  # the values vary by 1 in these units
    inside = (table["y-lo-80"] <= expected) & (expected <= table["y-hi-80"])
    assert 0.5 < inside.mean() <= 1

    whole = load(shop_run).predict(frame, levels=[80])
    np.testing.assert_allclose(whole["y-hi-80"], table["y-hi-80"], rtol=1e-5)


# ---- a store of many series: what the commands do on the long file that it was made from

DATA, AHEAD = ("long", "store"), 10
KEYS = ("data.id_column=shop", "data.date_column=day")
ROLES = ("data.columns=[y]", "data.past_covariates=[sky]", "data.future_covariates=[price]")
MORE = [("data.path=history.{}", "future=ahead.csv"), ("data.path=sales.{}", "start=2024-02-10", "levels=[80]")]


def store_table() -> pd.DataFrame:
    """Four daily series with different first and last dates; their prices are known for `AHEAD` more days."""
    frame, random = long_frame(future=AHEAD), np.random.default_rng(2)
    frame["sky"] = random.choice(["sun", "rain", "snow"], len(frame))
    frame["y"] += 3 * frame["price"]
    return frame.drop(columns=["region", "size", "temperature"]).rename(columns={"unique_id": "shop", "ds": "day"})


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sales and their history, as long files and stores, the prices ahead, and a run on each of DATA."""
    folder, frame = tmp_path_factory.mktemp("store"), store_table()
    known = frame["y"].notna()
    frame.to_csv(folder / "sales.long", index=False)
    frame[known].to_csv(folder / "history.long", index=False)
    frame.loc[~known, ["shop", "day", "price"]].to_csv(folder / "ahead.csv", index=False)
    for name in ("sales", "history"):
        assert run_command("convert", folder, f"data.path={name}.long", *KEYS, "chunk=900") == 0
    for data in DATA:
        keys = KEYS if data == "long" else ()
        given = (f"data={data}", f"data.path=sales.{data}", *keys, *ROLES, f"output_root={data}")
        more = ("data.name=sales", "data.split=[0.5,0.3,0.2]", "trainer.max_epochs=1", "logger=[]")
        assert run_training(folder, *given, *more) == 0
        (folder / "runs").mkdir(exist_ok=True)
        only(folder, f"{data}/*").rename(folder / "runs" / data)
    return folder


def test_training_gives_the_same_windows_and_scores(stores: Path) -> None:
    long, store = (read_metrics(stores / f"runs/{data}") for data in DATA)
    assert store["n_windows"] == long["n_windows"]
    assert store["inputs_used"] == long["inputs_used"]
    for part in ("test", "baselines"):
        assert flatten(store[part]) == pytest.approx(flatten(long[part]), rel=1e-3, abs=1e-4)
    for name in ("errors_by_window", "errors_by_series"):
        one, other = (pd.read_parquet(stores / f"runs/{data}" / f"{name}.parquet") for data in DATA)
        pd.testing.assert_frame_equal(one, other, rtol=0.01, atol=1e-3)
    assert len(other) == 4


@pytest.mark.parametrize("more", MORE, ids=lambda more: more[-1])
def test_forecasts_from_either(stores: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    frames = []
    for data in DATA:
        given = [text.format(data) for text in more]
        output = f"output={tmp_path}/{data}.csv"
        assert run_command("predict", stores, "checkpoint=runs/store", output, *given) == 0
        frames.append(pd.read_csv(tmp_path / f"{data}.csv", index_col=["shop", "day"]))
    assert len(frames[0]) >= 3 * 5
    pd.testing.assert_frame_equal(*frames, rtol=0, atol=1e-3)


def test_parts_of_the_series_are_forecast_apart(stores: Path, tmp_path: Path, capsys) -> None:
    """Processes that each forecast a part write what one process writes for all."""
    given = ("checkpoint=runs/store", "data.path=sales.store", "start=2024-02-10", "levels=[80]")
    for name, ids in (("whole", ()), *((part, (f"data.ids={part}of3",)) for part in (1, 2, 3))):
        assert run_command("predict", stores, *given, *ids, f"output={tmp_path}/{name}.parquet") == 0
    whole = pd.read_parquet(tmp_path / "whole.parquet")
    parts = [pd.read_parquet(tmp_path / f"{part}.parquet") for part in (1, 2, 3)]
    assert [part["shop"].nunique() for part in parts] == [2, 1, 1]
    assert whole["day"].dtype.kind == "M"
    one, other = (table.sort_values(["shop", "day"], ignore_index=True) for table in (whole, pd.concat(parts)))
    pd.testing.assert_frame_equal(one, other, rtol=1e-5)
    assert run_command("predict", stores, *given, "data.ids=3of2", f"output={tmp_path}/none.csv") == 2
    assert "there is no such part of 4 series" in capsys.readouterr().err


def test_a_backtest_is_that_of_the_long_file(stores: Path, tmp_path: Path) -> None:
    found = []
    for data in DATA:
        given = (f"checkpoint={stores}/runs/store", f"data.path={stores}/history.{data}", "steps=10")
        assert run_command("backtest", stores, *given, f"output_root={tmp_path}/{data}") == 0
        found.append(pd.read_parquet(only(tmp_path, f"{data}/*/forecasts.parquet")))
    assert len(found[0]) == 4 * 10
    pd.testing.assert_frame_equal(*found, rtol=0.01, atol=1e-2)


# ---- forecasts from an earlier date, beyond pred_len, and by models trained on another layout

SEQ_LEN, STEPS = 12, 5
START = pd.to_datetime("2024-02-10")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Four daily series with different first and last dates; their prices are known for ten more days."""
    return long_frame(future=10)


def until(frame: pd.DataFrame, start: pd.Timestamp, steps: int = STEPS) -> pd.DataFrame:
    """What is known on a date: values before it, and prices of the steps from it on."""
    seen = frame.loc[frame["ds"] < start + pd.Timedelta(days=steps)]
    return seen.assign(y=seen["y"].where(seen["ds"] < start))


def test_from_an_earlier_date_the_truth_is_beside_each_series(series_model: Model, frame: pd.DataFrame) -> None:
    start = pd.to_datetime("2024-02-08")  # two days before the end of the shortest series, "a"
    found = series_model.predict(frame, start=start)
    assert list(found.columns) == ["ds", "y", "y-true", "y-error"]
    assert list(found.index) == np.repeat(list(LENGTHS), STEPS).tolist()
    expected = series_model.predict(until(frame, start))
    assert list(expected.columns) == ["ds", "y"]
    np.testing.assert_array_equal(found["ds"], expected["ds"])
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-6)
    truth = found.reset_index().merge(frame, how="left", on=["unique_id", "ds"], suffixes=("", "-file"))
    np.testing.assert_array_equal(truth["y-true"], truth["y-file"])
    np.testing.assert_allclose(found["y-error"], found["y"] - found["y-true"])
    assert found["y-true"].isna().groupby(level=0, sort=False).sum().tolist() == [3, 0, 0, 0]
    pd.testing.assert_frame_equal(found, series_model.predict(start=str(start)))  # of the file that it was trained on


@pytest.mark.parametrize("is_new", [False, True])
def test_a_series_with_few_rows_is_forecast_beside_the_others(
    series_model: Model, frame: pd.DataFrame, is_new: bool
) -> None:
    few = frame.loc[(frame["unique_id"] != "é") | (frame["ds"] >= START - pd.Timedelta(days=4))]
    few = few.replace({"unique_id": {"é": "new"}}) if is_new else few
    name, others = "new" if is_new else "é", ["a", "002", "c d"]
    found = series_model.predict(few, start=START, levels=[80])
    rows = found["rows_before"].groupby(level=0).first()
    assert rows.to_dict() == {name: 4, **dict.fromkeys(others, SEQ_LEN)}
    assert np.isfinite(found[["y", "y-lo-80", "y-hi-80"]]).all(axis=None)
    whole = series_model.predict(frame, start=START)
    assert "rows_before" not in whole
    np.testing.assert_allclose(found.loc[others, "y"], whole.loc[others, "y"], rtol=1e-5)
    naive = series_model.predict(few, start=START, baseline="naive").loc[name, "y"]
    last = few.loc[(few["unique_id"] == name) & (few["ds"] < START), "y"].iloc[-1]
    np.testing.assert_allclose(naive, last, rtol=1e-5)


def test_a_series_without_a_scale_in_the_checkpoint_is_a_new_one(series_model: Model, frame: pd.DataFrame) -> None:
    own = frame.loc[frame["unique_id"] == "é"]
    expected = series_model.predict(own.assign(unique_id="new"))
    assert not np.allclose(series_model.predict(own)["y"], expected["y"])  # on the scale of its training rows
    series_model.data_state["has_scale"][list(LENGTHS).index("é")] = False  # had no training rows
    np.testing.assert_allclose(series_model.predict(own)["y"], expected["y"], rtol=1e-6)


def test_beyond_pred_len_each_series_reads_its_own_forecasts(series_model: Model, frame: pd.DataFrame) -> None:
    horizon = STEPS + 3
    found = series_model.predict(frame, start=START, horizon=horizon)
    assert len(found) == len(LENGTHS) * horizon
    first = series_model.predict(frame, start=START)
    filled = frame.merge(first.reset_index()[["unique_id", "ds", "y"]], how="left", on=["unique_id", "ds"])
    known = frame.assign(y=filled["y_y"].fillna(filled["y_x"]))
    second = series_model.predict(known, start="2024-02-15")  # STEPS days later
    for name in LENGTHS:
        steps = np.concatenate([first.loc[name, "y"], second.loc[name, "y"]])[:horizon]
        np.testing.assert_allclose(found.loc[name, "y"], steps, rtol=1e-4)
    np.testing.assert_array_equal(found.loc["002", "ds"], pd.date_range(START, periods=horizon))


def test_a_model_of_a_table_forecasts_many_series(run: Path) -> None:
    """A table as the series "one", and ten times its values as "two"."""
    model, table = load(run), pd.read_csv(run.parents[1] / "load.csv").rename(columns={"date": "ds"})[:100]
    tenfold = table.assign(load=10 * table["load"], temperature=10 * table["temperature"], unique_id="two")
    long = pd.concat([table.assign(unique_id="one"), tenfold])
    columns = model.feature_columns
    source = long_frame_data(long, name="long", columns=columns, seq_len=12, pred_len=5, split="test").source
    found = predict(choose_forecaster(model, None), source.read())
    assert found.new == 2
    frame = found.frame()
    assert frame.index.unique().tolist() == ["one", "two"]
    for name in model.target_columns:
        np.testing.assert_allclose(frame.loc["two", name], 10 * frame.loc["one", name], rtol=1e-4)
