"""A store on disk has the windows of the file that it was made from. Incomplete stores are refused in one line."""

import json
import pickle
import shutil
from collections.abc import Callable
from math import gcd
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from forecast.data import DataModule, Panel, csv_data, read_table, store_data
from forecast.data.store.format import PARTS, StoreWriter, check_fits_memory, is_store, open_store
from forecast.data.stored_values import StoredValues
from forecast.data.window_starts import spread_stride
from forecast.evaluation.fitted_baselines import FittedBaselines
from forecast.system.errors import ConfigError, DataError
from tests.support.csv_files import numbers

SIZES = {"name": "mine", "seq_len": 20, "pred_len": 6, "split": [0.7, 0.1, 0.2]}


def write_store(folder: Path, table: Panel, dtype: str = "<f8") -> Path:
    folder.mkdir()
    writer = StoreWriter(folder, list(table.columns), dtype, "us", 0)
    writer.append(table)
    writer.finish(
        freq=table.freq, first_date=str(table.grid[0]), last_date=str(table.grid[-1]),
        minimum=np.nanmin(table.values, 0).tolist(), maximum=np.nanmax(table.values, 0).tolist(),
        missing=table.missing.tolist(),
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "a.csv"
    numbers(500).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def store(file: Path) -> Path:
    return write_store(file.with_name("a.store"), read_table(file))


def both(file: Path, store: Path, **options) -> tuple[DataModule, DataModule]:
    made = csv_data(path=file, **SIZES | options), store_data(path=store, **SIZES | options)
    for data in made:
        data.setup()
    return made


@pytest.mark.parametrize("scaler", ["standard", "minmax", "robust", "none"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": "S", "target": "price"},
        {"features": "MS", "target": "wind"},
        {"features": "MS", "target": "load", "columns": ["wind", "load"]},
        {"split": ["2021-03-15", "2021-03-17 16:00"], "eval_stride": 3},
        {"columns": ["load"], "past_covariates": ["wind"], "future_covariates": ["price"]},
        {"transform": {"load": "asinh", "wind": "asinh"}, "lower": {"price": -1000}},
    ],
)
def test_windows_are_those_of_the_file_in_memory(file: Path, store: Path, scaler: str, options: dict):
    memory, disk = both(file, store, scaler=scaler, **options)
    assert (disk.n_windows, disk.rows, disk.freq, disk.season) == (
        memory.n_windows, memory.rows, memory.freq, memory.season,
    )  # fmt: skip
    assert (disk.feature_columns, disk.target_columns) == (memory.feature_columns, memory.target_columns)
    assert disk.n_time_features == memory.n_time_features
    torch.testing.assert_close(disk.scaler.center, memory.scaler.center, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(disk.scaler.scale, memory.scaler.scale, rtol=1e-12, atol=1e-12)
    assert disk.state_dict()["trained_until"] == memory.state_dict()["trained_until"]
    disk.load_state_dict(memory.state_dict())  # now the scalers are one to the bit
    for split, windows in memory.windows.items():
        index = torch.randperm(len(windows))
        expected, found = windows.gather(index), disk.windows[split].gather(index)
        for mine, its in zip(found, expected, strict=True):
            assert torch.equal(mine, its)
            assert mine.is_contiguous()
        assert torch.equal(disk.windows[split].origins(index), windows.origins(index))


def test_float32_is_as_near_as_rounding_allows(file: Path, tmp_path: Path):
    table = read_table(file)
    memory, disk = both(file, write_store(tmp_path / "b.store", table, "<f4"))
    index = torch.arange(len(memory.windows["test"]))
    expected, found = memory.windows["test"].gather(index), disk.windows["test"].gather(index)
    torch.testing.assert_close(found.past, expected.past, rtol=0, atol=1e-6)
    assert torch.equal(found.past_time, expected.past_time)


def test_rows_after_the_last_target_give_future_covariates(tmp_path: Path) -> None:
    frame = numbers(500)
    frame.loc[frame.index[-8:], ["load", "wind"]] = np.nan
    frame.loc[frame.index[50], "wind"] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False)
    store = write_store(tmp_path / "a.store", read_table(tmp_path / "a.csv"))
    roles = {"columns": ["load"], "past_covariates": ["wind"], "future_covariates": ["price"]}
    memory, disk = both(tmp_path / "a.csv", store, **roles)
    assert disk.panel.ends.tolist() == memory.panel.ends.tolist() == [492]
    assert disk.panel.missing.tolist() == memory.panel.missing.tolist() == [0, 1]
    assert disk.n_windows == memory.n_windows
    last = torch.tensor([disk.n_windows["test"] - 1])
    torch.testing.assert_close(*(data.windows["test"].gather(last) for data in (disk, memory)))
    assert isinstance(disk.panel.future, StoredValues)
    part = disk.panel.take_rows(*(np.array([n]) for n in (0, 480, 500, 492)))
    np.testing.assert_array_equal(part.future[:, 0], frame["price"].iloc[480:])  # type: ignore[index]
    changed = frame.assign(price=frame["price"].where(frame.index < 492, 1e4))
    changed.to_csv(tmp_path / "b.csv", index=False)
    other = store_data(
        path=write_store(tmp_path / "b.store", read_table(tmp_path / "b.csv")), **SIZES, **roles
    )
    other.setup()
    assert torch.equal(other.scaled.scales.future_scaler.scale, disk.scaled.scales.future_scaler.scale)
    assert torch.equal(
        other.windows["test"].gather(last).future_time, disk.windows["test"].gather(last).future_time
    )


def test_a_future_covariate_without_all_its_values_is_refused(tmp_path: Path) -> None:
    frame = numbers(500)
    frame.loc[frame.index[50], "price"] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False)
    store = write_store(tmp_path / "a.store", read_table(tmp_path / "a.csv"))
    with pytest.raises(
        DataError, match="future covariate 'price' has 1 missing values, and a store needs all"
    ):
        store_data(path=store, **SIZES, future_covariates=["price"]).setup()


def test_rows_are_read_where_they_are_indexed(file: Path, store: Path):
    memory, disk = both(file, store, features="MS", target="wind")
    disk.load_state_dict(memory.state_dict())
    mine, its = disk.windows["val"], memory.windows["val"]
    rows = torch.tensor([[3, 4], [499, 0]])
    assert torch.equal(mine.values[rows], its.values[rows])
    assert torch.equal(mine.values[7:50], its.values[7:50])
    assert torch.equal(mine.targets(rows), its.targets(rows))
    assert torch.equal(mine.time.calendar[rows], its.time.calendar[rows])
    assert (mine.values.n_columns, mine.time.n_features) == (its.values.n_columns, its.time.n_features)


@pytest.mark.parametrize("season", [24, 300])
@pytest.mark.parametrize("stretch", [1, 500, 1 << 23])
def test_what_is_taken_from_the_training_rows_in_parts(
    file: Path, store: Path, monkeypatch: pytest.MonkeyPatch, stretch: int, season: int
):
    monkeypatch.setattr("forecast.data.stored_values.BYTES_AT_ONCE", stretch)
    monkeypatch.setattr("forecast.evaluation.naive_mae.ROWS_AT_ONCE", 1 + stretch % 1000)
    memory, disk = both(file, store, season=season)
    torch.testing.assert_close(disk.scaler.center, memory.scaler.center, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(disk.scaler.scale, memory.scaler.scale, rtol=1e-12, atol=1e-12)
    mine, its = FittedBaselines.fit(disk), FittedBaselines.fit(memory)
    torch.testing.assert_close(mine.naive_mae, its.naive_mae)
    torch.testing.assert_close(mine.linear.own, its.linear.own, rtol=0, atol=1e-5)


def test_constant_columns_are_named_once(tmp_path: Path):
    frame = numbers(300).assign(flat=3.0)
    frame.to_csv(tmp_path / "a.csv", index=False)
    store = write_store(tmp_path / "a.store", read_table(tmp_path / "a.csv"))
    for scaler in ("standard", "minmax", "robust"):
        with pytest.warns(UserWarning, match="scaled by 1: flat") as told:
            _, disk = both(tmp_path / "a.csv", store, scaler=scaler)
        assert len(told) == 2  # one of each
        assert disk.scaler.scale[0, 3] == 1


@given(st.integers(1, 10**9), st.integers(1, 10**5), st.integers(1, 9000))
def test_a_stride_leaves_few_windows_and_meets_every_hour(windows: int, most: int, season: int):
    stride = spread_stride(windows, most, season)
    assert -(-windows // stride) <= most
    if windows <= most:
        assert stride == 1
    else:
        assert gcd(stride, season) == gcd(stride, 24 * 7) == 1
        assert stride <= 2 * (-(-windows // most)) + 60


def test_evaluation_of_a_large_store_is_spread(file: Path, store: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("forecast.data.window_starts.EVALUATED_WINDOWS", 20)
    memory, disk = both(file, store)[0], store_data(path=store, **SIZES, eval_stride=None)
    disk.setup()
    assert memory.n_windows["test"] == 95
    assert (disk.eval_stride, disk.n_windows["test"]) == (11, 9)
    assert disk.n_windows["train"] == memory.n_windows["train"]
    every = store_data(path=store, **SIZES, eval_stride=1)
    every.setup()
    assert every.n_windows == memory.n_windows


def test_a_part_and_the_whole_in_memory(file: Path, store: Path, monkeypatch: pytest.MonkeyPatch):
    table, disk = read_table(file), open_store(store)
    assert disk.is_on_disk
    assert is_store(store)
    assert not is_store(file)
    assert np.array_equal(disk.values[:], table.values)
    assert disk.grid.equals(table.grid)
    part = disk.take_rows(*(np.array([row]) for row in (0, 470, 500, 490)))
    assert part.grid.equals(table.grid[470:500])
    assert np.array_equal(part.values[:20], table.values[470:490])
    assert np.isnan(part.values[20:]).all()
    chosen = disk.select_columns(["wind", "load"])
    assert np.array_equal(chosen.values[5:9], table.select_columns(["wind", "load"]).values[5:9])
    check_fits_memory(disk)
    monkeypatch.setattr("forecast.data.store.format.available", lambda: 1000)
    with pytest.raises(DataError, match=r"needs the whole table in memory, about 0\.0 GiB"):
        check_fits_memory(disk)


def describe(change: Callable[[dict], object]) -> Callable[[Path], object]:
    def spoil(store: Path) -> None:
        about = json.loads((store / "store.json").read_text())
        change(about)
        (store / "store.json").write_text(json.dumps(about))

    return spoil


def cut(name: str, size: int) -> Callable[[Path], object]:
    def spoil(store: Path) -> None:
        raw = (store / name).read_bytes()
        (store / name).write_bytes(raw[:size] if size < 0 else raw + b"\0" * size)

    return spoil


def save(name: str, array: np.ndarray) -> Callable[[Path], object]:
    return lambda store: np.save(store / name, array, allow_pickle=True)


class Hostile:
    def __reduce__(self):
        return (open, ("HOSTILE", "w"))


DATES = np.datetime64("2021-03-01", "us") + np.timedelta64(1, "h") * np.arange(500)

DAMAGE = {
    "truncated values": (cut("values.npy", -1), r"values\.npy has 12,127 bytes and should have 12,128"),
    "truncated dates": (cut("dates.npy", -8), r"dates\.npy has 4,120 bytes"),
    "longer values": (cut("values.npy", 24), r"values\.npy has 12,152 bytes"),
    "header only": (cut("values.npy", -12_010), r"values\.npy is no NumPy array"),
    "missing values": (lambda s: (s / "values.npy").unlink(), r"values\.npy is missing"),
    "missing dates": (lambda s: (s / "dates.npy").unlink(), r"dates\.npy is missing"),
    "a folder": (lambda s: ((s / "dates.npy").unlink(), (s / "dates.npy").mkdir()), r"dates\.npy is missing"),
    "fewer rows": (describe(lambda a: a.update(rows=499)), r"holds float64 \(500, 3\), and store\.json says"),
    "no rows": (describe(lambda a: a.update(rows=0)), r"its columns, ranges and counts do not match"),
    "true rows": (describe(lambda a: a.update(rows=True)), r"rows is missing or has the wrong type"),
    "a column less": (describe(lambda a: a["columns"].pop()), r"its columns, ranges and counts do not match"),
    "a name twice": (describe(lambda a: a["columns"].__setitem__(0, "wind")), r"a name of their own"),
    "no text": (describe(lambda a: a["columns"].__setitem__(0, 3)), r"a name of their own"),
    "another step": (describe(lambda a: a.update(freq="30min")), r"no rows every '30min'"),
    "no step": (describe(lambda a: a.update(freq="soon")), r"no rows every 'soon'"),
    "another end": (describe(lambda a: a.update(last_date="2030-01-01")), r"runs from 2021-03-01 00:00:00 to"),
    "no range": (describe(lambda a: a["minimum"].__setitem__(0, None)), r"its columns, ranges and counts do not match"),
    "other version": (describe(lambda a: a.update(version=2)), r"has version '2', and 1 is read here"),
    "other kind": (describe(lambda a: a.update(kind="x")), r"does not describe a store"),
    "no JSON": (lambda s: (s / "store.json").write_text("{"), r"store\.json is no JSON"),
    "no text at all": (lambda s: (s / "store.json").write_bytes(b"\xff\xfe"), r"store\.json is no JSON"),
    "deep JSON": (lambda s: (s / "store.json").write_text("[" * 10**5), r"store\.json is no JSON"),
    "a list": (lambda s: (s / "store.json").write_text("[]"), r"does not describe a store"),
    "whole numbers": (save("values.npy", np.ones((500, 3), int)), r"values\.npy holds int64 \(500, 3\)"),
    "columns first": (save("values.npy", np.ones((3, 500)).T), r"values\.npy holds float64 \(500, 3\)"),
    "big-endian": (save("values.npy", np.ones((500, 3), ">f8")), r"values\.npy holds >f8"),
    "a pickle": (save("values.npy", np.full((500, 3), Hostile())), r"values\.npy holds object"),
    "only a pickle": (lambda s: (s / "values.npy").write_bytes(pickle.dumps(Hostile())), r"is no NumPy array"),
    "dates in days": (save("dates.npy", DATES.astype("M8[D]")), r"dates\.npy holds datetime64\[D\]"),
    "shuffled dates": (save("dates.npy", DATES[::-1].copy()), r"dates\.npy runs from"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_store_is_refused(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
):
    monkeypatch.chdir(tmp_path)
    spoil, message = DAMAGE[damage]
    copy = tmp_path / "a.store"
    shutil.copytree(store, copy)
    spoil(copy)
    with pytest.raises(DataError, match=message) as refused:
        open_store(copy)
    assert str(refused.value).startswith(f"{copy}: ")
    assert str(refused.value).endswith("the store is damaged; convert again")
    assert not (tmp_path / "HOSTILE").exists()


def test_numbers_that_are_none_are_found_before_training(store: Path, tmp_path: Path):
    shutil.copytree(store, tmp_path / "a.store")
    values = np.lib.format.open_memmap(tmp_path / "a.store" / "values.npy")
    values[44, 1] = np.nan
    values.flush()
    with pytest.raises(DataError, match="a number is not finite: the store is damaged"):
        store_data(path=tmp_path / "a.store", **SIZES).setup()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"path": None}, ConfigError, "data=store needs data.path=FOLDER"),
        ({"path": "nowhere"}, DataError, "nowhere: no such store: make one by python -m forecast.convert"),
        ({"columns": ["snow"]}, DataError, "no column 'snow'"),
        ({"columns": []}, ConfigError, "must name columns, each once"),
        ({"columns": ["load", "load"]}, ConfigError, "column 'load' is named twice"),
        (
            {"past_covariates": ["wind"], "future_covariates": ["wind"]},
            ConfigError,
            "column 'wind' is named twice",
        ),
        ({"future_covariates": ["snow"]}, DataError, "no column 'snow'"),
        ({"eval_stride": 0}, ConfigError, "data.eval_stride=0"),
        ({"scaler": "none", "pred_len": 60}, DataError, "the val split needs 60 rows .* there are 50"),
    ],
)
def test_impossible_options_are_refused(store: Path, options: dict, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        store_data(**{"path": store, **SIZES, **options}).setup()


def test_numbers_that_float32_cannot_hold_once_scaled(tmp_path: Path):
    frame = numbers(500)
    frame["price"] *= 1e200
    frame.to_csv(tmp_path / "a.csv", index=False)
    store = write_store(tmp_path / "a.store", read_table(tmp_path / "a.csv"))
    with pytest.raises(DataError, match="column 'price' has numbers too large"):
        store_data(path=store, **SIZES, scaler="none").setup()


def test_nothing_is_written_to_a_store(store: Path):
    before = {name: (store / name).read_bytes() for name in PARTS}
    table = open_store(store)
    assert isinstance(table.values, StoredValues)
    assert not table.values.mapped.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        table.values.mapped[0, 0] = 1
    data = store_data(path=store, **SIZES)
    data.setup()
    data.windows["train"].gather(torch.arange(5)).past.zero_()
    assert before == {name: (store / name).read_bytes() for name in PARTS}
