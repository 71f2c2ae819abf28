"""Train a forecaster, test it beside baselines, save the results: `python -m forecast.train --help`."""

from forecast.cli.main import main_with_run_folder

if __name__ == "__main__":
    main_with_run_folder(
        "train", "forecast.commands.train:train", show_sweep="forecast.commands.compare:show_sweep"
    )
