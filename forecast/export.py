"""Write a trained model as one file that runs without this package: `python -m forecast.export --help`."""

from forecast.cli.main import command

if __name__ == "__main__":
    command("export", "forecast.commands.export:export")
