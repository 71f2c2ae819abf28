"""Differences between the forecasts of an exported file and those of PyTorch on test windows, and their report."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

from forecast.attention import Attention
from forecast.data import Batch, DataModule
from forecast.data.panel import series_entry
from forecast.evaluation.intervals import map_quantiles
from forecast.inference.model import TrainedModel
from forecast.system.errors import ConfigError
from forecast.tools.export.example import write_example
from forecast.tools.export.metadata import Run, metadata_path, read_inputs

WINDOWS_PER_EXCEPTION = 1_000
"""With ProbSparse, one window in this number may differ by more than the tolerance."""


@dataclass(frozen=True)
class Difference:
    """Largest differences and largest forecasts of each target over all windows, steps and outputs.

    They are NaN where a forecast was not a number.

    Attributes:
        windows, series: how many were compared.
        beyond_tolerance: windows that differ by more than the tolerance.
        scaled, in_units: largest differences, in scaled units and in original units.
        largest_scaled, largest_in_units: largest absolute forecasts.
    """

    windows: int
    series: int
    beyond_tolerance: int
    scaled: Float64[Tensor, " n_targets"]
    in_units: Float64[Tensor, " n_targets"]
    largest_scaled: Float64[Tensor, " n_targets"]
    largest_in_units: Float64[Tensor, " n_targets"]


@torch.no_grad()
def compare_with_pytorch(
    run: Run,
    trained: TrainedModel,
    about: dict[str, Any],
    data: DataModule,
    chosen: Int64[Tensor, " windows"],
    tolerance: float,
    shown: Callable[[Sequence[Tensor]], Iterable[Tensor]] = list,
) -> Difference:
    """Compare an exported file on raw values with the network on scaled values.

    The first window is a batch of its own, so that the file runs with two batch sizes.

    Args:
        run: the exported file.
        trained: the model.
        about: the metadata of the file.
        data: the data to compare on.
        chosen: numbers of test windows.
        tolerance: largest accepted difference, in scaled units.
        shown: wraps the batches, such as in a progress bar.
    """
    windows, scaler = data.windows["test"], data.target_scaler
    largest, beyond = torch.zeros(4, data.n_targets, dtype=torch.float64), 0
    batches = [chosen[:1], *chosen[1:].split(data.eval_batch_size)] if len(chosen) > 1 else [chosen]
    for index in shown(batches):
        batch = windows.gather(index)
        outputs = run(raw_inputs(about, data, batch))
        found = stack_outputs({name: torch.from_numpy(values) for name, values in outputs.items()})
        expected = stack_outputs(pytorch_forecast(trained, data, batch))
        found_scaled, scaled = (scaler.transform(each, batch.series) for each in (found, expected))
        difference = (found_scaled - scaled).abs()
        beyond += int((~(difference <= tolerance)).flatten(1).any(1).sum())  # NaN is beyond
        sizes = (difference, (found - expected).abs(), scaled.abs(), expected.abs())
        largest = torch.maximum(largest, torch.stack([size.flatten(0, -2).amax(0) for size in sizes]))
    return Difference(len(chosen), len(windows.series(chosen).unique()), beyond, *largest)


def check_result(
    difference: Difference, data: DataModule, about: dict[str, Any], tolerance: float, *, allowed: int
) -> dict[str, Any]:
    """The result of the comparison in values that JSON can hold: the worst column in each unit.

    Raises:
        ConfigError: more than `allowed` windows differ by more than the tolerance, or a forecast is not a number.
    """
    result: dict[str, Any] = {
        "data": data.name,
        "windows": difference.windows,
        "windows_beyond_tolerance": difference.beyond_tolerance,
    }
    result |= series_entry(data.panel, difference.series)
    for units, differences, sizes in (
        ("scaled", difference.scaled, difference.largest_scaled),
        ("data_units", difference.in_units, difference.largest_in_units),
    ):
        worst = int(differences.nan_to_num(math.inf).argmax())
        result[units] = {
            "largest_difference": float(differences[worst]),
            "column": about["target_columns"][worst],
            "relative": float((differences / sizes.clamp(min=1e-30)).amax()),
        }
    largest = result["scaled"]["largest_difference"]
    if difference.beyond_tolerance > allowed or not math.isfinite(largest):
        raise ConfigError(
            f"the exported file differs from PyTorch by up to {largest:.2g} in scaled units "
            f"(column {result['scaled']['column']}), in {difference.beyond_tolerance:,} of "
            f"{difference.windows:,} windows by more than tolerance={tolerance:g}: nothing is written"
        )
    return {**result, "tolerance": tolerance}


def raw_inputs(about: dict[str, Any], data: DataModule, batch: Batch) -> dict[str, np.ndarray]:
    """The inputs of an exported file for some test windows, in float64. Missing values are completed as in training."""
    scaled, scales, series = data.scaled, data.scaled.scales, batch.series
    origins = data.windows["test"].origins(batch.index)
    inputs = read_inputs(about, scaled.panel, series.numpy(), origins.numpy())
    replace_missing(inputs["past"], scales.scaler.inverse(batch.past, series))
    scalers = scales.scaler, scales.future_scaler
    tensors = {
        "center": torch.cat([scaler.center[series] for scaler in scalers], dim=1),
        "scale": torch.cat([scaler.scale[series] for scaler in scalers], dim=1),
    }
    if scales.scaler.domain.has_transforms:
        tensors |= {"location": scales.scaler.location[series], "shape": scales.scaler.shape[series]}
    if "future_covariates" in inputs:
        covariates = inputs["future_covariates"]
        n, n_calendar = covariates.shape[2], inputs["past_time"].shape[2]
        read = torch.cat([batch.past_time, batch.future_time], dim=1)[..., n_calendar:]
        for column, steps in enumerate(scales.known_steps):
            covariates[:, data.seq_len + (steps or data.pred_len) :, column] = np.nan
        replace_missing(covariates, scales.future_scaler.inverse(read[..., :n], series))
        if n_known := sum(steps is not None for steps in scales.known_steps):
            tensors["known"] = read[..., n : n + n_known].double()
    if scaled.time.static.shape[1]:
        tensors["static"] = scaled.time.static[series].double()
    return inputs | {name: tensor.numpy() for name, tensor in tensors.items()}


def replace_missing(values: np.ndarray, completed: Tensor) -> None:
    """Fill the missing values of an array from `completed`, of the same shape."""
    np.copyto(values, completed.numpy(), where=np.isnan(values))


def pytorch_forecast(trained: TrainedModel, data: DataModule, batch: Batch) -> dict[str, Tensor]:
    """The forecast of the network on scaled windows, and its quantiles, in original units."""
    forecast, series = trained.forecast(batch.past, batch.past_time, batch.future_time), batch.series
    point, quantiles = data.clip_targets(trained.point(forecast), series), None
    if trained.quantiles is not None:
        quantiles = forecast
    elif trained.calibration is not None:
        quantiles = trained.calibration.around(point)
    outputs = {"forecast": data.unscale_targets(point, series)}
    if quantiles is not None:
        outputs["quantiles"] = map_quantiles(partial(data.unscale_targets, series=series), quantiles)
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


def print_report(path: Path, about: dict[str, Any], checked: dict[str, Any], data: Mapping[str, Any]) -> None:
    """Print the shapes, the result of the comparison and an example program that reads a file as `data` says."""
    lines = [f"written    {path} ({path.stat().st_size / 1e6:.1f} MB) and {metadata_path(path)}"]
    for what in ("inputs", "outputs"):
        lines += [
            f"{what[:-1]:10} {name} ({', '.join(map(str, shape))}) float64"
            for name, shape in about[what].items()
        ]
    of_series = f", {checked['series']:,} series" if "series" in checked else ""
    lines.append(
        f"compared   with PyTorch on {checked['windows']:,} test windows of {checked['data']}{of_series}; largest "
        "difference:"
    )
    for units in ("scaled", "data_units"):
        found = checked[units]
        lines.append(
            f"           {units.replace('_', ' ')}: {found['largest_difference']:.2g} (column {found['column']}), "
            f"{found['relative']:.2g} of the largest forecast"
        )
    if checked["windows_beyond_tolerance"]:
        lines.append(
            f"           {checked['windows_beyond_tolerance']:,} windows differ by more than "
            f"tolerance={checked['tolerance']:g}: ProbSparse may do so in 1 window of {WINDOWS_PER_EXCEPTION:,}, "
            "because rounding can change its selection of queries"
        )
    print(*lines, "\nA program that runs the file without this package:\n", sep="\n")
    print(write_example(path, about, data))
