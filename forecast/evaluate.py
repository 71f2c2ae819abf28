"""Score a trained model again, or on other data: `python -m forecast.evaluate --help`."""

from forecast.cli.main import main_without_run_folder

if __name__ == "__main__":
    main_without_run_folder("evaluate", "forecast.commands.evaluate:evaluate")
