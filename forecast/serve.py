"""Serve forecasts over HTTP: `python -m forecast.serve --help`."""

from forecast.cli.main import main_without_run_folder

if __name__ == "__main__":
    main_without_run_folder("serve", "forecast.commands.serve:serve", positional="models")
