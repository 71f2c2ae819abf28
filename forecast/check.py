"""Describe a data file before training: `python -m forecast.check --help`."""

from forecast.cli.main import command

if __name__ == "__main__":
    command("check", "forecast.commands.check:check")
