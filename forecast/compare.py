"""Compare trained runs on one page: `python -m forecast.compare --help`."""

from forecast.cli.main import main_without_run_folder

if __name__ == "__main__":
    main_without_run_folder("compare", "forecast.commands.compare:compare", positional="runs")
