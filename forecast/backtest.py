"""Forecast from many past origins with what was known at each: `python -m forecast.backtest --help`."""

from forecast.cli.main import main

if __name__ == "__main__":
    main("backtest", "forecast.commands.backtest:backtest")
