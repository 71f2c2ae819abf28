"""Forecast with a trained model."""

import sys
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from forecast.cli.compose import check_checkpoint
from forecast.system.errors import ConfigError
from forecast.system.files import check_free, whole_file


def predict(config: DictConfig) -> None:
    """Write a CSV file of the forecast and its bounds, and a picture of it beside recent history."""
    check_checkpoint(config)
    to_screen = config.output == "-"
    file = Path(config.output).expanduser()
    picture = file.with_suffix(".png")
    if not to_screen:
        if file.suffix != ".csv":
            raise ConfigError(f"output={config.output}: give a name that ends in .csv, or -")
        check_free(file, picture, overwrite=config.overwrite)
    # Here and not above, so that --help and --cfg answer without loading torch, and mistakes at once.
    from rich.console import Console

    from forecast.inference import predict
    from forecast.inference.forecast import describe_forecast
    from forecast.inference.model import load
    from forecast.reports import figures

    console = Console(stderr=to_screen, soft_wrap=True, highlight=False, markup=False)
    model = load(config.checkpoint)
    asked = {
        "horizon": config.horizon,
        "start": config.start,
        "levels": model.config["levels"] if config.levels is None else config.levels,
        "method": config.intervals,
    }
    run = model.path.parent.parent.name
    given = OmegaConf.to_container(config.data)
    if config.future:
        if not model.data_state["future_covariates"]:
            raise ConfigError(f"future={config.future}: this model reads no future covariates")
        given = {**given, "future_path": config.future}  # type: ignore[dict-item]
    found = predict.predict(model, model.read_panel(given), **asked)  # type: ignore[arg-type]
    lines = describe_forecast(model, found)
    for line in lines:
        console.print(line)
    if to_screen:
        found.frame().to_csv(sys.stdout, float_format="%.12g")
        return
    with whole_file(file) as temporary:
        found.frame().to_csv(temporary, float_format="%.12g")
    figures.save(figures.prediction_figure(found.plots(), f"{run}: {found.dates.shape[1]} steps"), picture)
    console.print(f"saved      {file}, {picture}")
