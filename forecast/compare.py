"""Compare trained runs in one page: `python -m forecast.compare RUNS...`, see `--help`."""

from forecast.cli.main import command

if __name__ == "__main__":
    command("compare", "forecast.commands.compare:compare", positional="runs")
