"""Compare trained runs on one page: `python -m forecast.compare --help`."""

from forecast.cli.main import command

if __name__ == "__main__":
    command("compare", "forecast.commands.compare:compare", positional="runs")
