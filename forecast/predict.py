"""Forecast with a trained model: `python -m forecast.predict --help`."""

import sys
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from forecast.cli import command
from forecast.configuration import check_checkpoint
from forecast.errors import ConfigError
from forecast.files import check_free, whole_file


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

    from forecast import plots, prediction, series_prediction
    from forecast.trained import load

    console = Console(stderr=to_screen, soft_wrap=True, highlight=False, markup=False)
    model = load(config.checkpoint)
    asked = {
        "horizon": config.horizon,
        "start": config.start,
        "levels": model.config["levels"] if config.levels is None else config.levels,
        "method": config.intervals,
    }
    run = model.path.parent.parent.name
    if model.has_series:
        given = {**OmegaConf.to_container(config.data), "future_path": config.future}  # type: ignore[dict-item]
        found = series_prediction.predict(model, model.panel(given), **asked)
        lines, pictured = series_prediction.described(model, found), found.examples()
    elif config.future:
        raise ConfigError(f"future={config.future}: this model reads no future covariates (data=long)")
    else:
        found = prediction.predict(model, model.table(config.data), **asked)
        lines, pictured = prediction.described(model, found), [found]
    for line in lines:
        console.print(line)
    if to_screen:
        found.frame().to_csv(sys.stdout, float_format="%.12g")
        return
    with whole_file(file) as temporary:
        found.frame().to_csv(temporary, float_format="%.12g")
    plots.save(plots.prediction_figure(pictured, f"{run}: {len(pictured[0].dates)} steps"), picture)
    console.print(f"saved      {file}, {picture}")


if __name__ == "__main__":
    command("predict", predict)
