"""A store on disk has the windows of the file that it was made from, of one series or many."""

import pickle
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import DataModule, csv_data, long_data, read_table, store_data
from forecast.data.files.sources import LongSource
from forecast.data.row_ranges import StoredValues
from forecast.data.step_features import carry_into
from forecast.data.store import PARTS, open_store
from forecast.evaluation.baselines import FittedBaselines
from forecast.system.errors import DataError
from tests.support.csv_files import numbers
from tests.support.long_files import long_frame
from tests.support.stores import write_store
from tests.support.windows import set_up

SIZES = {"name": "mine", "seq_len": 6, "pred_len": 3, "split": [0.7, 0.1, 0.2]}
TABLE = {**SIZES, "seq_len": 20, "pred_len": 6}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "a.csv"
    numbers(500).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def store(file: Path) -> Path:
    return write_store(file.with_name("a.store"), read_table(file))


def both_tables(file: Path, store: Path, **options) -> tuple[DataModule, DataModule]:
    return set_up(csv_data(path=file, **TABLE | options)), set_up(store_data(path=store, **TABLE | options))


@pytest.mark.parametrize(("as_of", "known"), [(None, None), ({"price": "told"}, {"price": 4})])
def test_missing_future_covariates(tmp_path: Path, monkeypatch, as_of: dict | None, known: int | dict | None) -> None:
    """A missing value is the one before it, also where that lies before the window."""
    monkeypatch.setattr("forecast.data.row_ranges._FEWEST", 2)
    random, frame = (np.random.default_rng(3), numbers(500).assign(told=np.random.default_rng(4).normal(size=500)))
    frame[["price", "told"]] = frame[["price", "told"]].mask(random.random((500, 2)) < 0.3)
    for column, empty in {
        "price": [*range(20), *range(405, 470)],
        "told": range(300, 440),
        "load": range(497, 500),
    }.items():
        frame.loc[list(empty), column] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False)
    store = write_store(tmp_path / "a.store", read_table(tmp_path / "a.csv"))
    roles = {"columns": ["load"], "future_covariates": ["price", "wind"], "as_of": as_of, "known_steps": known}
    memory, disk = both_tables(tmp_path / "a.csv", store, **roles)
    assert disk.panel.missing_future.tolist() == memory.panel.missing_future.tolist()
    assert disk.panel.missing_future[0] > 100
    assert disk.scaled.time.n_features == memory.scaled.time.n_features
    disk = disk.with_state(memory.state_dict())
    for split, windows in memory.windows.items():
        index = torch.randperm(len(windows))
        assert all(map(torch.equal, disk.windows[split].gather(index), windows.gather(index)))
    first, stop = np.array([450]), np.array([480])
    parts = [
        carry_into(panel.take_rows(np.array([0]), first, stop, stop), panel, np.array([0]), first)
        for panel in (memory.panel, disk.panel)
    ]
    assert parts[0].future is not None
    assert parts[1].future is not None
    np.testing.assert_array_equal(parts[1].future, parts[0].future)
    assert parts[0].future[0, 0] == frame["price"].ffill()[450]


class Hostile:
    def __reduce__(self):
        return (open, ("HOSTILE", "w"))


def test_a_pickle_in_a_store_runs_no_code(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(store, tmp_path / "a.store")
    values = tmp_path / "a.store" / "values.npy"
    for bare in (True, False):
        if bare:
            values.write_bytes(pickle.dumps(Hostile()))
        else:
            np.save(values, np.full((500, 3), Hostile()), allow_pickle=True)
        with pytest.raises(DataError):
            open_store(tmp_path / "a.store")
        assert not (tmp_path / "HOSTILE").exists()


def test_what_is_taken_from_the_training_rows_in_parts(file: Path, store: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("forecast.data.row_ranges.BYTES_AT_ONCE", 500)
    monkeypatch.setattr("forecast.evaluation.errors.ROWS_AT_ONCE", 300)
    memory, disk = both_tables(file, store, season=300)
    torch.testing.assert_close(disk.scaler.center, memory.scaler.center, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(disk.scaler.scale, memory.scaler.scale, rtol=1e-12, atol=1e-12)
    mine, its = FittedBaselines.fit(disk), FittedBaselines.fit(memory)
    torch.testing.assert_close(mine.naive_mae, its.naive_mae)
    torch.testing.assert_close(mine.linear.past_weight, its.linear.past_weight, rtol=0, atol=1e-5)


def test_nothing_is_written_to_a_store(store: Path):
    before = {name: (store / name).read_bytes() for name in PARTS}
    table = open_store(store)
    assert isinstance(table.values, StoredValues)
    assert not table.values.mapped.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        table.values.mapped[0, 0] = 1
    data = set_up(store_data(path=store, **TABLE))
    data.windows["train"].gather(torch.arange(5)).past.zero_()
    assert before == {name: (store / name).read_bytes() for name in PARTS}


# ---- many series

NUMBERS = ["y", "temperature", "price"]


def frame_of(future: int = 0, gaps: bool = False) -> pd.DataFrame:
    """Series with a text column; with gaps, values are missing, also at the ends of the target."""
    frame, random = long_frame(future), np.random.default_rng(2)
    frame["sky"] = random.choice(["sun", "rain", "snow"], len(frame))
    if gaps:
        frame[NUMBERS] = frame[NUMBERS].mask(random.random((len(frame), 3)) < 0.15)
        begins = frame.groupby("unique_id").cumcount()
        frame["y"] = frame["y"].mask(begins < 2)
    return frame


def both_long(folder: Path, frame: pd.DataFrame, **options: Any) -> tuple[DataModule, DataModule]:
    file, store = folder / "a.csv", folder / "a.store"
    frame.to_csv(file, index=False)
    with warnings.catch_warnings(action="ignore"):
        texts = ["region", "sky"]
        whole = LongSource(path=file, columns=[*NUMBERS, "size"], past_covariates=texts, freq="D").read()
        write_store(store, whole)
        options = {"columns": ["y"], **SIZES, **options}
        return set_up(long_data(path=file, freq="D", **options)), set_up(store_data(path=store, **options))


OPTIONS: list[dict[str, Any]] = [
    {},
    {"past_covariates": ["temperature", "sky"]},
    {"future_covariates": ["price"], "past_covariates": ["temperature"]},
    {"future_covariates": ["price", "sky"], "known_steps": {"price": 2}},
    {"future_covariates": ["price"], "as_of": {"price": "temperature"}},
    {"split": ["2024-02-05", "2024-02-15"], "eval_stride": 2},
    {"scale_by": "all"},
    {"static_covariates": ["region", "size"]},
    {"ids": ["é", "002"], "future_covariates": ["price"], "static_covariates": ["region"]},
    {"scaler": "minmax"},
    {"scaler": "robust"},
    {"transform": "asinh", "lower": -1000},
]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "options"), [*enumerate(OPTIONS)], ids=str)
def test_windows_are_those_of_the_long_file(tmp_path: Path, number: int, options: dict[str, Any]) -> None:
    gaps = number % 2 == 0
    memory, disk = both_long(tmp_path, frame_of(3 if "future_covariates" in options else 0, gaps), **options)
    assert disk.panel.is_on_disk
    assert (disk.n_windows, disk.freq, disk.season) == (memory.n_windows, memory.freq, memory.season)
    assert disk.panel.ids.equals(memory.panel.ids)
    assert disk.panel.grid.equals(memory.panel.grid)
    assert disk.panel.missing.tolist() == memory.panel.missing.tolist()
    for name in ("grid_starts", "lengths"):
        np.testing.assert_array_equal(getattr(disk.panel, name), getattr(memory.panel, name))
    torch.testing.assert_close(disk.scaler.tensors, memory.scaler.tensors, rtol=1e-9, atol=1e-9)
    states = [data.state_dict() for data in (disk, memory)]
    for key in ("ids", "has_scale", "categories", "trained_until", "validated_until", "id_column", "date_column"):
        assert states[0][key] == states[1][key]
    disk = disk.with_state(memory.state_dict())  # now the scalers are one to the bit
    for split, windows in memory.windows.items():
        index = torch.randperm(len(windows))
        found, expected = disk.windows[split].gather(index), windows.gather(index)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
