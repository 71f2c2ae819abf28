"""Measure time and peak memory of attention types, as a layer or a model: `python -m forecast.benchmark --help`."""

from forecast.cli.main import main

if __name__ == "__main__":
    main("benchmark", "forecast.commands.benchmark:benchmark")
