"""A store of many series on disk has the windows of the long file that it was made from."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import DataModule, long_data, store_data
from forecast.data.files.sources import LongSource
from forecast.system.errors import ForecastError
from tests.support.long_files import long_frame
from tests.support.stores import write_store

pytestmark = pytest.mark.slow

SIZES = {"name": "mine", "seq_len": 6, "pred_len": 3, "split": [0.7, 0.1, 0.2]}
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


def both(folder: Path, frame: pd.DataFrame, **options: Any) -> tuple[DataModule, DataModule]:
    """The data modules of the long file and of its store."""
    file, store = folder / "a.csv", folder / "a.store"
    frame.to_csv(file, index=False)
    with warnings.catch_warnings(action="ignore"):
        texts = ["region", "sky"]
        whole = LongSource(path=file, columns=[*NUMBERS, "size"], past_covariates=texts, freq="D").read()
        write_store(store, whole)
        options = {"columns": ["y"], **SIZES, **options}
        made = long_data(path=file, freq="D", **options), store_data(path=store, **options)
        for data in made:
            data.setup()
    return made


OPTIONS: list[dict[str, Any]] = [
    {},
    {"columns": ["y", "temperature"], "features": "MS", "target": "y"},
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
    {"scaler": "none"},
    {"transform": "asinh", "lower": -1000},
]


@pytest.mark.parametrize(("number", "options"), enumerate(OPTIONS), ids=str)
def test_windows_are_those_of_the_long_file(tmp_path: Path, number: int, options: dict[str, Any]) -> None:
    gaps = number % 2 == 0
    memory, disk = both(tmp_path, frame_of(3 if "future_covariates" in options else 0, gaps), **options)
    assert disk.panel.is_on_disk
    assert (disk.n_windows, disk.freq, disk.season) == (memory.n_windows, memory.freq, memory.season)
    assert disk.panel.ids.equals(memory.panel.ids)
    assert disk.panel.grid.equals(memory.panel.grid)
    assert disk.panel.missing.tolist() == memory.panel.missing.tolist()
    for name in ("grid_starts", "lengths"):
        np.testing.assert_array_equal(getattr(disk.panel, name), getattr(memory.panel, name))
    for one, other in zip(disk.scaler.tensors, memory.scaler.tensors, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    states = [data.state_dict() for data in (disk, memory)]
    for key in (
        "ids",
        "has_scale",
        "categories",
        "trained_until",
        "validated_until",
        "id_column",
        "date_column",
    ):
        assert states[0][key] == states[1][key]
    disk = disk.with_state(memory.state_dict())  # now the scalers are one to the bit
    for split, windows in memory.windows.items():
        index = torch.randperm(len(windows))
        for mine, its in zip(disk.windows[split].gather(index), windows.gather(index), strict=True):
            torch.testing.assert_close(mine, its, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"static_covariates": ["sky"]},
            r"a.store: series 'a': column 'sky' changes: a static",
        ),
        (
            {"columns": ["empty"]},
            r"a.store: no value of series '002' of empty: choose other columns or series \(data.columns, data.ids\)",
        ),
    ],
)
def test_what_cannot_be_read_as_asked(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    frame = frame_of().assign(empty=lambda f: f["size"].where(f["unique_id"] != "002"))
    frame.to_csv(tmp_path / "a.csv", index=False)
    columns: dict[str, Any] = {"columns": ["y", "size", "empty"], "past_covariates": ["sky"]}
    write_store(tmp_path / "a.store", LongSource(path=tmp_path / "a.csv", **columns).read())
    with pytest.raises(ForecastError, match=message):
        store_data(path=tmp_path / "a.store", **{**SIZES, "columns": ["y"], **options}).setup()
