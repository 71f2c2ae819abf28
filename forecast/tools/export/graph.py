"""The whole forecast as one graph, and its files: values in original units in, values in original units out.

A file is an ONNX file, written by PyTorch and run by onnxruntime, or a torch.export program, run by PyTorch alone.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from forecast.data.scaler import Scaler
from forecast.data.source import Domain
from forecast.evaluation.conformal import Calibration
from forecast.evaluation.intervals import map_quantiles
from forecast.inference.model import TrainedModel
from forecast.models.residual import arrange_quantiles
from forecast.system.errors import ConfigError
from forecast.tools.export.metadata import Run

OPSET = 18  # onnxruntime 1.14 (2023) and later
MAX_BYTES = 3 << 29  # bytes of weights; PyTorch writes more than that to a second file
ABOUT = "about.json"
TRACED_BATCH = 3  # tracing may take a size of 1 for a constant

WINDOW_INPUTS = ("past", "past_time", "future_time")
"""Inputs of every exported file: positional arguments in a .pt2 file, where all other inputs are keywords."""


class ForecastGraph(nn.Module):
    """Scaling, network, inverse scaling and quantiles in one module.

    All inputs and outputs are float64, because float32 has no digits left for a column of mean 10⁷ and standard
    deviation 1. Scaling is in float64 too, as in training; the network runs in float32.

    The scale of each window's series is an input, so that one file serves all series, those of later data included. So
    are the parameters of transforms, and the future covariates and static features that the model reads.

    Args:
        network: the model, on scaled values.
        domain: transforms and bounds of the feature columns.
        target_index: positions of the targets among the feature columns.
        trained_for: quantiles that the network was trained for; None for a point forecast.
        calibration: conformal offsets of a point forecast, if there are any.
    """

    def __init__(
        self,
        network: nn.Module,
        domain: Domain,
        target_index: Sequence[int],
        *,
        trained_for: tuple[float, ...] | None,
        calibration: Calibration | None,
    ) -> None:
        super().__init__()
        self.network = network
        self.domain, self.target_index = domain, list(target_index)
        self.trained_for, self.calibration = trained_for, calibration

    @classmethod
    def of_model(cls, trained: TrainedModel) -> "ForecastGraph":
        graph = cls(
            trained.network,
            trained.scaler.domain,
            trained.target_index,
            trained_for=trained.quantiles,
            calibration=trained.calibration,
        )
        return graph.eval()

    def forward(
        self,
        past: Float64[Tensor, "batch seq_len n_features"],
        past_time: Float64[Tensor, "batch seq_len n_calendar"],
        future_time: Float64[Tensor, "batch pred_len n_calendar"],
        center: Float64[Tensor, "batch n_scaled"],
        scale: Float64[Tensor, "batch n_scaled"],
        location: Float64[Tensor, "batch n_features"] | None = None,
        shape: Float64[Tensor, "batch n_features"] | None = None,
        future_covariates: Float64[Tensor, "batch steps n_future"] | None = None,
        known: Float64[Tensor, "batch steps n_known"] | None = None,
        static: Float64[Tensor, "batch n_static"] | None = None,
    ) -> dict[str, Tensor]:
        """Forecast some windows.

        Args:
            past: values in original units.
            past_time, future_time: calendar features.
            center, scale: of the columns of `past`, then of the future covariates.
            location, shape: parameters of the transforms; None: there are none.
            future_covariates: in original units, steps = seq_len + pred_len.
            known: masks of the future covariates that are known for some steps only, 1 where the value is known.
            static: encoded static features.

        Returns:
            `forecast` (batch, pred_len, n_targets), and if the model has quantiles, `quantiles`
            (batch, pred_len, n_targets, n_quantiles) in increasing order. The forecast of a model with trained
            quantiles is their median; otherwise the quantiles are the forecast plus conformal offsets.
        """
        n_features, seq_len = past.shape[2], past.shape[1]
        scaler = Scaler(center[:, :n_features], scale[:, :n_features], self.domain, location, shape)
        scaled = scaler.transform(past, None).float()
        if future_covariates is not None:
            shifted = future_covariates - center[:, None, n_features:]
            future_covariates = shifted / scale[:, None, n_features:]
        time = join_time_features(
            torch.cat([past_time, future_time], dim=1), future_covariates, known, static
        )
        output = self.network(scaled, time[:, :seq_len], time[:, seq_len:])
        targets = scaler.select_columns(self.target_index)

        def unscale(values: Tensor) -> Tensor:
            return targets.inverse(values, None)

        if self.trained_for is not None:
            quantiles = map_quantiles(unscale, arrange_quantiles(output, len(self.target_index)))
            return {"forecast": quantiles[..., len(self.trained_for) // 2], "quantiles": quantiles}
        point = targets.clip(output, None)
        outputs = {"forecast": unscale(point)}
        if self.calibration is not None:
            outputs["quantiles"] = map_quantiles(unscale, self.calibration.around(point))
        return outputs


def join_time_features(
    calendar: Float64[Tensor, "batch steps n_calendar"],
    future_covariates: Float64[Tensor, "batch steps n_future"] | None,
    known: Float64[Tensor, "batch steps n_known"] | None,
    static: Float64[Tensor, "batch n_static"] | None,
) -> Float32[Tensor, "batch steps n_time_features"]:
    """Join the scaled features of each step in the order of `forecast.data.step_features.StepFeatures`."""
    parts = [part for part in (calendar, future_covariates, known) if part is not None]
    if static is not None:
        parts.append(static[:, None].expand(-1, calendar.shape[1], -1))
    return torch.cat(parts, dim=2).float()


def trace_forecast(graph: ForecastGraph, shapes: Mapping[str, Sequence[int | str]]) -> ExportedProgram:
    """Trace the forecast for any batch size.

    Args:
        graph: the forecast.
        shapes: of the inputs by name, the batch first.

    Raises:
        ConfigError: the graph would draw random numbers.
    """
    inputs = {
        name: torch.ones((TRACED_BATCH, *map(int, shape[1:])), dtype=torch.float64)
        for name, shape in shapes.items()
    }
    batch, args = Dim("batch", min=1), tuple(inputs.pop(name) for name in WINDOW_INPUTS)
    with torch.no_grad():
        program = torch.export.export(
            graph, args, kwargs=inputs, dynamic_shapes={name: {0: batch} for name in shapes}
        )
    check_deterministic(program)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # which names source files of this machine
    return program


def check_deterministic(program: ExportedProgram) -> None:
    """Raises ConfigError naming the operations that PyTorch marks as drawing random numbers."""
    random = {
        str(node.target)
        for node in program.graph.nodes
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        and not is_attention_without_dropout(node)
    }
    if random:
        raise ConfigError(f"the exported graph would draw random numbers: {', '.join(sorted(random))}")


def is_attention_without_dropout(node: Any) -> bool:
    """Whether a node is PyTorch's attention, which is marked as random for its dropout, with a dropout of 0."""
    attention = torch.ops.aten.scaled_dot_product_attention.default
    dropout = node.args[4] if len(node.args) > 4 else node.kwargs.get("dropout_p", 0.0)
    return node.target is attention and dropout == 0


def write_onnx(program: ExportedProgram, path: Path, about: dict[str, Any]) -> None:
    """Write the forecast as an ONNX file, with its metadata `about`, whose values are saved as JSON.

    Raises:
        ConfigError: the weights are too large for one file.
    """
    from onnxscript.ir.passes.common import ClearMetadataAndDocStringPass  # an optional package

    size = sum(tensor.nbytes for tensor in program.state_dict.values())
    if size > MAX_BYTES:
        raise ConfigError(
            f"format=onnx: {size / 2**30:.1f} GiB of weights do not fit into one file: use format=torch_export"
        )
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of packages that are not needed
    exported = torch.onnx.export(
        program, dynamo=True, opset_version=OPSET, output_names=list(about["outputs"]), verbose=False
    )
    assert exported is not None
    ClearMetadataAndDocStringPass()(exported.model)  # which name source files of this machine
    exported.model.metadata_props.update({key: json.dumps(value) for key, value in about.items()})
    exported.save(path)


def write_torch(program: ExportedProgram, path: Path, about: dict[str, Any]) -> None:
    """Write the forecast as a torch.export program, with its metadata `about` as the extra file `ABOUT`."""
    torch.export.save(program, path, extra_files={ABOUT: json.dumps(about)})


def load_torch(path: Path) -> Run:
    """The torch.export program as a function."""
    module = torch.export.load(path).module()

    @torch.no_grad()
    def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}
        window = [tensors.pop(name) for name in WINDOW_INPUTS]
        return {name: value.numpy() for name, value in module(*window, **tensors).items()}

    return run
