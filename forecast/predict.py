"""Forecast with a trained model: `python -m forecast.predict --help`."""

from forecast.cli.main import main_without_run_folder

if __name__ == "__main__":
    main_without_run_folder("predict", "forecast.commands.predict:predict")
