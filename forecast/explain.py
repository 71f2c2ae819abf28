"""Show what the attention did on one window: `python -m forecast.explain checkpoint=runs/RUN window=last`."""

from forecast.cli.main import command

if __name__ == "__main__":
    command("explain", "forecast.commands.explain:explain")
