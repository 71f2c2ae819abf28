"""The columns of the rows that a model reads, by the names that its training data had."""

from collections.abc import Sequence
from typing import Any

from forecast.data.categories import columns_of_indicators
from forecast.inference.data_config import name_keys
from forecast.inference.model import TrainedModel


def describe_model(name: str, model: TrainedModel) -> dict[str, Any]:
    """What a model reads and what it forecasts, in values that JSON can hold."""
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
        "trained_until": model.trained_until,
        "refitted": model.refitted is not None,
        "test_mse": model.test.mse if model.test else None,
    }


def id_column(model: TrainedModel) -> str | None:
    """The name of the column that holds the ids of the series; None: a single series without an id."""
    return name_keys(model.config["data"], model.data_state)["id_column"]


def date_column(model: TrainedModel) -> str:
    """The name of the column that holds the dates."""
    return model.data_state.get("date_column") or "date"


def value_columns(model: TrainedModel, names: Sequence[str]) -> list[str]:
    """These columns of the model, with the column of each category instead of its indicators."""
    column_of = columns_of_indicators(model.categories)
    return list(dict.fromkeys(column_of.get(name, name) for name in names))
