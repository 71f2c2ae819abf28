"""Visualise attention on one window, or compare the layers of several runs: `python -m forecast.explain --help`."""

from forecast.cli.main import main_without_run_folder

if __name__ == "__main__":
    main_without_run_folder("explain", "forecast.commands.explain:explain")
