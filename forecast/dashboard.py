"""Create a Weights & Biases workspace and report that compare logged runs: `python -m forecast.dashboard --help`."""

from forecast.cli.main import main_without_run_folder

if __name__ == "__main__":
    main_without_run_folder("dashboard", "forecast.commands.dashboard:dashboard")
