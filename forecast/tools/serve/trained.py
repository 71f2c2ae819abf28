"""A trained model in the server, by PyTorch: its forecasts, its description, an example, and its export as a graph."""

import json
import math
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from forecast.data.calendars import utc_offset_of
from forecast.data.covariates import columns_of_indicators
from forecast.data.files.columns import list_id_columns, name_ids
from forecast.data.files.sources import TableSource
from forecast.data.scaler import Scaler
from forecast.evaluation.scores import CONFORMAL, QUANTILE, bounds
from forecast.inference.forecast import FAR, Forecast
from forecast.inference.forecasters import PointForecaster, choose_forecaster, find_unread_columns
from forecast.inference.future_covariates import UnknownFuture
from forecast.inference.model import TrainedModel, load
from forecast.inference.model_data import FRAME, name_keys
from forecast.inference.predict import predict
from forecast.system.errors import DataError
from forecast.system.files import atomic_file
from forecast.tools.export.graph import ForecastGraph, trace_forecast, write_onnx
from forecast.tools.export.metadata import describe_export
from forecast.tools.serve.graph import GraphEngine, facts_file, file_state, graph_file
from forecast.tools.serve.request import ForecastRequest, RequestReader, read_request

DATA_STATE = ("utc_offset", "timezone", "day_first", "stamp", "categories")
"""Entries of the state of the data module that reading needs."""

TOLERANCE = 1e-3  # largest accepted difference from PyTorch on the example, in scaled units


class TorchEngine:
    """Forecasts by PyTorch, for every request.

    `description`, `example`: JSON of the answers to other requests.
    """

    def __init__(self, name: str, model: TrainedModel) -> None:
        self.model = model
        self.description = describe_model(name, model)
        self.example = make_example(model)
        self.forecaster = choose_forecaster(model)
        self.reader = RequestReader.of_settings(reading_settings(self.forecaster))

    def forecast(self, request: ForecastRequest, max_rows: int) -> Forecast:
        """Forecast the series in the rows of a request. Raises ForecastError if the request is wrong."""
        panel = self.reader.read(request, max_rows)
        levels = self.model.config["levels"] if request.levels is None else request.levels
        try:
            return predict(self.forecaster, panel, horizon=request.horizon, levels=levels)
        except UnknownFuture as error:
            raise DataError(f"future: {error.problem}") from None


def describe_model(name: str, model: TrainedModel) -> dict[str, Any]:
    """The inputs and outputs of a model, as JSON values."""
    return {
        "name": name,
        "attention": model.config["model"]["attention"]["name"],
        "targets": model.target_columns,
        "columns": model.name_columns(model.feature_columns),
        "future_covariates": model.name_columns(model.data_state["future_covariates"]),
        "static_covariates": list(model.data_state["static"]),
        "date_column": model.date_column,
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


def reading_settings(forecaster: PointForecaster) -> dict[str, Any]:
    """The settings that read the rows of a request, as JSON values; see `RequestReader.of_settings`."""
    model = forecaster.model
    config = model.data_config({"path": FRAME})
    options = {option.name: config[option.name] for option in fields(TableSource) if option.name in config}
    keys = name_keys(model.config["data"], model.data_state)
    return {
        "options": {**options, **keys, "date_column": model.date_column},
        "unread": sorted(find_unread_columns([forecaster])),
        "data_state": {key: model.data_state[key] for key in DATA_STATE},
    }


def example_series(model: TrainedModel) -> int:
    """The number of the series of the example: the first one that has a scale."""
    return int(np.argmax(model.data_state["has_scale"]))


def make_example(model: TrainedModel) -> dict[str, Any]:
    """The fields of a request of `seq_len` made-up rows of one series, up to the end of the training rows.

    They have the scale of the training data and a daily or yearly season.
    """
    steps = model.seq_len + model.pred_len
    dates = make_dates(model, steps)
    keys: dict[str, list[Any]] = {model.date_column: [date.isoformat() for date in dates]}
    if (ids := id_column(model)) is not None:
        keys[ids] = [model.data_state["ids"][example_series(model)]] * steps
    wave = torch.sin(2 * math.pi * torch.arange(steps) / max(model.season, 2))
    targets = make_columns(model, model.scaler, model.feature_columns, wave)
    state = model.data_state
    future = make_columns(model, Scaler.from_state_dict(state["future_scaler"]), state["future_covariates"], wave)
    static = {name: [how.get("texts", [how.get("mean")])[0]] * steps for name, how in state["static"].items()}
    future |= {column: future[name] for name, column in state["as_of"].items()}
    rows = {**keys, **targets, **future, **static}
    request: dict[str, Any] = {"rows": {name: cells[: model.seq_len] for name, cells in rows.items()}}
    if future:
        rows = {**keys, **future}
        request["future"] = {name: cells[model.seq_len :] for name, cells in rows.items()}
    return {**request, "levels": [80] if model.calibration else []}


def make_dates(model: TrainedModel, steps: int) -> pd.DatetimeIndex:
    """Dates at the step of the training data, of which `pred_len` follow its end, as its file has them.

    Those of days have no time zone.
    """
    last = pd.Timestamp(model.trained_until)
    first = pd.date_range(end=last, periods=model.seq_len, freq=model.freq)[0]
    dates = pd.date_range(first, periods=steps, freq=model.freq)
    utc_offset = utc_offset_of(model.data_state)
    return utc_offset.shown(dates) if utc_offset.minutes is None else utc_offset.zoned(dates)


def make_columns(model: TrainedModel, scaler: Scaler, names: list[str], wave: torch.Tensor) -> dict[str, list[Any]]:
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


def export_model(name: str, checkpoint: Path) -> None:
    """Write the graph and the facts of a model beside its checkpoint, or the reason why it has none.

    Raises:
        OSError: the files cannot be written.
        CheckpointError: the checkpoint cannot be read.
    """
    state, model = file_state(checkpoint), load(checkpoint)
    facts: dict[str, Any] = {"checkpoint": state, "obstacle": find_obstacle(model)}
    if not facts["obstacle"]:
        engine = TorchEngine(name, model)
        facts |= collect_facts(engine)
        facts["obstacle"] = write_graph(engine, checkpoint, facts)
    if not facts["obstacle"]:
        facts["graph"] = file_state(graph_file(checkpoint))
    content = {key: facts[key] for key in ("checkpoint", "obstacle")} if facts["obstacle"] else facts
    with atomic_file(facts_file(checkpoint)) as file:
        file.write_text(json.dumps(content))  # with Infinity, which Python reads


def find_obstacle(model: TrainedModel) -> str:
    """Why a model cannot be answered by a graph; empty if it can."""
    data = model.data_state
    if data["as_of"]:
        return "it reads covariates as of an earlier date (data.as_of)"
    if any(steps is not None for steps in data["known_steps"]):
        return "it reads covariates that are known for some steps only (data.known_steps)"
    return ""


def collect_facts(engine: TorchEngine) -> dict[str, Any]:
    """What `GraphEngine` needs beside the graph, such as its metadata `about`, as JSON values.

    `levels` are those of the intervals of the run, in percent; see `list_limits` and `list_quantiles`.
    """
    model = engine.model
    forecaster, domain = choose_forecaster(model), model.scaler.domain
    return {
        "about": describe_export(model),
        "reading": reading_settings(forecaster),
        "forecaster": asdict(forecaster.facts()),
        "static": model.data_state["static"],
        "domain": [domain.transforms, domain.lower, domain.upper],
        "limits": list_limits(model),
        "levels": list(model.config["levels"]),
        "quantiles": list_quantiles(model),
        "method": QUANTILE if model.quantiles else CONFORMAL,
        "description": engine.description,
        "example": engine.example,
    }


def list_limits(model: TrainedModel) -> list[list[list[float]]]:
    """The lowest and the highest usual value of each series with a scale, and of each column and future covariate."""
    state, has_scale = model.data_state, model.data_state["has_scale"]
    scalers = model.scaler, Scaler.from_state_dict(state["future_scaler"])
    return [
        np.concatenate([scaler.unscale(scaled)[has_scale] for scaler in scalers], axis=1).tolist()
        for scaled in FAR[model.config["data"]["scaler"]]
    ]


def list_quantiles(model: TrainedModel) -> list[float | None]:
    """Probabilities of the quantiles of the graph; None for those that too few validation windows calibrate."""
    if model.quantiles is not None:
        return list(model.quantiles)
    if model.calibration is None:
        return []
    supports = model.calibration.supports
    return [p if supports(100 - 200 * min(p, 1 - p)) else None for p in model.calibration.quantiles]


def write_graph(engine: TorchEngine, checkpoint: Path, facts: dict[str, Any]) -> str:
    """Write the graph, and compare its forecast of the example with that of PyTorch.

    Returns why the graph cannot be used; empty if it can.
    """
    try:
        program = trace_forecast(ForecastGraph(engine.model), facts["about"]["inputs"])
        with atomic_file(graph_file(checkpoint)) as file:
            write_onnx(program, file, {"outputs": facts["about"]["outputs"]})
        difference = compare_on_example(engine, checkpoint, facts)
    except OSError:
        raise
    except Exception as error:  # PyTorch and ONNX Runtime raise errors of many kinds
        return f"it cannot be exported ({type(error).__name__}: {str(error).splitlines()[0][:200]})"
    if not difference <= TOLERANCE:
        return f"the graph differs from PyTorch by {difference:.2g} in scaled units"
    return ""


def compare_on_example(engine: TorchEngine, checkpoint: Path, facts: dict[str, Any]) -> float:
    """The largest difference of the forecast and its bounds from PyTorch, in scaled units.

    NaN if a value is not a number. Raises NeedsTorch if the graph does not forecast the example.
    """
    served = set(facts["quantiles"])
    levels = [level for level in facts["levels"] if set(bounds(level)) <= served]
    request = read_request(json.dumps(engine.example | {"levels": levels}).encode())
    graph = GraphEngine(checkpoint, json.loads(json.dumps(facts)))
    scaled = []
    for found in (each.forecast(request, engine.model.seq_len) for each in (graph, engine)):
        values = torch.from_numpy(np.concatenate([found.values, *found.low.values(), *found.high.values()]))
        scaled.append(engine.model.target_scaler.transform(values, example_series(engine.model)))
    return float((scaled[0] - scaled[1]).abs().max())
