"""The columns of the rows that a model reads, by the names that its training data had."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from forecast.data.categories import columns_of_indicators
from forecast.data.files.series_ids import list_id_columns, name_ids
from forecast.data.files.table_source import TableSource
from forecast.data.utc_offset import utc_offset_of
from forecast.inference.forecasters import PointForecaster, find_unread_columns
from forecast.inference.model import TrainedModel
from forecast.inference.model_data import FRAME, name_keys

DATA_STATE = ("utc_offset", "timezone", "day_first", "stamp", "categories")
"""Entries of the state of the data module that reading needs."""


def describe_model(name: str, model: TrainedModel) -> dict[str, Any]:
    """The inputs and outputs of a model, as JSON values."""
    return {
        "name": name,
        "attention": model.config["model"]["attention"]["name"],
        "targets": model.target_columns,
        "columns": value_columns(model, model.feature_columns),
        "future_covariates": value_columns(model, model.data_state["future_covariates"]),
        "static_covariates": list(model.data_state["static"]),
        "date_column": date_column(model),
        "id_column": id_column(model),
        "series": len(model.data_state["ids"]),
        "freq": model.freq,
        "seq_len": model.seq_len,
        "pred_len": model.pred_len,
        "levels": list(model.config["levels"]),
        "trained_until": utc_offset_of(model.data_state).describe(model.trained_until),
        "refitted": model.refitted is not None,
        "test_mse": model.test.mse if model.test else None,
    }


def id_column(model: TrainedModel) -> str | None:
    """The name of the column that holds the ids of the series; None: a single series without an id."""
    return name_ids(list_id_columns(name_keys(model.config["data"], model.data_state)["id_column"]))


def date_column(model: TrainedModel) -> str:
    """The name of the column that holds the dates."""
    return model.data_state.get("date_column") or "date"


def value_columns(model: TrainedModel, names: Sequence[str]) -> list[str]:
    """These columns of the model, with the column of each category instead of its indicators."""
    column_of = columns_of_indicators(model.categories)
    return list(dict.fromkeys(column_of.get(name, name) for name in names))


def reading_settings(forecaster: PointForecaster) -> dict[str, Any]:
    """The settings that read the rows of a request, as JSON values; see `RequestReader.of_settings`."""
    model = forecaster.model
    config = model.data_config({"path": FRAME})
    options = {option.name: config[option.name] for option in fields(TableSource) if option.name in config}
    keys = name_keys(model.config["data"], model.data_state)
    return {
        "options": {**options, **keys, "date_column": date_column(model)},
        "unread": sorted(find_unread_columns([forecaster])),
        "data_state": {"categories": {}}
        | {key: model.data_state[key] for key in DATA_STATE if key in model.data_state},
    }
