"""Test on newer rows whether a model should be trained again: `python -m forecast.monitor --help`."""

from forecast.cli.main import main_without_run_folder

if __name__ == "__main__":
    main_without_run_folder("monitor", "forecast.commands.monitor:monitor")
