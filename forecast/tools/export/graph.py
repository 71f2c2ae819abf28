"""The whole forecast as one ONNX graph, and its comparison with PyTorch: original units in, original units out."""

import json
import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from forecast.attention import Attention
from forecast.data import Batch, DataModule
from forecast.data.panel import series_entry
from forecast.data.scaler import Scaler
from forecast.evaluation.intervals import map_quantiles
from forecast.inference.model import TrainedModel
from forecast.models.residual import arrange_quantiles
from forecast.system.errors import ConfigError
from forecast.system.progress import track
from forecast.tools.export.metadata import WINDOWS_PER_EXCEPTION, CalendarFeatures, Run, calendar_features, read_inputs

OPSET = 18  # onnxruntime 1.14 (2023) and later
MAX_BYTES = 3 << 29  # bytes of weights; PyTorch writes more than that to a second file
TRACED_BATCH = 3  # tracing may take a size of 1 for a constant


class ForecastGraph(nn.Module):
    """Scaling, network, inverse scaling and quantiles in one module.

    All inputs and outputs are float64, because float32 has no digits left for a column of mean 10⁷ and standard
    deviation 1. Scaling is in float64 too, as in training; the network runs in float32.

    The scale of each window's series is an input, so that one file serves all series, those of later data included. So
    are the parameters of transforms, and the future covariates and static features that the model reads.
    """

    def __init__(self, trained: TrainedModel) -> None:
        super().__init__()
        self.network, self.domain = trained.network, trained.scaler.domain
        self.target_index = list(trained.target_index)
        self.trained_for, self.calibration = trained.quantiles, trained.calibration
        self.eval()

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
            past, future_covariates: values in original units; steps = seq_len + pred_len.
            past_time, future_time: calendar features.
            center, scale: of the columns of `past`, then of the future covariates.
            location, shape: parameters of the transforms.
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
        calendar = torch.cat([past_time, future_time], dim=1)
        fixed = None if static is None else static[:, None].expand(-1, calendar.shape[1], -1)
        parts = [part for part in (calendar, future_covariates, known, fixed) if part is not None]
        time = torch.cat(parts, dim=2).float()  # in the order of `forecast.data.step_features.StepFeatures`
        output = self.network(scaled, time[:, :seq_len], time[:, seq_len:])
        targets = scaler.select_columns(self.target_index)
        unscale = partial(targets.inverse, series=None)
        if self.trained_for is not None:
            quantiles = map_quantiles(unscale, arrange_quantiles(output, len(self.target_index)))
            return {"forecast": quantiles[..., len(self.trained_for) // 2], "quantiles": quantiles}
        point = targets.clip(output, None)
        outputs = {"forecast": unscale(point)}
        if self.calibration is not None:
            outputs["quantiles"] = map_quantiles(unscale, self.calibration.around(point))
        return outputs


def trace_forecast(graph: ForecastGraph, shapes: Mapping[str, Sequence[int | str]]) -> ExportedProgram:
    """Trace the forecast for any batch size; the shapes of the inputs have the batch first."""
    sizes = {name: (TRACED_BATCH, *map(int, shape[1:])) for name, shape in shapes.items()}
    inputs = {name: torch.ones(size, dtype=torch.float64) for name, size in sizes.items()}
    batch = Dim("batch", min=1)
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")  # PyTorch warns of its own code
    with torch.no_grad():
        program = torch.export.export(graph, (), inputs, dynamic_shapes={name: {0: batch} for name in shapes})
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # which names source files of this machine
    return program


def write_onnx(program: ExportedProgram, path: Path, about: dict[str, Any]) -> None:
    """Write the forecast as an ONNX file, with its metadata `about`, whose values are saved as JSON.

    Raises ConfigError if the weights are too large for one file.
    """
    from onnxscript.ir.passes.common import ClearMetadataAndDocStringPass  # an optional package

    size = sum(tensor.nbytes for tensor in program.state_dict.values())
    if size > MAX_BYTES:
        raise ConfigError(
            f"{size / 2**30:.1f} GiB of weights do not fit into one ONNX file: serve or load the run folder instead"
        )
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of packages that are not needed
    exported = torch.onnx.export(
        program, dynamo=True, opset_version=OPSET, output_names=list(about["outputs"]), verbose=False
    )
    assert exported is not None
    ClearMetadataAndDocStringPass()(exported.model)  # which name source files of this machine
    exported.model.metadata_props.update({key: json.dumps(value) for key, value in about.items()})
    exported.save(path)


@torch.no_grad()
def compare_with_pytorch(
    run: Run,
    trained: TrainedModel,
    about: dict[str, Any],
    data: DataModule,
    chosen: Int64[Tensor, " windows"],
    tolerance: float,
) -> dict[str, Any]:
    """Compare an exported file on raw values with the network on scaled values.

    The first window is a batch of its own, so that the file runs with two batch sizes. The result, in values that JSON
    can hold, is how many windows and series were compared, and the largest difference.

    `tolerance`: largest accepted difference, in scaled units.

    Raises ConfigError: more windows than `count_allowed_exceptions` differ by more than the tolerance, or a forecast is
    not a number.
    """
    windows, scaler = data.windows["test"], data.target_scaler
    calendar = calendar_features(about, data.scaled.panel.grid)
    differences, beyond = torch.zeros(data.n_targets, dtype=torch.float64), 0
    batches = [chosen[:1], *chosen[1:].split(data.eval_batch_size)] if len(chosen) > 1 else [chosen]
    for index in track(batches, "Comparing"):
        batch = windows.gather(index)
        outputs = run(raw_inputs(about, data, calendar, batch))
        found = stack_outputs({name: torch.from_numpy(values) for name, values in outputs.items()})
        expected = stack_outputs(pytorch_forecast(trained, data, batch))
        found, expected = (scaler.transform(each, batch.series) for each in (found, expected))
        difference = (found - expected).abs()
        beyond += int((~(difference <= tolerance)).flatten(1).any(1).sum())  # NaN is beyond
        differences = torch.maximum(differences, difference.flatten(0, -2).amax(0))  # of each target
    worst = int(differences.nan_to_num(math.inf).argmax())
    largest, column = float(differences[worst]), about["target_columns"][worst]
    if beyond > count_allowed_exceptions(trained.network, len(chosen)) or not math.isfinite(largest):
        raise ConfigError(
            f"the exported file differs from PyTorch by up to {largest:.2g} in scaled units (column {column}), in "
            f"{beyond:,} of {len(chosen):,} windows by more than tolerance={tolerance:g}: nothing is written"
        )
    return {
        "data": data.title,
        "windows": len(chosen),
        **series_entry(data.panel, len(windows.series(chosen).unique())),
        "windows_beyond_tolerance": beyond,
        "largest_difference": largest,
        "column": column,
        "tolerance": tolerance,
    }


def raw_inputs(
    about: dict[str, Any], data: DataModule, calendar: CalendarFeatures, batch: Batch
) -> dict[str, np.ndarray]:
    """The inputs of an exported file for some test windows, in float64. Missing values are completed as in training."""
    scaled, scales, series = data.scaled, data.scaled.scales, batch.series
    origins = data.windows["test"].origins(batch.index)
    inputs = read_inputs(about, scaled.panel, calendar, series.numpy(), origins.numpy())
    completed = {"past": scales.scaler.inverse(batch.past, series)}
    scalers = scales.scaler, scales.future_scaler
    parts = ("center", "scale")
    tensors = {part: torch.cat([getattr(one, part)[series] for one in scalers], dim=1) for part in parts}
    if scales.scaler.domain.has_transforms:
        tensors |= {"location": scales.scaler.location[series], "shape": scales.scaler.shape[series]}
    if "future_covariates" in inputs:
        covariates = inputs["future_covariates"]
        n, n_calendar = covariates.shape[2], inputs["past_time"].shape[2]
        read = torch.cat([batch.past_time, batch.future_time], dim=1)[..., n_calendar:]
        for column, steps in enumerate(scales.known_steps):
            covariates[:, data.seq_len + (steps or data.pred_len) :, column] = np.nan
        completed["future_covariates"] = scales.future_scaler.inverse(read[..., :n], series)
        if n_known := sum(steps is not None for steps in scales.known_steps):
            tensors["known"] = read[..., n : n + n_known].double()
    if scaled.time.static.shape[1]:
        tensors["static"] = scaled.time.static[series].double()
    for name, values in completed.items():
        np.copyto(inputs[name], values.numpy(), where=np.isnan(inputs[name]))
    return inputs | {name: tensor.numpy() for name, tensor in tensors.items()}


def pytorch_forecast(trained: TrainedModel, data: DataModule, batch: Batch) -> dict[str, Tensor]:
    """The forecast of the network on scaled windows, and its quantiles, in original units."""
    forecast, series = trained.forecast(batch.past, batch.past_time, batch.future_time), batch.series
    point = data.target_scaler.clip(trained.point(forecast), series)
    unscale = partial(data.target_scaler.inverse, series=series)
    outputs = {"forecast": unscale(point)}
    if trained.quantiles is not None:
        outputs["quantiles"] = map_quantiles(unscale, forecast)
    elif trained.calibration is not None:
        outputs["quantiles"] = map_quantiles(unscale, trained.calibration.around(point))
    return outputs


def stack_outputs(outputs: dict[str, Tensor]) -> Float64[Tensor, "batch rows n_targets"]:
    """The forecast and its quantiles in one tensor, rows = pred_len · outputs."""
    parts = [outputs["forecast"][..., None, :]]
    parts += [outputs["quantiles"].mT] if "quantiles" in outputs else []
    return torch.cat(parts, dim=2).flatten(1, 2)


def count_allowed_exceptions(network: nn.Module, windows: int) -> int:
    """Number of windows that may differ by more than the tolerance.

    Some attention types select queries by a ranking (`ranks_queries`). Where two queries rank almost equally,
    rounding can change the selection. All other operations are continuous.
    """
    selects = any(isinstance(module, Attention) and module.ranks_queries for module in network.modules())
    return windows // WINDOWS_PER_EXCEPTION if selects else 0
