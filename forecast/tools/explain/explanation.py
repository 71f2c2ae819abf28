"""An explanation: the inputs of the forecasts are measured, the attention layers drawn on one window, and both written.

The output folder has one PNG file per picture, the numbers as CSV, and an HTML page with everything.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jaxtyping import Float
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from omegaconf import DictConfig
from rich.console import Console
from torch import Tensor

from forecast.data import DataModule
from forecast.inference.model import TrainedModel
from forecast.inference.origins import note_on_windows
from forecast.models.base import FULL_WEIGHT
from forecast.system.errors import ConfigError
from forecast.system.files import atomic_folder
from forecast.system.formatting import plural
from forecast.system.progress import track
from forecast.tools.explain.figures import Picture, draw_importance, draw_layer
from forecast.tools.explain.importance import (
    Importance,
    WindowSample,
    measure_importance,
    tabulate_importance,
)
from forecast.tools.explain.maps import LayerMap, list_layers, measure_layer, record_calls
from forecast.tools.explain.window import Window, choose_window, draw_window, windows_at_every_step
from forecast.training.create_model import summarize_attention

MAX_NAMED = 10
"""Largest number of the most important inputs that the terminal and the page name."""


class Section(NamedTuple):
    """A part of the page: a heading, lines below it, and pictures."""

    title: str
    lines: Sequence[str]
    pictures: Sequence[Picture]


def explain_model(config: DictConfig, trained: TrainedModel, data: DataModule, output: Path) -> None:
    """Explain a model on its data in the folder `output`, as the configuration of `forecast.explain` says."""
    window = choose_window(data, config.split, config.window)
    forecast, layers = measure_layers(config, trained, data, window)
    notes = describe_layers(trained)
    if window.split == "test" and (note := note_on_windows(trained, data)):  # as after a refit
        notes.append(f"{note}; the run's best.ckpt was trained on earlier rows only")
    importance, sections = [], []
    if config.importance_windows and len(data.windows[window.split]) > 1:  # one has none to be permuted with
        title, importance = study_inputs(config, trained, data)
        strongest = sorted(importance, key=lambda one: -one.mse)[:MAX_NAMED]
        lines = [f"{one.group.label} {one.mse:+.3g} ± {one.mse_std:.2g}" for one in strongest]
        sections.append(Section(title, lines, [draw_importance(importance, title)]))
    for measured in track(layers, "Drawing"):
        lines = [str(number) for number in measured.numbers]
        sections.append(Section(measured.layer.title, lines, draw_layer(measured)))
    of_series = f", series {window.series}" if window.series else ""
    title = f"Explanation of {window.name} of {data.title}, {window.split}{of_series}"
    facts = [*notes, *describe_window(trained, data, window, choose_variable(trained) if layers else None)]
    with atomic_folder(output) as folder:
        write_page(folder, title, facts, draw_window(trained, data, window, forecast), sections)
        if importance:
            tabulate_importance(importance).to_csv(folder / "importance.csv", index=False)
        if layers:
            tabulate_numbers(layers).to_csv(folder / "numbers.csv", index=False)
        if config.wandb:
            log_folder(folder, title, config.wandb, trained.config)
        files = sorted(path.name for path in folder.iterdir())
    Console(soft_wrap=True, highlight=False, markup=False).print(title, style="bold")
    of_sections = (line for part in sections for line in (part.title, *(f"  {one}" for one in part.lines)))
    print(*notes, *of_sections, sep="\n")
    others = [name for name in files if not name.endswith(".png")]
    pictures = plural(len(files) - len(others), "picture")
    print(f"saved in {output}: {', '.join(others)} and {pictures}")


def measure_layers(
    config: DictConfig, trained: TrainedModel, data: DataModule, window: Window
) -> tuple[Float[Tensor, "1 pred_len outputs"], list[LayerMap]]:
    """Forecast a window; return the raw forecast and the chosen layers, none if they do not change the forecast.

    Raises:
        ConfigError: a slot that the model lacks, or a map that is too large.
    """
    network, batch = trained.network, window.batch
    forecast, calls = record_calls(network, batch.past, batch.past_time, batch.future_time)
    if adds_nothing(trained):
        return forecast, []
    variable = choose_variable(trained)
    if variable is not None:
        last = calls[0].q.shape[2] - 1  # layers over variables: those of the last patch
        over_variables = {layer.name for layer in network.attention_layers() if layer.slot == "variables"}
        calls = [call.select_sequence(last if call.name in over_variables else variable) for call in calls]
    layers = list_layers(network, calls, window.dates, data.seq_len, trained.feature_columns)
    slots = dict.fromkeys(layer.place.slot for layer in layers)
    if layers and config.slot not in ("all", *slots):
        raise ConfigError(
            f"slot={config.slot}: this model has the slots {', '.join(slots)}; give one, or all"
        )
    return forecast, [measure_layer(layer) for layer in layers if config.slot in ("all", layer.place.slot)]


def study_inputs(config: DictConfig, trained: TrainedModel, data: DataModule) -> tuple[str, list[Importance]]:
    """The importance of the inputs on windows of the split, and a sentence on how it was measured."""
    windows, forecast = data.windows[config.split], trained.forecast_batch
    every = windows_at_every_step(data, config.split)
    sample = WindowSample(data, windows, every, most=config.importance_windows)
    title = (
        f"Importance: increase of the MSE, {sample.score(forecast, sample.batch):.3g} on {len(sample)} {config.split} "
        f"windows, when an input is that of other windows ({config.repeats} repeats)"
    )
    return title, measure_importance(forecast, sample, config.repeats)


def choose_variable(trained: TrainedModel) -> int | None:
    """The number of the variable whose layers over time are shown; None in models without a sequence per variable."""
    target = main_target(trained)
    if trained.network.tokens == "axes":
        return trained.feature_columns.index(trained.target_columns[target])
    return target if trained.network.tokens == "independent" else None


def main_target(trained: TrainedModel) -> int:
    """The number of the target that is drawn: data.target if it is a target, else the last one."""
    columns, wanted = trained.target_columns, trained.config["data"]["target"]
    return columns.index(wanted) if wanted in columns else len(columns) - 1


def describe_window(
    trained: TrainedModel, data: DataModule, window: Window, variable: int | None
) -> list[str]:
    """The facts at the top of the page."""
    facts = [
        f"checkpoint {trained.path}",
        f"forecast from {window.origin} to {window.dates[-1]}, {data.panel.describe_step()}, from the "
        f"{data.seq_len} steps since {window.dates[0]}",
    ]
    if variable is not None:
        name = trained.target_columns[main_target(trained)]
        facts.append(
            f"layers over time are those of {name}; layers over variables are those of the last patch of the horizon"
            if trained.network.tokens == "axes"
            else f"each variable is forecast independently: this is {name}"
        )
    return facts


def adds_nothing(trained: TrainedModel) -> bool:
    """Whether the attention layers do not change the forecast."""
    return trained.is_untrained or trained.network.shrinkage_weight == 0


def describe_layers(trained: TrainedModel) -> list[str]:
    """Say which part the attention layers have in the forecast."""
    network = trained.network
    if not network.attention_layers():
        return [f"{type(network).__name__} names no attention layers, so none are drawn"]
    if adds_nothing(trained):
        return [
            f"this model is the {network.warm_start_name} alone: its attention layers are untrained, do not change "
            "the forecast and are not drawn"
        ]
    notes = [f"attention {trained.config['model']['attention']['name']}"]
    if cross := summarize_attention(network).get("cross"):
        notes[0] += f"; cross-attention {cross.type.lower()}"
    if network.shrinkage_weight < FULL_WEIGHT:
        notes.insert(
            0, f"shrinkage weight of the attention layers in the forecast: {network.shrinkage_weight:.0%}"
        )
    return notes


def write_page(
    folder: Path, title: str, facts: Sequence[str], window: Picture, sections: Sequence[Section]
) -> None:
    """Write the pictures as PNG files, and index.html with everything, into `folder`."""
    pictures = [window, *(picture for section in sections for picture in section.pictures)]
    images = {picture.name: _save_picture(folder, picture) for picture in pictures}
    environment = Environment(  # Jinja escapes names
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    page = environment.get_template("page.html").render(
        title=title, facts=facts, window=window, sections=sections, images=images
    )
    (folder / "index.html").write_text(page, encoding="utf-8")


def _save_picture(folder: Path, picture: Picture) -> str:
    """Save the picture as a PNG file. Returns the file in base64."""
    path = folder / f"{picture.name}.png"
    picture.figure.savefig(path, dpi=110)
    return base64.b64encode(path.read_bytes()).decode()


def tabulate_numbers(layers: Sequence[LayerMap]) -> pd.DataFrame:
    """One row for each number of a layer, and one for each reference value of a number (column `beside`)."""
    rows = [
        (measured.layer.call.name, measured.layer.attention_type, number.what, beside, value)
        for measured in layers
        for number in measured.numbers
        for beside, value in {"": number.value, **number.beside}.items()
    ]
    return pd.DataFrame(rows, columns=["layer", "kind", "number", "beside", "value"])


def log_folder(folder: Path, title: str, mode: str, settings: dict[str, Any]) -> None:
    """Log the tables and the pictures of an explanation in a new run of the type `explain`.

    Args:
        folder: the folder of the explanation, with importance.csv and pictures.
        title: the name of the run.
        mode: offline or online.
        settings: the configuration of the run that trained the model.

    Raises:
        ConfigError: W&B cannot be reached.
    """
    import wandb

    from forecast.training.loggers import describe_wandb, starting_wandb  # imports Lightning

    quiet = wandb.Settings(silent=True, console="off", x_disable_meta=True)  # no local paths
    with starting_wandb():
        run = wandb.init(
            project="forecast", job_type="explain", name=title, mode=mode, config=settings, settings=quiet,  # type: ignore[arg-type]
            dir=Path.cwd(),
        )  # fmt: skip
    where = describe_wandb(run)
    for path in sorted(folder.glob("*.csv")):
        run.log({path.stem: wandb.Table(dataframe=pd.read_csv(path))})
    for path in sorted(folder.glob("*.png")):
        run.log({f"pictures/{path.stem}": wandb.Image(str(path))})
    run.finish()
    print(where)
