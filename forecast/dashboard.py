"""Create a Weights & Biases workspace and report that compare logged runs: `python -m forecast.dashboard --help`."""

from forecast.cli.main import command

if __name__ == "__main__":
    command("dashboard", "forecast.commands.dashboard:dashboard")
