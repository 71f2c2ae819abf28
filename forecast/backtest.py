"""Forecast from many origins as at the time: `python -m forecast.backtest --help`."""

from forecast.cli.main import main

if __name__ == "__main__":
    main("backtest", "forecast.commands.backtest:backtest")
