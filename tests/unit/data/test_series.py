"""Many series in one file: reading, splits, scaling and windows, compared with pandas series by series."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from forecast.data import DataModule, long_data
from forecast.data.missing import describe_missing, missing_shares
from forecast.data.row_ranges import RowRanges
from forecast.data.scaler import Scaler
from forecast.data.sources import store_data
from forecast.data.step_features import TensorRows
from forecast.data.time_features import time_features
from forecast.evaluation.baselines import FittedBaselines, SeasonalNaive
from forecast.evaluation.errors import ErrorSums, TargetValues, seasonal_naive_mae, window_errors
from forecast.evaluation.measurement import new_sums
from forecast.evaluation.scores import SCORES
from forecast.models.linear_model import without_covariates
from forecast.system.errors import DataError
from forecast.training.report import describe_inputs
from forecast.training.run import list_without_windows
from tests.support.long_files import LENGTHS, PRED_LEN, SEQ_LEN, by_hand, long_frame, long_frame_data
from tests.support.stores import write_store

SIZES = {"name": "mine", "seq_len": SEQ_LEN, "pred_len": PRED_LEN, "split": [0.7, 0.1, 0.2]}
STATIC = ["region", "size"]


def ready(source: Path | pd.DataFrame, **options) -> DataModule:
    options = SIZES | options
    is_frame = isinstance(source, pd.DataFrame)
    data = long_frame_data(source, **options) if is_frame else long_data(path=source, **options)
    data.setup()
    return data


def every(data: DataModule, split: str):
    return data.windows[split].gather(torch.arange(data.n_windows[split]))


@pytest.mark.parametrize("split", ["train", "val", "test"])
@pytest.mark.parametrize("future", [0, 4])
@pytest.mark.parametrize(
    ("options", "features", "targets"),
    [
        ({}, ["y"], ["y"]),
        ({"features": "S"}, ["y"], ["y"]),
        ({"features": "M", "past_covariates": ["temperature"]}, ["y", "temperature"], ["y"]),
        ({"features": "M", "columns": ["y", "temperature"]}, ["y", "temperature"], ["y", "temperature"]),
        ({"features": "MS", "columns": ["temperature", "y"]}, ["temperature", "y"], ["y"]),
    ],
)
def test_windows_are_those_cut_by_hand(
    split: str, future: int, options: dict, features: list[str], targets: list[str]
) -> None:
    frame = long_frame(future)
    data = ready(frame, future_covariates=["price"], static_covariates=STATIC, **options)
    batch = every(data, split)
    expected = list(by_hand(frame, split, features, targets, ["price"]))
    assert len(batch.index) == len(expected) == data.n_windows[split] > 0
    past, known_past, ahead, known_ahead, names, dates = zip(*expected, strict=True)
    np.testing.assert_allclose(batch.past, np.stack(past), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch.future, np.stack(ahead), rtol=1e-5, atol=1e-6)
    calendar = 3  # day of week, of month, of year
    np.testing.assert_allclose(
        batch.past_time[..., calendar], np.stack(known_past)[..., 0], rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        batch.future_time[..., calendar], np.stack(known_ahead)[..., 0], rtol=1e-5, atol=1e-6
    )
    windows = data.windows[split]
    origins = windows.origins(batch.index).numpy()
    assert data.panel.ids[batch.series.numpy()].tolist() == list(names)
    assert list(data.panel.dates(origins)) == list(dates)
    assert data.panel.dates(origins - SEQ_LEN).equals(pd.DatetimeIndex(dates) - pd.Timedelta(days=SEQ_LEN))
    for step in range(PRED_LEN):
        told = time_features(pd.DatetimeIndex(dates) + pd.Timedelta(days=step), "D")
        np.testing.assert_allclose(batch.future_time[:, step, :calendar], told, atol=1e-6)
    sizes = np.array([10.0 * list(LENGTHS).index(name) for name in names])
    north = np.array([list(LENGTHS).index(name) % 2 == 0 for name in names])
    static = batch.future_time[:, 0, calendar + 1 :]
    np.testing.assert_allclose(
        static, np.stack([north, ~north, (sizes - 15) / np.std([0, 10, 20, 30])], 1), atol=1e-6
    )
    assert torch.equal(batch.past_time[:, 0, calendar + 1 :], static)


def test_the_same_series_from_any_file_in_any_order(tmp_path: Path) -> None:
    frame = long_frame(future=2)
    options = {"future_covariates": ["price"], "static_covariates": STATIC}
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.csv.gz", index=False)
    frame.to_csv(tmp_path / "b.csv", index=False, sep=";", decimal=",")
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=50)
    frame.astype({"unique_id": "category", "ds": "string"}).to_parquet(tmp_path / "b.parquet")
    frame.sample(frac=1, random_state=3).to_parquet(tmp_path / "mixed.parquet")
    first = ready(frame, **options)
    assert list(first.panel.ids) == list(LENGTHS)
    signs = {"separator": ";", "decimal": ","}
    for name in ("a.csv", "a.csv.gz", "b.csv", "a.parquet", "b.parquet", "mixed.parquet"):
        other = ready(tmp_path / name, **options, **(signs if name == "b.csv" else {}))
        order = first.panel.ids.get_indexer(other.panel.ids)
        for split in ("train", "test"):
            mine, theirs = every(first, split), every(other, split)
            of, whose = first.windows[split].series(mine.index), other.windows[split].series(theirs.index)
            for s in range(len(LENGTHS)):
                for a, b in zip(mine[:4], theirs[:4], strict=True):
                    torch.testing.assert_close(a[of == order[s]], b[whose == s], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("zone", ["+02:00", "Asia/Tokyo"])
def test_a_time_zone_is_dropped_and_local_time_stays(tmp_path: Path, zone: str) -> None:
    frame = long_frame()
    zoned = frame.assign(ds=frame["ds"].dt.tz_localize(zone))
    zoned.to_parquet(tmp_path / "a.parquet")
    zoned.to_csv(tmp_path / "a.csv", index=False)
    for source in (zoned, tmp_path / "a.parquet", tmp_path / "a.csv"):
        with warnings.catch_warnings(action="error"):
            data = ready(source)
        assert data.panel.first_date == frame["ds"].min()


@pytest.mark.filterwarnings("ignore:.*the offset from UTC changes:UserWarning")
def test_zoned_dates_keep_their_zone_and_offsets_that_change_become_utc(tmp_path: Path) -> None:
    frame = long_frame()
    hours = pd.date_range("2024-03-30", periods=len(frame) // 4 + 60, freq="h", tz="Europe/Berlin")
    frame["ds"] = hours[frame.groupby("unique_id").cumcount()]
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    for source in (frame, tmp_path / "a.parquet"):
        panel = ready(source).panel
        assert panel.first_date == pd.Timestamp("2024-03-30 00:00")
        assert panel.grid[0] == pd.Timestamp("2024-03-29 23:00")  # type: ignore
        assert panel.utc_offset.timezone == "Europe/Berlin"
    data = ready(tmp_path / "a.csv")
    assert data.panel.first_date == pd.Timestamp("2024-03-29 23:00")


def test_ids_stay_text_and_some_can_be_chosen(tmp_path: Path) -> None:
    long_frame().to_csv(tmp_path / "a.csv", index=False)
    data = ready(tmp_path / "a.csv", ids=["é", "002"])
    assert list(data.panel.ids) == ["002", "é"]


def test_static_columns_of_a_second_file(tmp_path: Path) -> None:
    frame = long_frame()
    frame.to_csv(tmp_path / "a.csv", index=False)
    static = frame.groupby("unique_id")[STATIC].first().reset_index()
    static.to_csv(tmp_path / "static.csv", index=False)
    one = ready(tmp_path / "a.csv", static_covariates=STATIC)
    two = ready(tmp_path / "a.csv", static_covariates=STATIC, static_path=tmp_path / "static.csv")
    assert torch.equal(every(one, "test").past_time, every(two, "test").past_time)


def test_texts_that_look_missing_or_like_numbers_stay_texts(tmp_path: Path) -> None:
    frame = long_frame()
    ids = frame["unique_id"].unique()
    frame["region"] = frame["unique_id"].replace(dict(zip(ids, ["NA", "1", "2", "online"], strict=True)))
    frame["unique_id"] = frame["unique_id"].replace(ids[0], "NA")
    frame.to_csv(tmp_path / "a.csv", index=False)
    one = ready(tmp_path / "a.csv", static_covariates=["region"])
    assert "NA" in one.panel.ids
    assert one.state_dict()["static_features"] == ["region=1", "region=2", "region=NA", "region=online"]
    few = pd.DataFrame(frame[frame["region"].isin(["1", "2"])])
    few.to_csv(tmp_path / "b.csv", index=False)
    two = long_data(path=tmp_path / "b.csv", **{**SIZES, "split": "test"}, static_covariates=["region"])
    two.load_state_dict(one.state_dict())
    two.setup()
    assert two.scaled.time.static.sum(1).tolist() == [1, 1]


@pytest.mark.parametrize("where", ["in the table", "in a file of its own", "in a store"])
def test_an_empty_static_text_is_a_category(tmp_path: Path, where: str) -> None:
    """A cell that is empty beside others of its series has no say."""
    frame = long_frame()
    first = frame.groupby("unique_id").cumcount() == 0
    region = frame["region"].where(~frame["unique_id"].isin(["002", "é"]))
    frame["region"] = region.where(~first | frame["unique_id"].eq("a"))
    frame.to_csv(tmp_path / "a.csv", index=False)
    options: dict = {"static_covariates": ["region"]}
    if where == "in a file of its own":
        frame.groupby("unique_id")[["region"]].first().reset_index().to_csv(tmp_path / "s.csv", index=False)
        options["static_path"] = tmp_path / "s.csv"
    data = long_data(path=tmp_path / "a.csv", **SIZES, **options)
    if where == "in a store":
        table = long_data(path=tmp_path / "a.csv", past_covariates=["region"], **SIZES).source.read()
        write_store(tmp_path / "a.store", table)
        data = store_data(path=tmp_path / "a.store", columns=["y"], **SIZES, **options)
    with pytest.warns(
        UserWarning, match="static covariate 'region' is empty in 2 of 4 series, which have the"
    ):
        data.setup()
    state = data.state_dict()
    assert "region=missing" in state["static_features"]
    place = state["static_features"].index("region=missing")
    expected = data.panel.ids.isin(["002", "é"]).astype(float).tolist()
    assert data.scaled.time.static[:, place].tolist() == expected
    assert data.scaled.time.static.sum(1).tolist() == [1.0] * 4


def test_a_static_file_may_have_one_of_several_id_columns(tmp_path: Path) -> None:
    frame = long_frame().drop(columns="region").rename(columns={"unique_id": "store"})
    frame = pd.concat([frame.assign(dept=dept) for dept in (1, 2)])
    frame.to_csv(tmp_path / "a.csv", index=False)
    stores = frame["store"].unique()
    regions = pd.DataFrame({"store": stores, "region": [f"region of {store}" for store in stores]})
    regions.to_csv(tmp_path / "s.csv", index=False)
    regions.to_parquet(tmp_path / "s.parquet")
    for name in ("s.csv", "s.parquet"):
        data = ready(
            tmp_path / "a.csv",
            id_column=["store", "dept"],
            static_covariates=["region"],
            static_path=tmp_path / name,
        )
        regions_of = data.panel.static["region"]
        assert len(regions_of) == 8
        assert all(region == f"region of {name.split('/')[0]}" for name, region in regions_of.items())
    regions[1:].to_csv(tmp_path / "less.csv", index=False)
    with pytest.raises(DataError, match=f"less.csv: no row for 2 of 8 series, such as {stores[0]!r}"):
        ready(
            tmp_path / "a.csv",
            id_column=["store", "dept"],
            static_covariates=["region"],
            static_path=tmp_path / "less.csv",
        )


def test_static_numbers_are_read_with_the_separators_of_the_file(tmp_path: Path) -> None:
    frame = long_frame()
    frame["size"] = 1000.5 + frame["size"]
    frame.to_csv(tmp_path / "plain.csv", index=False)
    written = frame.assign(size=[f"{size:,.1f}".translate({44: ".", 46: ","}) for size in frame["size"]])
    written.to_csv(tmp_path / "a.csv", index=False, sep=";", decimal=",")
    static = written.groupby("unique_id")[STATIC].first().reset_index()
    static["unique_id"] = static["unique_id"] + " "
    static.to_csv(tmp_path / "static.csv", index=False, sep=";")
    plain = ready(tmp_path / "plain.csv", static_covariates=STATIC)
    signs = {"separator": ";", "decimal": ",", "thousands": ".", "static_covariates": STATIC}
    for more in ({}, {"static_path": tmp_path / "static.csv"}):
        data = ready(tmp_path / "a.csv", **signs, **more)
        assert torch.equal(every(data, "test").past_time, every(plain, "test").past_time)


@pytest.mark.filterwarnings("ignore:constant in the training rows:UserWarning")
@pytest.mark.parametrize(
    ("kind", "theirs"),
    [("standard", StandardScaler), ("minmax", MinMaxScaler), ("robust", RobustScaler)],
)
def test_every_series_has_its_own_scale(kind: str, theirs: type) -> None:
    frame = long_frame()
    frame.loc[frame["unique_id"] == "a", "temperature"] = (
        0.1  # constant, and no number that a binary fraction is
    )
    data = ready(frame, past_covariates=["temperature"], scaler=kind)
    for s, (name, length) in enumerate(LENGTHS.items()):
        rows = frame.loc[frame["unique_id"] == name, ["y", "temperature"]].to_numpy()
        expected = theirs().fit(rows[: int(0.7 * length)]).transform(rows)
        if name == "a":  # constant there: 0 whatever the scale, the others' median
            assert data.scaler.scale[s, 1] == data.scaler.scale[[1, 2, 3], 1].median()
        mine = data.windows["train"].values[int(data.panel.starts[s]) : int(data.panel.stops[s])]
        np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:constant in the training rows|.*is the same in every series:UserWarning")
def test_a_value_that_was_constant_in_training_is_not_an_outlier() -> None:
    """The price of one series, constant in its training rows, and a static number that is equal in all series."""
    frame = long_frame()
    one = frame["unique_id"] == "a"
    price = frame["price"].where(~one, 500.0)
    frame["price"] = price.where(~one | (frame.groupby("unique_id").cumcount() < 38), 450.0)
    frame["size"] = 100.0
    data = ready(frame, future_covariates=["price"], static_covariates=["size"])
    test = every(data, "test")
    assert test.future_time.abs().max() < 50 / data.scaled.scales.future_scaler.scale[1:].min()
    state = data.state_dict()
    new = frame[one].assign(unique_id="new", size=5_000.0)
    options = SIZES | {"future_covariates": ["price"], "static_covariates": ["size"], "split": "test"}
    later = long_frame_data(new, **options)
    later.load_state_dict(state)
    later.setup()
    assert later.scaled.scales.future_scaler.scale.item() in data.scaled.scales.future_scaler.scale
    assert every(later, "test").future_time[..., -1].abs().max() == 0


def test_scale_by_all_uses_one_scale_for_all_series() -> None:
    data = ready(long_frame(), scale_by="all")
    rows = np.concatenate([
        data.panel.values[a : a + int(0.7 * n), 0]
        for a, n in zip(data.panel.starts, LENGTHS.values(), strict=True)
    ])  # fmt: skip
    np.testing.assert_allclose(data.scaler.center, np.full((4, 1), rows.mean()))
    np.testing.assert_allclose(data.scaler.scale, np.full((4, 1), rows.std()))


def test_dates_split_all_series_alike() -> None:
    data = ready(long_frame(), split=["2024-02-01", "2024-02-14"])
    for split, (first, last) in {
        "train": ("2024-01-01", "2024-01-31"),
        "val": ("2024-02-01", "2024-02-13"),
        "test": ("2024-02-14", "2024-03-30"),
    }.items():
        windows = data.windows[split]
        origins = windows.origins(torch.arange(len(windows))).numpy()
        dates = data.panel.dates(origins if split != "train" else origins - SEQ_LEN)
        assert np.datetime64(first) <= dates.to_numpy().min()
        assert data.panel.dates(origins + PRED_LEN - 1).to_numpy().max() <= np.datetime64(last)


@pytest.mark.filterwarnings("ignore:.*too few rows for a window:UserWarning")
def test_series_too_short_for_a_window_have_none() -> None:
    frame = long_frame()
    short = frame.loc[(frame["unique_id"] != "a") | (frame["ds"] < "2024-01-10")]
    data = ready(short)
    whole = ready(frame.loc[frame["unique_id"] != "a"])
    assert data.n_windows == whole.n_windows
    assert list_without_windows(data) == {split: ["a"] for split in ("train", "val", "test")}


def test_a_file_of_future_covariates_may_contain_past_rows(tmp_path: Path) -> None:
    """Price lists do. Where both files have a row, the first file counts."""
    frame = long_frame(future=3)
    frame[frame["y"].notna()].to_csv(tmp_path / "a.csv", index=False)
    prices = frame[["unique_id", "ds", "price"]]
    prices.assign(price=prices["price"].where(frame["y"].isna(), 999)).to_csv(
        tmp_path / "prices.csv", index=False
    )
    data = ready(tmp_path / "a.csv", future_covariates=["price"], future_path=tmp_path / "prices.csv")
    whole = ready(frame, future_covariates=["price"])
    assert data.panel.future is not None
    assert whole.panel.future is not None
    np.testing.assert_allclose(data.panel.future, whole.panel.future)
    assert data.panel.grid.equals(whole.panel.grid)


@pytest.mark.filterwarnings("ignore:.*left out 12 rows:UserWarning")
def test_a_series_ends_with_its_last_target(tmp_path: Path) -> None:
    """Even if a past covariate is known after it."""
    frame = long_frame(future=3)
    frame["temperature"] = frame["temperature"].fillna(7.0)
    panel = ready(frame, past_covariates=["temperature"]).panel
    assert panel.lengths.tolist() == list(LENGTHS.values())


@pytest.mark.filterwarnings("ignore:.*left out 3 rows:UserWarning")
def test_rows_before_the_first_target_are_left_out() -> None:
    frame = long_frame()
    holes = frame.copy()
    holes.loc[[0, 1, 40], "y"] = np.nan
    data = ready(holes)
    assert data.panel.lengths.tolist() == [38, 54, 47, 60]
    np.testing.assert_array_equal(data.panel.values[0], frame["y"][[2]])


def test_gaps_within_each_series_stay_missing() -> None:
    frame = long_frame(future=2)
    holes = frame.copy()
    holes.loc[[3, 60, 61], "y"] = np.nan
    holes = holes.drop(index=[20, 21, 100])
    data = ready(holes, future_covariates=["price"])
    for s, name in enumerate(LENGTHS):
        one = holes[holes["unique_id"] == name].set_index("ds")[["y", "price"]].asfreq("D")
        history = one.loc[: one["y"].last_valid_index()]
        rows = slice(data.panel.starts[s], data.panel.ends[s])
        np.testing.assert_array_equal(data.panel.values[rows, 0], history["y"])
        assert data.panel.future is not None
        np.testing.assert_array_equal(data.panel.future[rows, 0], history["price"])
        assert data.scaled.time.future is not None
        prices = data.scaled.scales.future_scaler.inverse(
            data.scaled.time.future.past[rows][None],
            torch.tensor([s]),  # what the model reads
        )
        np.testing.assert_allclose(prices[0, :, 0], history["price"].ffill(), rtol=1e-5)


def test_nothing_after_an_origin_reaches_its_past_or_any_scale() -> None:
    frame = long_frame()
    options = {"past_covariates": ["temperature"], "future_covariates": ["price"]}
    before = ready(frame, **options)
    later = frame.copy()
    position = frame.groupby("unique_id", sort=False).cumcount()
    length = frame["unique_id"].map(LENGTHS.get)
    after = position >= length - (0.2 * length).astype(int)  # the test rows
    later.loc[after, ["y", "temperature", "price"]] *= -7
    changed = ready(later, **options)
    assert torch.equal(before.scaler.center, changed.scaler.center)
    assert torch.equal(before.scaler.scale, changed.scaler.scale)
    for split in ("train", "val"):
        assert all(
            torch.equal(a, b) for a, b in zip(every(before, split), every(changed, split), strict=True)
        )
    first = torch.tensor(
        [0]
    )  # the first test window of the first series: its whole past lies before the test rows
    a, b = (data.windows["test"].gather(first) for data in (before, changed))
    assert torch.equal(a.past, b.past)
    assert torch.equal(a.past_time, b.past_time)
    assert not torch.equal(a.future, b.future)


def test_a_checkpoint_keeps_the_scales_of_its_series_and_gives_new_ones_their_own() -> None:
    frame = long_frame()
    trained = ready(frame.loc[frame["unique_id"] != "a"])
    state = trained.state_dict()
    shifted = frame.assign(y=frame["y"] * 3 + 5)
    data = long_frame_data(shifted, **SIZES | {"split": "test"})
    data.load_state_dict(state)
    data.setup()
    assert torch.equal(data.scaler.scale[1:], trained.scaler.scale)
    seen = shifted.loc[shifted["unique_id"] == "a", "y"].to_numpy()[
        :SEQ_LEN
    ]  # all that the first forecast may know
    np.testing.assert_allclose([data.scaler.center[0, 0], data.scaler.scale[0, 0]], [seen.mean(), seen.std()])
    assert data.n_windows["test"] == sum(n - SEQ_LEN - PRED_LEN + 1 for n in LENGTHS.values())
    fitted = FittedBaselines(
        without_covariates(torch.zeros(1, 1)), torch.tensor([[1.0], [2.0], [3.0]]), 7, list(LENGTHS)[1:]
    )
    naive_mae = fitted.naive_mae_of(data.panel.ids)
    assert naive_mae[:, 0].tolist()[1:] == [1, 2, 3]
    assert naive_mae[0].isnan()


def test_a_series_without_training_rows_is_read_again_from_a_checkpoint_unchanged() -> None:
    frame = long_frame()
    frame = frame.loc[(frame["unique_id"] != "é") | (frame["ds"] >= "2024-02-15")]
    options = {"split": ["2024-02-10", "2024-02-20"]}
    data = ready(frame, **options)
    assert data.scaled.scales.has_scale.tolist() == [True, True, True, False]
    again = long_frame_data(frame, **SIZES | options)
    again.load_state_dict(data.state_dict())
    again.setup()
    assert again.n_windows == data.n_windows
    assert all(torch.equal(a, b) for a, b in zip(every(again, "test"), every(data, "test"), strict=True))


def test_baselines_of_a_run_on_other_series_than_the_checkpoint_do_not_use_its_state() -> None:
    frame = long_frame()
    state = ready(frame).state_dict()
    for names in (["é"], ["002", "a"]):
        mine = ready(pd.concat([frame.loc[frame["unique_id"] == name, :] for name in names]))
        fitted = FittedBaselines.fit(mine)
        before = new_sums(fitted, mine, torch.device("cpu"))
        mine.load_state_dict(state)
        after = new_sums(fitted, mine, torch.device("cpu"))
        assert torch.equal(before.naive_mae, after.naive_mae)
        assert not after.naive_mae.isnan().any()


def test_baselines_of_every_series() -> None:
    data = ready(long_frame(), columns=["y", "temperature"], season=7)
    fitted = FittedBaselines.fit(data)
    for s, length in enumerate(LENGTHS.values()):
        rows = torch.from_numpy(data.panel.values[data.panel.starts[s] :][: int(0.7 * length)]).float()
        unscaled = Scaler(torch.zeros(1, 2), torch.ones(1, 2))
        values = TargetValues(TensorRows(rows), [0, 1], unscaled)
        (expected,) = seasonal_naive_mae(values, RowRanges(np.array([0]), np.array([len(rows)])), 7)
        torch.testing.assert_close(fitted.naive_mae[s], expected, rtol=1e-4, atol=1e-5)
    batch = every(data, "train")
    past = batch.past.double()
    mean = past.mean(1, keepdim=True)
    x = (past - mean).transpose(1, 2).flatten(0, 1).numpy()
    y = (batch.future.double() - mean).transpose(1, 2).flatten(0, 1).numpy()
    np.testing.assert_allclose(fitted.linear.past_weight, np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-3)


def test_a_series_without_a_season_behind_it_repeats_its_last_value() -> None:
    data = ready(long_frame(), season=20)
    windows = data.windows["train"]
    baseline = SeasonalNaive(20)
    batch = every(data, "train")
    given = baseline(windows, batch)
    origins, series = windows.origins(batch.index), windows.series(batch.index)
    for window in range(len(batch.index)):
        row, begin = int(origins[window]), int(data.panel.starts[series[window]])
        for step in range(PRED_LEN):
            source = row - 20 + step if row - 20 + step >= begin else row - 1
            assert given[window, step] == windows.values.tensor[source]
    short = ready(
        long_frame(), season=50
    )  # a season longer than any training rows: MASE's denominator is naive's
    naive = ready(long_frame(), season=1)
    assert torch.equal(FittedBaselines.fit(short).naive_mae, FittedBaselines.fit(naive).naive_mae)


def test_scores_are_each_series_own_then_their_mean() -> None:
    data = ready(long_frame(), columns=["y", "temperature"])
    fitted = FittedBaselines.fit(data)
    test, baseline = data.windows["test"], fitted.baselines()["linear"]
    batch = every(data, "test")
    series, forecast = batch.series, baseline(test, batch)
    sums = new_sums(fitted, data, torch.device("cpu"))
    sums.update(forecast, batch.future, series)
    errors, each = sums.compute(), window_errors(forecast, batch.future, data.target_scaler, series)
    alone = []
    for s in range(len(LENGTHS)):
        center, scale = (part[s : s + 1] for part in (data.target_scaler.center, data.target_scaler.scale))
        sums = ErrorSums(PRED_LEN, Scaler(center, scale), fitted.naive_mae[s : s + 1])
        own = series == s
        sums.update(forecast[own], batch.future[own], torch.zeros(int(own.sum()), dtype=torch.int64))
        alone.append(sums.compute())
    mine = errors.by_series()
    for name in set(SCORES) - {"crps"}:
        expected = torch.stack([sums.by_variable()[name] for sums in alone])
        torch.testing.assert_close(mine[name], expected)
        if name not in ("mse", "mae"):
            assert errors.scores()[name] == pytest.approx(expected.mean().item())
            torch.testing.assert_close(errors.by_variable()[name], expected.mean(0))
    assert errors.scores()["mse"] == pytest.approx(each[:, 0].mean().item(), rel=1e-6)
    assert (errors.series_counts / PRED_LEN)[:, 0].tolist() == torch.bincount(series).tolist()
    by_step = (forecast - batch.future).double().square().mean((0, 2))
    torch.testing.assert_close(errors.by_step()["mse"], by_step)


def test_two_thousand_series_are_read_without_a_loop_over_windows() -> None:
    random = np.random.default_rng(0)
    count, rows = 2_000, 200
    dates = pd.date_range("2020-01-01", periods=rows, freq="h")
    frame = pd.DataFrame({
        "unique_id": np.repeat([f"s{i:04d}" for i in range(count)], rows),
        "ds": np.tile(dates, count),
        "y": (random.normal(size=(count, rows)) * np.arange(1, count + 1)[:, None]).ravel(),
    })  # fmt: skip
    with warnings.catch_warnings(action="error"):
        data = ready(frame.sample(frac=1, random_state=1), windows_per_epoch=64, eval_stride=101)
    assert data.n_windows == {"train": count * (140 - SEQ_LEN - PRED_LEN + 1), "val": count, "test": count}
    assert sum(len(batch.index) for batch in data.loader("train")) == 64
    (note,) = (line for line in describe_inputs(data) if line.startswith("note"))
    assert "64 windows misses many of 2,000 series: windows_per_epoch=8000 draws about four of each" in note
    picked = data.windows["train"].gather(torch.tensor([0, data.n_windows["train"] - 1]))
    of = data.panel.ids[picked.series.numpy()]
    for i, name in enumerate(of):
        rows_of = frame.loc[frame["unique_id"] == name, "y"].to_numpy()[:140]
        at = slice(0, SEQ_LEN) if i == 0 else slice(140 - SEQ_LEN - PRED_LEN, 140 - PRED_LEN)
        np.testing.assert_allclose(
            picked.past[i, :, 0], ((rows_of - rows_of.mean()) / rows_of.std())[at], rtol=1e-4
        )


def test_missing_values_are_counted_by_role() -> None:
    frame = long_frame(future=2)
    history = frame["y"].notna()
    frame.loc[history & (frame.index % 10 == 5), "price"] = np.nan
    frame.loc[[3, 8], "temperature"] = np.nan
    data = ready(frame, past_covariates=["temperature"], future_covariates=["price"])
    n = int(history.sum())  # type: ignore
    assert missing_shares(data.panel, data.feature_columns, data.target_columns) == {
        "targets": {},
        "past covariates": {"temperature": 2 / n},
        "future covariates": {"price": np.isnan(frame["price"].to_numpy()[history]).sum() / n},
    }
    assert [
        line.split(";")[1]
        for line in describe_missing(data.panel, data.feature_columns, data.target_columns, data.options.fill)
    ] == [
        " read as data.fill=auto says",
        " read as the value before",
    ]
