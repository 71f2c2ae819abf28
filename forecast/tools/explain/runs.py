"""The attention layers of several runs of one task, measured on the same windows."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import DictConfig

from forecast.data import DataModule
from forecast.data.even_spacing import choose_evenly_spaced
from forecast.inference.forecasters import ModelForecaster, find_unread_columns
from forecast.inference.model import TrainedModel, load
from forecast.inference.model_data import read_model_data
from forecast.reports.compare.layer_table import LAYERS_FILE
from forecast.reports.compare.task import Task
from forecast.system.errors import ConfigError
from forecast.system.files import atomic_file
from forecast.system.progress import track
from forecast.tools.explain.explanation import adds_nothing, record_layers
from forecast.tools.explain.layer_numbers import measure_layer
from forecast.tools.explain.window import check_split, choose_window


@dataclass(frozen=True)
class LayerRow:
    """A number of one map of one layer of a variant, over windows and seeds.

    Attributes:
        layer: slot and number of the layer.
        variant: name of the variant.
        attention: attention type of the layer.
        map: α or β for the poolings of Fastformer; empty for the map of another type.
        number: name of the number, see `measure_layer`.
        mean, std: of `values` values, fractions.
        uniform: the mean value of uniform attention; NaN if it is unknown.
    """

    layer: str
    variant: str
    attention: str
    map: str
    number: str
    mean: float
    std: float
    uniform: float
    values: int


@dataclass(frozen=True)
class LayerStudy:
    """The numbers of the attention layers of the variants of a task.

    Attributes:
        rows: in the order of the layers in a model, and of the variants in the task.
        season: number of steps in a season.
        windows: number of windows.
        left_out: names of the run folders without layers that have a map and change the forecast.
    """

    rows: Sequence[LayerRow]
    season: int
    windows: int
    left_out: Sequence[str]


def study_layers(config: DictConfig, task: Task) -> LayerStudy:
    """Measure the layers of every run on evenly spaced windows of the split.

    Raises:
        ConfigError: no run has attention layers that change its forecast, or a split, slot, layer or head that does
            not exist.
    """
    rows: list[dict[str, Any]] = []
    left_out, season, windows = [], 1, 0
    runs = [(entry.name, run) for entry in task.unmerged_variants for run in entry.runs]
    for variant, run in track(runs, "Measuring"):
        data = read_model_data(str(run.folder)).read_data(config.data)
        trained = load(str(run.folder))
        trained.data(data, find_unread_columns([ModelForecaster(trained)]))
        if adds_nothing(trained) or not trained.network.attention_layers():
            left_out.append(run.folder.name)
            continue
        check_split(data, config.split)
        numbers = choose_evenly_spaced(len(data.windows[config.split]), config.windows).tolist()
        season, windows = data.season, len(numbers)
        measured = [{"variant": variant, **row} for row in measure_windows(config, trained, data, numbers)]
        if not measured:
            left_out.append(run.folder.name)
            continue
        save_layers(run.folder, measured)
        rows += measured
    if not rows:
        raise ConfigError(
            "runs: no run has attention layers that have a map and change its forecast; train with model.linear=false, "
            "or name others"
        )
    return LayerStudy(summarize(rows), season, windows, left_out)


def save_layers(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Save the numbers of a run into its folder, where `forecast.compare` finds them, unless it cannot be written."""
    if os.access(folder, os.W_OK):
        with atomic_file(folder / LAYERS_FILE) as temporary:
            pd.DataFrame(map(asdict, summarize(rows))).drop(columns="variant").to_csv(temporary, index=False)


def summarize(rows: Sequence[dict[str, Any]]) -> list[LayerRow]:
    """Average the values of each layer, variant, map and number."""
    groups = pd.DataFrame(rows).groupby(["layer", "variant", "attention", "map", "number"], sort=False)
    table = groups.agg(
        mean=("value", "mean"), std=("value", "std"), uniform=("uniform", "mean"), values=("value", "size")
    )
    return [LayerRow(**row) for row in table.reset_index().to_dict("records")]


def measure_windows(
    config: DictConfig, trained: TrainedModel, data: DataModule, numbers: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield the numbers of the chosen layers on each window."""
    for window in numbers:
        _, layers = record_layers(config, trained, data, choose_window(data, config.split, window))
        for layer in layers:
            for number in measure_layer(layer):
                yield {
                    "layer": layer.place_name,
                    "attention": layer.attention_type,
                    "map": number.map,
                    "number": number.name,
                    "value": number.value,
                    "uniform": number.uniform,
                }
