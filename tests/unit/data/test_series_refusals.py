"""Long tables of many series that are refused, and warnings, with the text of each message."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data import DataModule, long_data
from forecast.system.errors import ConfigError, DataError
from tests.support.long_files import PRED_LEN, SEQ_LEN, long_frame, long_frame_data
from tests.support.refusals import Refusal, describe_options

SIZES = {"name": "mine", "seq_len": SEQ_LEN, "pred_len": PRED_LEN, "split": [0.7, 0.1, 0.2]}
ROLES = {"future_covariates": ["price"], "static_covariates": ["region"]}


Change = Callable[[pd.DataFrame], Any]


def bad(what: str, says: str, change: Change, **options: Any) -> Refusal:
    """A changed CSV file, with two rows of future covariates after each series."""

    def call(folder: Path) -> None:
        change(long_frame(future=2)).to_csv(folder / "bad.csv", index=False)
        long_data(path=folder / "bad.csv", **{**SIZES, **ROLES, **options}).setup()

    return Refusal(what, says, DataError, call)


def frame(
    what: str, says: str, kind: type[Exception], change: Change, *, future: int = 0, **options: Any
) -> Refusal:
    """A changed DataFrame."""

    def call(folder: Path) -> None:
        with warnings.catch_warnings(action="error", category=RuntimeWarning):
            long_frame_data(change(long_frame(future)), **{**SIZES, **options}).setup()

    return Refusal(what, says, kind, call)


def option(says: str, kind: type[Exception] = ConfigError, **options: Any) -> Refusal:
    """Options with which the good DataFrame is refused."""
    return frame(describe_options(options), says, kind, lambda f: f, **options)


def known_for_other_steps(folder: Path) -> None:
    trained = long_frame_data(long_frame(), **SIZES, future_covariates=["price"], known_steps=2)
    trained.setup()
    new = long_frame_data(long_frame(), **SIZES, future_covariates=["price"], known_steps=3)
    new = new.with_state(trained.state_dict())
    new.setup()


def later(what: str, says: str, change: Change, **options: Any) -> Refusal:
    """A changed file that a checkpoint reads; it warns."""

    def call(folder: Path) -> None:
        trained = long_frame_data(long_frame(), **SIZES, **options)
        trained.setup()
        new = long_frame_data(change(long_frame()), **{**SIZES, "split": "test"}, **options)
        new = new.with_state(trained.state_dict())
        new.setup()

    return Refusal(what, says, UserWarning, call)


def put(column: str, where: object, value: object) -> Change:
    """Put a value into a column, in the rows of one series or in one row."""

    def change(table: pd.DataFrame) -> pd.DataFrame:
        rows = table["unique_id"] == where if isinstance(where, str) else table.index == where
        return table.assign(**{column: table[column].astype(object).where(~rows, value)})

    return change


def two_files(change: Change, **options: Any) -> Callable[[Path], DataModule]:
    """A file of the past, and one of the future whose rows are changed."""

    def call(folder: Path) -> DataModule:
        table = long_frame(future=2).drop(columns="temperature")
        ahead = table["y"].isna()
        table[~ahead].to_csv(folder / "a.csv", index=False)
        change(table.loc[ahead, ["unique_id", "ds", "price"]]).to_csv(folder / "future.csv", index=False)
        chosen = {"future_covariates": ["price"], "future_path": folder / "future.csv", **options}
        data = long_data(path=folder / "a.csv", **SIZES, **chosen)
        data.setup()
        return data

    return call


def with_new_series(table: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([table, table[:2].assign(unique_id="new")])


FILES = [
    bad("a row twice", "bad.csv, line 212, column 'ds': series '002', 2024-01-09 00:00:00: is in line 47 too: remove one, or set data.duplicates=first, last, mean or sum…", lambda f: pd.concat([f, f[45:46]])),
    Refusal("a new series in the future", "future.csv: 1 series not in …a.csv: 'new': leave them out", DataError, two_files(with_new_series)),
    bad("an infinite covariate", "bad.csv, line 52, column 'price': series '002', 2024-01-14 00:00:00: an infinite number: correct it, or set data.na_values=[inf,-inf]", put("price", 50, np.inf)),
    bad("a static value that changes", "bad.csv, line 7, column 'region': series 'a', 2024-01-06 00:00:00: 'east', and 'north' above: a static column does not change within a series; name it in data.past_covariates or data.future_covariates", put("region", 5, "east")),
    bad("a series without a target", "bad.csv: no value of series 'a' of y: choose other columns or series (data.columns, data.ids)", put("y", "a", None)),
]  # fmt: skip
OPTIONS = [
    option("features=S reads the target alone: leave data.past_covariates out, or set features=MS", features="S", past_covariates=["price"]),
    option("column 'y' is named twice (data.target and data.future_covariates): leave it out of data.future_covariates", future_covariates=["y"]),
    option("data.ids: there is no series '02' in the DataFrame; did you mean 002?", ids=["02"]),
    Refusal("static_path without columns", "data.static_path needs data.static_covariates: the columns to take from it", ConfigError, lambda folder: long_data(path="x.csv", **SIZES, static_path="x.csv")),
    Refusal("future_path without columns", "data.future_path needs data.future_covariates: the columns to take from it", ConfigError, lambda folder: long_data(path="x.csv", **SIZES, future_path="x.csv")),
]  # fmt: skip
WARNINGS = [
    Refusal("known for other steps than in training", "mine: future covariates price (horizon: 3 steps), where the checkpoint was trained on price (horizon: 2 steps): choose the same", DataError, known_for_other_steps),
    frame("a series off the others' grid", "the DataFrame, row 95, column 'ds': series 'c d', 2024-01-11 05:00:00: not on the other series' grid of dates, every day from 2024-01-01 00:00:00: correct the date, or give another step (freq)", DataError, lambda f: f.assign(ds=f["ds"].where(f["unique_id"] != "c d", f["ds"] + pd.Timedelta(hours=5)))),
    option("data.known_steps names y, which is no future covariate: there are price", future_covariates=["price"], known_steps={"y": 4}),
    Refusal("rows of the future twice", "future.csv: merged 2 rows with the row before, of the same date (data.duplicates=sum: sum of y; mean of price)", UserWarning, two_files(lambda f: pd.concat([f, f[:2]]), duplicates="sum")),
    later("an unknown static category", "mine: column 'region' has 'east' in 4 of 4 series, not among the categories that training knew: read as unknown", lambda f: f.assign(region="east"), static_covariates=["region"]),
    frame("a constant column of one series", "constant in the training rows, so scaled by the median scale of the other series: temperature in 1 of 4 series", UserWarning, put("temperature", "a", 0.1), past_covariates=["temperature"]),
    frame("a series too short for a window", "mine: of 4 series some have too few rows for a window: 1 train ('a'), 1 val ('a'), 1 test ('a')", UserWarning, lambda f: f[(f["unique_id"] != "a") | (f["ds"] < "2024-01-10")]),
    frame("no target in the first rows", "the DataFrame: left out 3 rows before the first value of a target", UserWarning, lambda f: f.assign(y=f["y"].where(~f.index.isin([0, 1, 40])))),
    frame("no target in the last rows", "the DataFrame: left out 12 rows after the last value of a target", UserWarning, lambda f: f.assign(temperature=f["temperature"].fillna(7.0)), past_covariates=["temperature"], future=3),
]  # fmt: skip


@pytest.mark.parametrize("refusal", [*FILES, *OPTIONS, *WARNINGS], ids=lambda refusal: refusal.what[:60])
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
