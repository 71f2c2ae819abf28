"""Score a trained model again, or on other data: `python -m forecast.evaluate --help`."""

from forecast.cli.main import command

if __name__ == "__main__":
    command("evaluate", "forecast.commands.evaluate:evaluate")
