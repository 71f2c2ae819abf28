"""Stores that are refused, with the text of each message, and warnings."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data import read_table, store_data
from forecast.data.store import check_fits_memory, open_store
from forecast.system.errors import ConfigError, DataError
from tests.support.csv_files import numbers, write
from tests.support.refusals import Refusal, describe_options
from tests.support.stores import write_store

SIZES = {"name": "mine", "seq_len": 20, "pred_len": 6, "split": [0.7, 0.1, 0.2]}
HOURS = np.datetime64("2021-03-01", "us") + np.timedelta64(1, "h") * np.arange(500)


def a_store(folder: Path, frame: pd.DataFrame | None = None) -> Path:
    """Write a store of 500 hours of load, price and wind, or of this table."""
    text = (numbers(500) if frame is None else frame).to_csv(index=False)
    return write_store(folder / "a.store", read_table(write(folder, text)))


def damaged(what: str, says: str, spoil: Callable[[Path], object]) -> Refusal:
    def call(folder: Path) -> None:
        store = a_store(folder)
        spoil(store)
        open_store(store)

    says = f"a.store: {says}: the store is damaged or of another version: convert again"
    return Refusal(what, says, DataError, call)


def option(says: str, kind: type[Exception] = ConfigError, **options: Any) -> Refusal:
    """Options with which a good store is refused."""

    def call(folder: Path) -> None:
        store_data(**{"path": a_store(folder), **SIZES, **options}).setup()

    return Refusal(describe_options(options), says, kind, call)


def describe(change: Callable[[dict], object]) -> Callable[[Path], object]:
    """Change the description of the store."""

    def spoil(store: Path) -> None:
        about = json.loads((store / "store.json").read_text())
        change(about)
        (store / "store.json").write_text(json.dumps(about))

    return spoil


def resize(name: str, size: int) -> Callable[[Path], object]:
    """Append zero bytes to a part of the store, or cut bytes off."""

    def spoil(store: Path) -> None:
        raw = (store / name).read_bytes()
        (store / name).write_bytes(raw[:size] if size < 0 else raw + b"\0" * size)

    return spoil


def replace(name: str, content: np.ndarray | bytes | str | None) -> Callable[[Path], object]:
    """Replace a part of the store; None deletes it."""

    def spoil(store: Path) -> None:
        (store / name).unlink()
        if isinstance(content, np.ndarray):
            np.save(store / name, content, allow_pickle=True)
        elif content is not None:
            (store / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return spoil


def text_target(folder: Path) -> None:
    table = read_table(
        write(folder, numbers(500).assign(wind="a").to_csv(index=False)), past_covariates=["wind"]
    )
    store_data(path=write_store(folder / "a.store", table), **SIZES).setup()


def little_memory(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forecast.data.store.available", lambda: 1000)
        check_fits_memory(open_store(a_store(folder)))


DESCRIPTION = "store.json describes no store in version 2 of the format"
VALUES, DATES = (
    "values.npy is missing, truncated or no array of 500 × 3",
    "dates.npy is missing, truncated or no array of 500",
)
DAMAGED = [
    damaged("truncated values", VALUES, resize("values.npy", -1)),
    damaged("no dates", DATES, replace("dates.npy", None)),
    damaged("a pickle", VALUES, replace("values.npy", np.full((500, 3), Path()))),
    damaged("shuffled dates", "dates.npy has other dates than store.json", replace("dates.npy", HOURS[::-1].copy())),
    damaged("another end", "dates.npy has other dates than store.json", describe(lambda a: a.update(first_dates=["2030-01-01"]))),
    damaged("other version", DESCRIPTION, describe(lambda a: a.update(version=1))),
    damaged("a name twice", DESCRIPTION, describe(lambda a: a["columns"].__setitem__(0, "wind"))),
    damaged("one series twice", DESCRIPTION, describe(lambda a: a.update(ids=["", ""], lengths=[400, 100], first_dates=a["first_dates"] * 2))),
    damaged("no JSON", "store.json cannot be read", replace("store.json", "{")),
    damaged("deep JSON", "store.json cannot be read", replace("store.json", "[" * 10**5)),
]  # fmt: skip
REFUSED = [
    Refusal("too large for memory", "this needs the whole table in memory, about 0.0 GiB, and 0.0 GiB are free: give a smaller file", DataError, little_memory),
    option("data=store needs data.path=FOLDER, which python -m forecast.convert makes", path=None),
    option("nowhere: no such store: make one by python -m forecast.convert data.path=FILE", DataError, path="nowhere"),
    option("a.store: no column 'snow'; there are 'load', 'price', 'wind' (data.future_covariates)", DataError, future_covariates=["snow"]),
    Refusal("a target that is text", "a.store: column 'wind' holds text, such as 'a': leave it out (data.drop), or read it as a covariate (data.past_covariates or future_covariates)", DataError, text_target),
]  # fmt: skip


@pytest.mark.parametrize("refusal", [*DAMAGED, *REFUSED], ids=lambda refusal: refusal.what[:60])
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
