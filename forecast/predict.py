"""Forecast with a trained model: `python -m forecast.predict --help`."""

from forecast.cli.main import command

if __name__ == "__main__":
    command("predict", "forecast.commands.predict:predict")
