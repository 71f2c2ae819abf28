"""Show what the attention did on one window: `python -m forecast.explain checkpoint=runs/RUN window=last`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from forecast.cli import command
from forecast.configuration import check_checkpoint
from forecast.errors import ConfigError
from forecast.files import check_free_folder, whole_folder

if TYPE_CHECKING:
    from torch import Tensor

    from forecast.data import ForecastData
    from forecast.explanation.layer import Explanation, Layer, Picture
    from forecast.explanation.record import Call
    from forecast.explanation.window import Window
    from forecast.trained import TrainedModel

SLOTS = ("encoder", "decoder", "cross")


def explain(config: DictConfig) -> None:
    """Record one forecast, draw every chosen attention layer, write the folder, say what was found."""
    check_checkpoint(config)
    if config.slot != "all" and config.slot not in SLOTS:
        raise ConfigError(f"slot={config.slot}: choose all, {', '.join(SLOTS)}")
    output = Path(config.output).expanduser()
    check_free_folder(output, marks={"index.html", "numbers.csv"}, suffix=".png", overwrite=config.overwrite)

    from forecast.explanation import page
    from forecast.explanation.kinds import explain as explain_layer
    from forecast.explanation.record import record
    from forecast.explanation.window import choose
    from forecast.progress import track
    from forecast.trained import load

    trained = load(config.checkpoint)
    trained.check_one_table("explain")
    data = trained.data(config.data)
    window = choose(data, config.split, config.window)
    forecast, calls = record(
        trained.network, window.batch.past, window.batch.past_time, window.batch.future_time
    )
    variable = own_variable(trained)
    if variable is not None:
        calls = [call.of(variable) for call in calls]
    layers = chosen_layers(config, trained, data, window, calls)
    explained = [explain_layer(layer) for layer in track(layers, "Drawing")]
    title = f"Attention on window {window.number} of {data.title}, {window.split}"
    with whole_folder(output) as folder:
        page.write(
            folder,
            title,
            facts(trained, data, window, variable),
            picture_of(trained, data, window, forecast),
            explained,
        )
    show(title, part_in_forecast(trained), explained, output)


def chosen_layers(
    config: DictConfig, trained: TrainedModel, data: ForecastData, window: Window, calls: list[Call]
) -> list[Layer]:
    """The layers that slot=, layer= and head= leave. Raises ConfigError naming what there is."""
    from forecast.explanation.layer import Layer
    from forecast.explanation.timeline import timelines

    query_lens = {call.name: call.q.shape[2] for call in calls}
    places = timelines(trained.network, window.dates, query_lens, trained.feature_columns)  # type: ignore[arg-type]
    layers = [
        Layer(call, *places[call.name], heads=_numbers("head", config.head, call.q.shape[1]), recent=data.season)
        for call in calls
    ]  # fmt: skip
    layers = [layer for layer in layers if config.slot in ("all", layer.slot)]
    numbers = _numbers("layer", config.layer, max(layer.number for layer in layers) + 1)
    return [layer for layer in layers if layer.number in numbers]


def own_variable(trained: TrainedModel) -> int | None:
    """Which of the columns forecast the layers are shown for, where each has a sequence of its own: data.target, if
    it is one of them, else the last."""
    if trained.config["model"].get("tokens") != "independent":
        return None
    columns, wanted = trained.target_columns, trained.config["data"]["target"]
    return columns.index(wanted) if wanted in columns else len(columns) - 1


def _numbers(what: str, wanted: str | int, count: int) -> list[int]:
    if wanted == "all":
        return list(range(count))
    if not isinstance(wanted, int) or isinstance(wanted, bool) or not 0 <= wanted < count:
        raise ConfigError(f"{what}={wanted}: there are {what}s 0 to {count - 1}; give one, or all")
    return [wanted]


def facts(trained: TrainedModel, data: ForecastData, window: Window, variable: int | None) -> list[str]:
    slots = trained.config["model"]["attention"]
    alone = (
        []
        if variable is None
        else [f"each variable is forecast alone: this is {trained.target_columns[variable]}"]
    )
    return [
        f"checkpoint {trained.path}",
        f"forecast from {window.origin} to {window.dates[-1]}, every {data.freq}, from the {data.seq_len} steps since "
        f"{window.dates[0]}",
        f"attention {slots['name']}; cross-attention {slots['cross']['_target_'].rsplit('.', 1)[-1]}",
        *part_in_forecast(trained),
        *alone,
        "weights are in multiples of an even share: 1 is what each step would get if all counted the same",
    ]


def part_in_forecast(trained: TrainedModel) -> list[str]:
    """What to know first, where the layers have less than their whole part in the forecast."""
    if trained.is_untrained:
        return [
            "this model is its linear map alone: the layers are as they were before training, and add nothing to it"
        ]
    share = float(getattr(trained.network, "share", 1.0))
    return [f"of what these layers add to the linear map, {share:.0%} is used"] if share < 0.995 else []


def picture_of(trained: TrainedModel, data: ForecastData, window: Window, raw: Tensor) -> Picture:
    """The window's history, its forecast (the median, with the widest interval, of a quantile model), and the truth."""
    import torch

    from forecast.explanation.layer import Picture
    from forecast.explanation.window import in_units, window_figure
    from forecast.quantiles import arrange

    band, band_name, forecast = None, "", raw
    if trained.quantiles is not None:
        quantiles = arrange(raw, data.n_targets)[0]  # (pred_len, n_targets, quantiles)
        forecast = quantiles[None, ..., len(trained.quantiles) // 2]
        band = in_units(data, quantiles[..., 0]), in_units(data, quantiles[..., -1])
        band_name = f"{100 * (trained.quantiles[-1] - trained.quantiles[0]):g}% interval"
    past = window.batch.past[0][:, data.windows[window.split].target_index]
    truth = in_units(data, torch.cat([past, window.batch.future[0]]))
    figure = window_figure(
        window, truth, in_units(data, forecast[0]), band, list(data.target_columns), trained.network.label_len,  # type: ignore[arg-type]
        band_name,
    )  # fmt: skip
    caption = (
        "The window in the data's units. The dashed line is the first step that is forecast; the truth after it was "
        "not given to the model."
    )
    return Picture("window", figure, caption)


def show(title: str, first: Sequence[str], explained: list[Explanation], output: Path) -> None:
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(title, style="bold")
    for fact in first:
        console.print(fact)
    for explanation in explained:
        console.print(explanation.layer.title)
        for number in explanation.numbers:
            console.print(f"  {number}")
    files = sum(len(explanation.pictures) for explanation in explained) + 1
    console.print(f"saved in {output}: index.html, numbers.csv and {files} pictures")


if __name__ == "__main__":
    command("explain", explain)
