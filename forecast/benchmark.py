"""Time and peak memory of attention types, one layer or a whole model: `python -m forecast.benchmark --help`."""

from forecast.cli.main import main

if __name__ == "__main__":
    main("benchmark", "forecast.commands.benchmark:benchmark")
