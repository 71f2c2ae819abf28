"""Train a forecaster, test it beside baselines, save the results: `python -m forecast.train --help`."""

from forecast.cli.main import main

if __name__ == "__main__":
    main("train", "forecast.commands.train:train")
