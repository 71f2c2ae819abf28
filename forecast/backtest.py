"""Forecast from many past origins with what was known at each: `python -m forecast.backtest --help`."""

from forecast.cli.main import main_with_run_folder

if __name__ == "__main__":
    main_with_run_folder("backtest", "forecast.commands.backtest:backtest", can_resume=False)
