"""Measure time and peak memory of attention types, as a layer or a model: `python -m forecast.benchmark --help`."""

from forecast.cli.main import main_with_run_folder

if __name__ == "__main__":
    main_with_run_folder("benchmark", "forecast.commands.benchmark:benchmark", can_resume=False)
