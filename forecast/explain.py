"""Measure the inputs of a model and visualise its attention on one window: `forecast explain --help`."""

from omegaconf import DictConfig

from forecast.cli.compose import check_checkpoint
from forecast.cli.main import main_without_run_folder
from forecast.system.errors import ConfigError, check_choice, user_path
from forecast.system.files import check_output_folder

SLOTS = ("encoder", "decoder", "cross", "variables")


def explain(config: DictConfig) -> None:
    """Measure the inputs of the forecasts, draw the chosen attention layers on one window, write and print both."""
    from forecast.data.split import SPLITS
    from forecast.inference.model_data import read_model_data

    check_checkpoint(config)
    check_choice("split", config.split, SPLITS)
    check_choice("slot", config.slot, ("all", *SLOTS))
    if config.importance_windows == 1:
        raise ConfigError("importance_windows=1: at least 2 windows are needed, or 0 to leave out importance")
    if config.repeats < 2:
        raise ConfigError(f"repeats={config.repeats} must be at least 2: their standard deviation is shown")
    output = user_path(config.output)
    check_output_folder(output, marks={"index.html"}, suffix=(".png", ".csv"), overwrite=config.overwrite)
    data = read_model_data(config.checkpoint).read_data(config.data)
    from forecast.inference.forecasters import choose_forecaster, find_unread_columns  # imports PyTorch
    from forecast.inference.model import load
    from forecast.tools.explain.explanation import explain_model

    trained = load(config.checkpoint)
    data = trained.data(data, find_unread_columns([choose_forecaster(trained)]))
    explain_model(config, trained, data, output)


if __name__ == "__main__":
    main_without_run_folder("explain")
