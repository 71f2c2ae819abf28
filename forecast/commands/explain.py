"""Body of `python -m forecast.explain`: visualise the attention on one window."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from forecast.cli.compose import check_checkpoint
from forecast.data import DataModule
from forecast.inference.model import TrainedModel, load
from forecast.system.errors import ConfigError
from forecast.system.files import check_free_folder, whole_folder
from forecast.system.progress import track
from forecast.tools.explain.attention_types import explain_layer
from forecast.tools.explain.layer import Explanation, Layer
from forecast.tools.explain.page import write_page
from forecast.tools.explain.record import Call, record_calls
from forecast.tools.explain.timeline import timelines
from forecast.tools.explain.window import Window, choose_window, draw_window
from forecast.training.shrinkage import FULL_WEIGHT

SLOTS = ("encoder", "decoder", "cross")


def explain(config: DictConfig) -> None:
    """Record the forecast of one window, draw the chosen attention layers, and write and print the results."""
    check_checkpoint(config)
    if config.slot != "all" and config.slot not in SLOTS:
        raise ConfigError(f"slot={config.slot}: choose all, {', '.join(SLOTS)}")
    output = Path(config.output).expanduser()
    check_free_folder(output, marks={"index.html", "numbers.csv"}, suffix=".png", overwrite=config.overwrite)
    trained = load(config.checkpoint)
    data = trained.data(config.data)
    window = choose_window(data, config.split, config.window)
    batch = window.batch
    forecast, calls = record_calls(trained.network, batch.past, batch.past_time, batch.future_time)
    variable = choose_variable(trained)
    if variable is not None:
        calls = [call.select_sequence(variable) for call in calls]
    layers = choose_layers(config, trained, data, window, calls)
    explained = [explain_layer(layer) for layer in track(layers, "Drawing")]
    of_series = f", series {window.series}" if window.series else ""
    title = f"Attention on window {window.number} of {data.title}, {window.split}{of_series}"
    facts = describe_window(trained, data, window, variable)
    with whole_folder(output) as folder:
        write_page(folder, title, facts, draw_window(trained, data, window, forecast), explained)
    print_numbers(title, describe_shrinkage(trained), explained, output)


def choose_layers(
    config: DictConfig, trained: TrainedModel, data: DataModule, window: Window, calls: list[Call]
) -> list[Layer]:
    """Select the layers and heads given by slot, layer and head. Raises ConfigError for one that does not exist."""
    network = trained.network
    query_lens = {call.name: call.q.shape[2] for call in calls}
    times = timelines(network, window.dates, data.seq_len, query_lens, trained.feature_columns)
    places = {place.name: place for place in network.attention_layers()}
    layers = [
        Layer(
            call,
            places[call.name],
            *times[call.name],
            heads=choose_numbers("head", config.head, call.q.shape[1]),
            recent=data.season,
            series=window.series,
            horizon_input=network.horizon_input,
        )
        for call in calls
        if call.name in places
    ]
    if not layers:
        raise ConfigError(
            f"{trained.path}: explain draws attention layers, and {type(network).__name__} names none"
        )
    layers = [layer for layer in layers if config.slot in ("all", layer.slot)]
    numbers = choose_numbers("layer", config.layer, max(layer.number for layer in layers) + 1)
    return [layer for layer in layers if layer.number in numbers]


def choose_variable(trained: TrainedModel) -> int | None:
    """The number of the target whose layers are shown, in a model that forecasts each variable independently.

    This is data.target if it is a target, else the last one; None in other models.
    """
    if trained.network.tokens != "independent":
        return None
    columns, wanted = trained.target_columns, trained.config["data"]["target"]
    return columns.index(wanted) if wanted in columns else len(columns) - 1


def choose_numbers(what: str, wanted: str | int, count: int) -> list[int]:
    """All numbers below `count` if `wanted` is "all", else the number `wanted`."""
    if wanted == "all":
        return list(range(count))
    if not isinstance(wanted, int) or isinstance(wanted, bool) or not 0 <= wanted < count:
        raise ConfigError(f"{what}={wanted}: there are {what}s 0 to {count - 1}; give one, or all")
    return [wanted]


def describe_window(
    trained: TrainedModel, data: DataModule, window: Window, variable: int | None
) -> list[str]:
    """The facts at the top of the page."""
    attention = trained.config["model"]["attention"]
    facts = [f"checkpoint {trained.path}"]
    if window.series:
        facts.append(f"series {window.series}")
    facts += [
        f"forecast from {window.origin} to {window.dates[-1]}, every {data.freq}, from the {data.seq_len} steps since "
        f"{window.dates[0]}",
        f"attention {attention['name']}; cross-attention {attention['cross']['_target_'].rsplit('.', 1)[-1]}",
        *describe_shrinkage(trained),
    ]
    if variable is not None:
        facts.append(f"each variable is forecast independently: this is {trained.target_columns[variable]}")
    facts.append(
        "weights are relative to uniform attention: 1 is the weight of a step if all weights were equal"
    )
    return facts


def describe_shrinkage(trained: TrainedModel) -> list[str]:
    """Return a note if the attention layers contribute to the forecast only in part or not at all."""
    if trained.is_untrained:
        return [
            "this model is the linear model alone: its layers are untrained and do not change the forecast"
        ]
    weight = trained.network.shrinkage_weight
    return [f"shrinkage weight of these layers in the forecast: {weight:.0%}"] if weight < FULL_WEIGHT else []


def print_numbers(title: str, notes: Sequence[str], explained: Sequence[Explanation], output: Path) -> None:
    """Print the numbers of each layer, and where the page is."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(title, style="bold")
    for note in notes:
        console.print(note)
    for explanation in explained:
        console.print(explanation.layer.title)
        for number in explanation.numbers:
            console.print(f"  {number}")
    files = sum(len(explanation.pictures) for explanation in explained) + 1
    console.print(f"saved in {output}: index.html, numbers.csv and {files} pictures")
