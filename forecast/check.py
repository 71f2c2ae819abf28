"""Describe a data file before training: `python -m forecast.check --help`."""

from forecast.cli.main import main_without_run_folder

if __name__ == "__main__":
    main_without_run_folder("check", "forecast.commands.check:check")
