"""The export of a trained model for the server: a graph for ONNX Runtime, and the facts that its answers need."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from forecast.data.scaling.scaler import Scaler
from forecast.evaluation.levels import CONFORMAL, QUANTILE, bounds
from forecast.inference.forecast import FAR
from forecast.inference.forecasters import ModelForecaster
from forecast.inference.model import TrainedModel, load
from forecast.system.files import atomic_file
from forecast.tools.export.graph import ForecastGraph, trace_forecast, write_onnx
from forecast.tools.export.metadata import describe_model as describe_export
from forecast.tools.serve.describe_model import DATA_STATE, describe_model, reading_settings
from forecast.tools.serve.example import example_series, make_example
from forecast.tools.serve.export_files import facts_file, file_state, graph_file
from forecast.tools.serve.exported_model import ExportedModel
from forecast.tools.serve.request import read_request
from forecast.tools.serve.torch_forecast import forecast_with_torch

TOLERANCE = 1e-3
"""Largest accepted difference from PyTorch on the example, in scaled units."""


def export_model(name: str, checkpoint: Path) -> None:
    """Write the graph and the facts of a model beside its checkpoint, or the reason why it has none.

    Raises:
        OSError: the files cannot be written.
        CheckpointError: the checkpoint cannot be read.
    """
    state, model = file_state(checkpoint), load(checkpoint)
    facts: dict[str, Any] = {"checkpoint": state, "obstacle": find_obstacle(model)}
    if not facts["obstacle"]:
        described = describe_export(model)
        facts |= collect_facts(name, model, described)
        facts["obstacle"] = write_graph(model, checkpoint, facts, described)
    if not facts["obstacle"]:
        facts["graph"] = file_state(graph_file(checkpoint))
    content = {key: facts[key] for key in ("checkpoint", "obstacle")} if facts["obstacle"] else facts
    with atomic_file(facts_file(checkpoint)) as file:
        file.write_text(json.dumps(content))  # with Infinity, which Python reads


def find_obstacle(model: TrainedModel) -> str:
    """Why a model cannot be answered by a graph; empty if it can."""
    data = model.data_state
    if data.get("as_of"):
        return "it reads covariates as of an earlier date (data.as_of)"
    if any(steps is not None for steps in data.get("known_steps", ())):
        return "it reads covariates that are known for some steps only (data.known_steps)"
    return ""


def collect_facts(name: str, model: TrainedModel, described: dict[str, Any]) -> dict[str, Any]:
    """The facts that an answer needs beside the graph, as JSON values; see `ExportedModel` and `GraphInputs`."""
    forecaster, data, domain = ModelForecaster(model), model.data_state, model.scaler.domain
    return {
        "reading": reading_settings(forecaster),
        "forecaster": asdict(forecaster.facts()),
        "columns": model.feature_columns,
        "targets": model.target_columns,
        "future": data["future_covariates"],
        "unread": [*described["unread_columns"], *described["unread_covariates"]],
        "seq_len": model.seq_len,
        "pred_len": model.pred_len,
        "freq": model.freq,
        "holidays": model.holidays,
        "data_state": {key: data[key] for key in DATA_STATE if key in data},
        "static": data["static"],
        "domain": [domain.transforms, domain.lower, domain.upper],
        "series": described["series"],
        "limits": list_limits(model),
        "levels": list(model.config["levels"]),
        "quantiles": list_quantiles(model),
        "method": QUANTILE if model.quantiles else CONFORMAL,
        "description": describe_model(name, model),
        "example": make_example(model),
    }


def list_limits(model: TrainedModel) -> list[list[list[float]]]:
    """The lowest and the highest usual value of each series with a scale, and of each column and future covariate."""
    state, has_scale = model.data_state, model.data_state["has_scale"]
    scalers = model.scaler, Scaler.from_state_dict(state["future_scaler"])
    return [
        np.concatenate([scaler.at(scaled)[has_scale] for scaler in scalers], axis=1).tolist()
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


def write_graph(
    model: TrainedModel, checkpoint: Path, facts: dict[str, Any], described: dict[str, Any]
) -> str:
    """Write the graph, and compare its forecast of the example with that of PyTorch.

    Returns:
        Why the graph cannot be used; empty if it can.
    """
    try:
        program = trace_forecast(ForecastGraph.of_model(model), described["inputs"])
        with atomic_file(graph_file(checkpoint)) as file:
            write_onnx(program, file, {"outputs": described["outputs"]})
        difference = compare_on_example(model, checkpoint, facts)
    except OSError:
        raise
    except Exception as error:  # PyTorch and ONNX Runtime raise errors of many kinds
        return f"it cannot be exported ({type(error).__name__}: {str(error).splitlines()[0][:200]})"
    if not difference <= TOLERANCE:
        return f"the graph differs from PyTorch by {difference:.2g} in scaled units"
    return ""


def compare_on_example(model: TrainedModel, checkpoint: Path, facts: dict[str, Any]) -> float:
    """The largest difference of the forecast and its bounds from PyTorch, in scaled units.

    NaN if a value is not a number. Raises NeedsTorch if the graph does not forecast the example.
    """
    served = set(facts["quantiles"])
    levels = [level for level in facts["levels"] if set(bounds(level)) <= served]
    request = read_request(json.dumps(facts["example"] | {"levels": levels}).encode())
    rows = len(next(iter(facts["example"]["rows"].values())))
    found = ExportedModel.load(checkpoint, json.loads(json.dumps(facts))).forecast(request, rows)
    expected = forecast_with_torch(model, request, rows)
    of_graph, of_torch = [found.values], [expected.values]
    for graph_bounds, torch_bounds in ((found.low, expected.low), (found.high, expected.high)):
        of_graph += [graph_bounds[level] for level in torch_bounds]
        of_torch += torch_bounds.values()
    scaled_graph, scaled_torch = (
        model.target_scaler.transform(torch.from_numpy(np.concatenate(values)), example_series(model))
        for values in (of_graph, of_torch)
    )
    return float((scaled_graph - scaled_torch).abs().max())
