"""Forecast with a trained model: `forecast predict --help`."""

import re
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from forecast.cli.compose import check_checkpoint
from forecast.cli.main import main_without_run_folder
from forecast.cli.overrides import typed_overrides
from forecast.system.errors import ConfigError, DataError, ForecastError, check_choice, user_path
from forecast.system.files import atomic_file, check_output_files
from forecast.system.formatting import quote_for_shell

if TYPE_CHECKING:
    from forecast.data import DataModule
    from forecast.data.files.write import FileFormat
    from forecast.inference.forecast import Forecast
    from forecast.inference.future_covariates import UnknownFuture
    from forecast.inference.model_data import ModelData


TABLES = (".csv", ".parquet")


def predict(config: DictConfig) -> None:
    """Write a table of the forecast and its bounds, one of its samples, and a picture beside recent history."""
    from rich.console import Console

    from forecast.inference.forecast import check_forecast
    from forecast.inference.model_data import read_model_data

    check_checkpoint(config)
    to_screen = config.output == "-"
    file = user_path(config.output)
    check_forecast(config)
    samples_files = [file.with_name(f"{file.stem}_samples{file.suffix}")] if config.samples else []
    files = [file, *samples_files, file.with_suffix(".png")]
    if not to_screen:
        if file.suffix not in TABLES:
            raise ConfigError(f"output={config.output}: give a name that ends in .csv or .parquet, or -")
        check_output_files(*files, overwrite=config.overwrite)
    console = Console(stderr=to_screen, soft_wrap=True, highlight=False, markup=False)
    model = read_model_data(config.checkpoint)
    data, found = make_forecast(model, config)
    from forecast.inference.forecast import describe_forecast, describe_test

    console.print(f"checkpoint {model.path}")
    for line in [*describe_forecast(found), *describe_test(found)]:
        console.print(line)
    keys, found, form = model.key_columns(config.data), found.rounded(), choose_format(config, data)
    frames = {file: found.frame()} | {path: found.sample_frame() for path in samples_files}
    tables = {path: form.tabulate(frame, found.panel.utc_offset, **keys) for path, frame in frames.items()}
    tables = {path: form.with_all_columns(table) for path, table in tables.items()}
    if to_screen:
        form.write([*tables.values()][-1], sys.stdout)
        return
    from forecast.reports import figures  # imports Matplotlib

    with ExitStack() as written:
        for path, table in tables.items():
            form.write(table, written.enter_context(atomic_file(path)))
        figures.save(figures.prediction_figure(found.plots(), found.title(data.title)), files[-1])
    console.print(f"saved      {', '.join(map(str, files))}{found.describe_plots()}")


def make_forecast(model: "ModelData", config: DictConfig) -> "tuple[DataModule, Forecast]":
    """Read the data and forecast them, as the configuration says. Raises ConfigError for an impossible setting."""
    from forecast.inference.model_data import add_future

    given: dict[str, Any] = OmegaConf.to_container(config.data)  # type: ignore[assignment]
    ahead = None
    if config.future:
        if not model.data_state["future_covariates"]:
            raise ConfigError(f"future={config.future}: this model reads no future covariates")
        given, ahead = add_future(model, config.future, given)
    data = model.open_data(given)
    choose_format(config, data)  # refuses an impossible one
    panel = model.read_source(data)
    from forecast.inference.forecasters import choose_forecaster, find_unread_columns  # imports PyTorch
    from forecast.inference.future_covariates import UnknownFuture
    from forecast.inference.hierarchy import predict_sums
    from forecast.inference.model import load

    forecaster = choose_forecaster(load(model.path), config.baseline)
    model.refuse_absent(data, find_unread_columns([forecaster]))
    try:
        return data, predict_sums(
            forecaster,
            panel,
            horizon=config.horizon,
            start=config.start,
            levels=model.config["levels"] if config.levels is None else config.levels,
            intervals=config.intervals,
            samples=config.samples,
            seed=config.seed,
            ahead=ahead,
            hierarchy=config.hierarchy,
        )
    except UnknownFuture as error:
        if config.output == "-":
            raise
        raise offer_blank(error, model, data, config) from None


def choose_format(config: DictConfig, data: "DataModule") -> "FileFormat":
    """The format of the tables. Raises ConfigError for an unknown one, or if the data are not in a text file."""
    from forecast.data.files.write import FileFormat, read_format

    check_choice("format", config.format, ("csv", "as_file"))
    if config.format == "csv":
        return FileFormat()
    if str(config.output).endswith(".parquet"):
        why = "it writes text: give output a name that ends in .csv"
    elif config.hierarchy is not None:
        why = "the file has series and no sums over them: leave format or hierarchy out"
    elif (found := read_format(data.source)) is None:
        why = f"{data.name} is not a text file with a row for each date: leave format out"
    else:
        return found
    raise ConfigError(f"format=as_file: {why}")


def offer_blank(unknown: "UnknownFuture", model: "ModelData", data: "DataModule", config: DictConfig) -> "DataError":
    """Write a file of the future covariates to fill in, beside the output; return an error that names the next command.

    If the file exists, or the command could not read it, none is written, and the error is that of the forecast.
    """
    from forecast.inference.future_covariates import write_blank

    file = user_path(config.output)
    blank = file.with_name(f"{file.stem}_future.csv")
    if blank.exists() and config.future:
        return DataError(f"{unknown.problem}: fill in {config.future}; {unknown.known}")
    if blank.exists():
        return unknown
    try:
        write_blank(blank, unknown, model, data.source, OmegaConf.to_container(config.data))  # type: ignore[arg-type]
    except ForecastError:
        return unknown
    typed = {**typed_overrides(), "future": f"future={blank}"}.values()
    plain = (re.sub(r"='([\w./-]*)'$", r"=\1", argument) for argument in typed)  # without Hydra's quotes
    command = " ".join(["forecast predict", *map(quote_for_shell, plain)])
    what = f"{blank} has these steps: fill in its empty columns, and run: {command}"
    return DataError(f"{unknown.problem}; {unknown.known}; {what}")


if __name__ == "__main__":
    main_without_run_folder("predict")
