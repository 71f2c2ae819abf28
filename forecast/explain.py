"""Visualise the attention on one window: `python -m forecast.explain --help`."""

from forecast.cli.main import command

if __name__ == "__main__":
    command("explain", "forecast.commands.explain:explain")
