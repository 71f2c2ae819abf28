"""An explanation: the inputs of the forecasts are measured, the attention layers drawn on one window, and both written.

The output folder has one PNG file per picture, the numbers as CSV, and an HTML page with everything.
"""

import base64
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from jaxtyping import Float
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from omegaconf import DictConfig
from rich.console import Console
from torch import Tensor

from forecast.data import DataModule
from forecast.inference.model import TrainedModel
from forecast.inference.origins import note_on_test
from forecast.models.base import FULL_WEIGHT
from forecast.system.errors import ConfigError
from forecast.system.files import atomic_folder
from forecast.system.formatting import plural
from forecast.system.progress import track
from forecast.tools.explain.figures import Picture
from forecast.tools.explain.input_report import InputStudy, study_inputs
from forecast.tools.explain.layers import Call, Layer, record_calls, timelines
from forecast.tools.explain.maps import Explanation, explain_layer
from forecast.tools.explain.window import Window, choose_window, draw_window
from forecast.training.create_model import summarize_attention


def explain_model(config: DictConfig, trained: TrainedModel, data: DataModule, output: Path) -> None:
    """Explain a model on its data in the folder `output`, as the configuration of `forecast.explain` says."""
    window = choose_window(data, config.split, config.window)
    forecast, layers = record_layers(config, trained, data, window)
    notes = [*describe_layers(trained), *warn_of_trained_windows(trained, data, window.split)]
    explained = [explain_layer(layer) for layer in track(layers, "Drawing")]
    inputs = None
    if (
        config.importance_windows and len(data.windows[window.split]) > 1
    ):  # one window has none to be permuted with
        inputs = study_inputs(
            trained.forecast_batch,
            data,
            window,
            most=config.importance_windows,
            repeats=config.repeats,
            drawn=main_target(trained),
        )
    of_series = f", series {window.series}" if window.series else ""
    title = f"Explanation of {window.name} of {data.title}, {window.split}{of_series}"
    facts = [*notes, *describe_window(trained, data, window, choose_variable(trained) if layers else None)]
    with atomic_folder(output) as folder:
        write_page(folder, title, facts, draw_window(trained, data, window, forecast), inputs, explained)
        if config.wandb:
            log_folder(folder, title, config.wandb, trained.config)
        files = sorted(path.name for path in folder.iterdir())
    print_numbers(title, notes, inputs, explained)
    print(f"saved in {output}: {describe_files(files)}")


def record_layers(
    config: DictConfig, trained: TrainedModel, data: DataModule, window: Window
) -> tuple[Float[Tensor, "1 pred_len outputs"], list[Layer]]:
    """Forecast a window; return the raw forecast and the chosen layers, none if they do not change the forecast."""
    batch = window.batch
    forecast, calls = record_calls(trained.network, batch.past, batch.past_time, batch.future_time)
    over_variables = {layer.name for layer in trained.network.attention_layers() if layer.slot == "variables"}
    variable = choose_variable(trained)
    if variable is not None:
        last = calls[0].q.shape[2] - 1
        calls = [call.select_sequence(last if call.name in over_variables else variable) for call in calls]
    return forecast, [] if adds_nothing(trained) else choose_layers(config, trained, data, window, calls)


def warn_of_trained_windows(trained: TrainedModel, data: DataModule, split: str) -> list[str]:
    """Say that test windows were trained on, as after a refit: their errors are lower than those of a test."""
    note = note_on_test(trained, data) if split == "test" else ""
    return [f"{note}; the run's best.ckpt was trained on earlier rows only"] if note else []


def choose_layers(
    config: DictConfig, trained: TrainedModel, data: DataModule, window: Window, calls: list[Call]
) -> list[Layer]:
    """Select the layers and heads given by slot, layer and head. Raises ConfigError for one that does not exist."""
    network = trained.network
    times = timelines(network, window.dates, data.seq_len, trained.feature_columns)
    places = {place.name: place for place in network.attention_layers()}
    layers = [
        Layer(
            call,
            places[call.name],
            *times[call.name],
            heads=choose_numbers("head", config.head, range(call.q.shape[1])),
            recent=data.season,
            series=window.series,
            horizon_input=network.horizon_input,
        )
        for call in calls
        if call.name in places
    ]
    if not layers:
        return []
    slots = dict.fromkeys(layer.place.slot for layer in layers)
    if config.slot != "all" and config.slot not in slots:
        raise ConfigError(
            f"slot={config.slot}: this model has the slots {', '.join(slots)}; give one, or all"
        )
    layers = [layer for layer in layers if config.slot in ("all", layer.place.slot)]
    numbers = choose_numbers("layer", config.layer, sorted({layer.place.number for layer in layers}))
    return [layer for layer in layers if layer.place.number in numbers]


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


def choose_numbers(what: str, wanted: str | int, numbers: Sequence[int]) -> list[int]:
    """All `numbers` if `wanted` is "all", else the number `wanted`. Raises ConfigError if it is none of them."""
    if wanted == "all":
        return [*numbers]
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted not in numbers:
        listed = ", ".join(map(str, numbers))
        raise ConfigError(f"{what}={wanted}: the {what}s are {listed}; give one of them, or all")
    return [wanted]


def describe_window(
    trained: TrainedModel, data: DataModule, window: Window, variable: int | None
) -> list[str]:
    """The facts at the top of the page."""
    facts = [f"checkpoint {trained.path}"]
    if window.series:
        facts.append(f"series {window.series}")
    facts.append(
        f"forecast from {window.origin} to {window.dates[-1]}, {data.panel.describe_step()}, from the "
        f"{data.seq_len} steps since {window.dates[0]}"
    )
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


def describe_files(files: Sequence[str]) -> str:
    """Name the page and the tables, and count the pictures."""
    pictures = sum(name.endswith(".png") for name in files)
    return (
        f"{', '.join(name for name in files if not name.endswith('.png'))} and {plural(pictures, 'picture')}"
    )


def print_numbers(
    title: str, notes: Sequence[str], inputs: InputStudy | None, explained: Sequence[Explanation]
) -> None:
    """Print what the attention layers add, the most important inputs, and the numbers of each layer."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(title, style="bold")
    for note in notes:
        console.print(note)
    sections: list[tuple[str, Sequence[object]]] = [] if inputs is None else [(inputs.title, inputs.lines)]
    sections += [(explanation.layer.title, explanation.numbers) for explanation in explained]
    for heading, lines in sections:
        console.print(heading)
        for line in lines:
            console.print(f"  {line}")


def write_page(
    folder: Path,
    title: str,
    facts: Sequence[str],
    window: Picture,
    inputs: InputStudy | None,
    explained: Sequence[Explanation],
) -> None:
    """Write the pictures, index.html and the tables into `folder`.

    The tables are importance.csv and contributions.csv of the inputs, and numbers.csv of the attention layers.
    """
    pictures = [window, *(inputs.pictures if inputs else []), *(p for one in explained for p in one.pictures)]
    images = {picture.name: _save_picture(folder, picture) for picture in pictures}
    environment = Environment(  # Jinja escapes names
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    page = environment.get_template("page.html").render(
        title=title, facts=facts, window=window, inputs=inputs, explained=explained, images=images
    )
    (folder / "index.html").write_text(page, encoding="utf-8")
    for name, table in inputs.tables.items() if inputs else ():
        table.to_csv(folder / f"{name}.csv", index=False)
    if explained:
        _write_numbers(folder / "numbers.csv", explained)


def _save_picture(folder: Path, picture: Picture) -> str:
    """Save the picture as a PNG file. Returns the file in base64."""
    path = folder / f"{picture.name}.png"
    picture.figure.savefig(path, dpi=110)
    return base64.b64encode(path.read_bytes()).decode()


def _write_numbers(path: Path, explained: Sequence[Explanation]) -> None:
    """Write one row for each number, and one for each reference value of a number (column `beside`)."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["layer", "kind", "number", "beside", "value"])
        for explanation in explained:
            layer = explanation.layer
            for number in explanation.numbers:
                for beside, value in {"": number.value, **number.beside}.items():
                    rows.writerow([layer.call.name, layer.attention_type, number.what, beside, value])


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
