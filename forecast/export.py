"""Write a trained model as one file that runs without this package: `python -m forecast.export --help`."""

from forecast.cli.main import main_without_run_folder

if __name__ == "__main__":
    main_without_run_folder("export", "forecast.commands.export:export")
