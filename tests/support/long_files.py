"""Long tables of several series, and their windows cut by pandas as a reference."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from forecast.data import DataModule, frame_data

SEQ_LEN, PRED_LEN = 6, 3
COLUMNS = {"id_column": "unique_id", "date_column": "ds", "target": "y"}
LENGTHS = {"a": 40, "002": 55, "c d": 47, "é": 60}


def long_frame_data(frame: pd.DataFrame, **options: Any) -> DataModule:
    return frame_data(frame, **{**COLUMNS, **options})


def long_frame(future: int = 0) -> pd.DataFrame:
    """Daily series of several lengths and first dates. The y and temperature of the last `future` rows are empty."""
    random, parts = np.random.default_rng(1), []
    for number, (name, length) in enumerate(LENGTHS.items()):
        rows = length + future
        dates = pd.date_range("2024-01-01", periods=rows, freq="D") + pd.Timedelta(days=5 * number)
        frame = pd.DataFrame({
            "unique_id": name, "ds": dates, "y": 100 * number + random.normal(size=rows).cumsum(),
            "temperature": random.normal(10, 4, rows), "price": random.uniform(1, 9, rows),
            "region": ["north", "south"][number % 2], "size": 10.0 * number,
        })  # fmt: skip
        frame.loc[length:, ["y", "temperature"]] = np.nan
        parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def by_hand(
    frame: pd.DataFrame, split: str, features: list[str], targets: list[str], known: list[str]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str, pd.Timestamp]]:
    """Yield every window of a split of 7:1:2, series by series.

    Past, its future covariates, future, its future covariates, id of the series, first date of the forecast.
    """
    for name in frame["unique_id"].unique():
        one = frame[frame["unique_id"] == name].reset_index(drop=True)
        length = int(np.flatnonzero(one["y"].notna())[-1]) + 1
        train, test = int(0.7 * length), length - int(0.2 * length)
        first, last = {"train": (0, train), "val": (train, test), "test": (test, length)}[split]
        scaled = one.copy()
        for column in {*features, *known}:
            rows = one[column][:train]
            scaled[column] = (one[column] - rows.mean()) / rows.std(ddof=0)
        begin = first + SEQ_LEN if split == "train" else first
        read, told, ahead = (scaled[columns].to_numpy() for columns in (features, known, targets))
        dates = list(one["ds"])
        for origin in range(begin, last - PRED_LEN + 1):
            past, future = slice(origin - SEQ_LEN, origin), slice(origin, origin + PRED_LEN)
            yield read[past], told[past], ahead[future], told[future], name, dates[origin]
