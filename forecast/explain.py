"""Measure the inputs of a model and visualise its attention on one window: `python -m forecast.explain --help`."""

from forecast.cli.main import main_without_run_folder

if __name__ == "__main__":
    main_without_run_folder("explain", "forecast.commands.explain:explain")
