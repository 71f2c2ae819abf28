"""A request that a model can answer: made-up rows with the scale of the training data and a daily or yearly season."""

import math
from typing import Any

import numpy as np
import pandas as pd
import torch

from forecast.data.categories import columns_of_indicators
from forecast.data.scaling.scaler import Scaler
from forecast.data.time_features import date_range
from forecast.data.utc_offset import utc_offset_of
from forecast.inference.model import TrainedModel
from forecast.tools.serve.describe_model import date_column, id_column


def example_series(model: TrainedModel) -> int:
    """The number of the series of the example: the first one that has a scale."""
    return int(np.argmax(model.data_state["has_scale"]))


def make_example(model: TrainedModel) -> dict[str, Any]:
    """The fields of a request: `seq_len` rows up to the end of the training rows, of one series."""
    steps = model.seq_len + model.pred_len
    dates = make_dates(model, steps)
    keys: dict[str, list[Any]] = {date_column(model): [date.isoformat() for date in dates]}
    if (ids := id_column(model)) is not None:
        keys[ids] = [model.data_state["ids"][example_series(model)]] * steps
    wave = torch.sin(2 * math.pi * torch.arange(steps) / max(model.season, 2))
    targets = make_columns(model, model.scaler, model.feature_columns, wave)
    state = model.data_state
    future = make_columns(
        model, Scaler.from_state_dict(state["future_scaler"]), state["future_covariates"], wave
    )
    static = {name: [how.get("texts", [how.get("mean")])[0]] * steps for name, how in state["static"].items()}
    future |= {column: future[name] for name, column in state.get("as_of", {}).items()}
    request: dict[str, Any] = {"rows": take({**keys, **targets, **future, **static}, 0, model.seq_len)}
    if future:
        request["future"] = take({**keys, **future}, model.seq_len, steps)
    return {**request, "levels": [80] if model.calibration else []}


def make_dates(model: TrainedModel, steps: int) -> pd.DatetimeIndex:
    """Dates at the step of the training data, of which `pred_len` follow its end, as its file has them.

    Those of days have no time zone.
    """
    last = pd.Timestamp(model.trained_until)
    first = date_range(end=last, periods=model.seq_len, freq=model.freq)[0]
    dates = date_range(first, periods=steps, freq=model.freq)
    utc_offset = utc_offset_of(model.data_state)
    return utc_offset.shown(dates) if utc_offset.minutes is None else utc_offset.zoned(dates)


def make_columns(
    model: TrainedModel, scaler: Scaler, names: list[str], wave: torch.Tensor
) -> dict[str, list[Any]]:
    """Values of each column: the wave in its units, or the first of its categories."""
    if not names:
        return {}
    waves = wave.double()[None, :, None].expand(1, -1, len(names))
    values = scaler.inverse(waves, example_series(model))[0].numpy()
    columns = {name: np.round(values[:, i], 4).tolist() for i, name in enumerate(names)}
    for indicator, column in columns_of_indicators(model.categories).items():
        if columns.pop(indicator, None):
            columns[column] = [model.categories[column][0]] * len(wave)
    return columns


def take(columns: dict[str, list[Any]], first: int, last: int) -> dict[str, list[Any]]:
    """The rows first … last − 1."""
    return {name: values[first:last] for name, values in columns.items()}
